//! An engine with an owner and two agents that may reach each other, a private folder, and the program run in it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use beepgrid::{Client, EnrollInput, PermissionRule, PrincipalId, RoleBindingInput, RoleInput, RuleAction, Session, Target};
use beepgrid_engine_ref::Engine;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) owner: Client,
    pub(crate) owner_id: PrincipalId,
    pub(crate) builder: Client,
    pub(crate) builder_id: PrincipalId,
    pub(crate) billing: Client,
    pub(crate) billing_id: PrincipalId,
    folder: TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        let engine = Engine::builder().in_memory().start().await.expect("an engine");
        let owner = engine.owner();
        let owner_id = owner.me().await.expect("me").id().expect("an id").clone();
        let builder = owner.enroll(EnrollInput::new("team/builder-7", "Builder 7")).await.expect("enrolled");
        let billing = owner.enroll(EnrollInput::new("team/billing-2", "Billing 2")).await.expect("enrolled");
        for (from, targets) in [
            (&builder, [Target::agent(&billing.agent.id), Target::person(&owner_id)]),
            (&billing, [Target::agent(&builder.agent.id), Target::person(&owner_id)]),
        ] {
            let actions = [RuleAction::View, RuleAction::Message, RuleAction::Ask];
            let rules = targets.iter().flat_map(|to| actions.clone().map(|action| PermissionRule::allow(action, to)));
            let role = owner.create_role(RoleInput::new(&from.agent.name, rules.collect())).await.expect("a role");
            owner.bind_role(RoleBindingInput::principal(&role.id, &from.agent.id)).await.expect("bound");
        }
        let folder = TempDir::new().expect("a folder");
        let world = Self {
            builder: client(&engine, &builder),
            billing: client(&engine, &billing),
            builder_id: builder.agent.id,
            billing_id: billing.agent.id,
            owner,
            owner_id,
            folder,
            engine,
        };
        world.secret("owner", world.engine.owner_token());
        world.secret("builder", &builder.token);
        world.secret("billing", &billing.token);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a token file.
    pub(crate) fn secret(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("private");
        path
    }

    /// Writes a JSON file.
    pub(crate) fn input(&self, name: &str, value: &Value) -> String {
        fs::write(self.path(name), value.to_string()).expect("written");
        name.to_owned()
    }

    /// The program with the credential in this file.
    pub(crate) fn command(&self, who: &str, arguments: &[&str]) -> Command {
        let mut command = beepgrid(self.folder.path(), arguments);
        command.env("BEEPGRID_URL", self.engine.url()).env("BEEPGRID_TOKEN_FILE", self.path(who));
        command
    }

    pub(crate) async fn run(&self, who: &str, arguments: &[&str]) -> Ran {
        finished(self.command(who, arguments), "").await
    }

    /// Runs it with something on standard input.
    pub(crate) async fn feed(&self, who: &str, arguments: &[&str], input: &str) -> Ran {
        finished(self.command(who, arguments), input).await
    }
}

fn client(engine: &Engine, session: &Session) -> Client {
    Client::new(engine.url(), session.token.as_str()).expect("a client")
}

/// The program in a folder, with nothing of this process's environment but the search path.
pub(crate) fn beepgrid(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_beepgrid"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// How a command ended.
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { exit: output.status.code().expect("an exit code"), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The one document of a success.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!((self.exit, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// The one object of a failure with this exit code and error code.
    #[track_caller]
    pub(crate) fn fails(&self, exit: i32, code: &str) -> Value {
        let error: Value = serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {}", self.stderr));
        assert_eq!((self.exit, error["code"].as_str()), (exit, Some(code)), "{error}");
        assert!(self.stdout.is_empty(), "a failure prints no result: {}", self.stdout);
        assert!(error["message"].is_string());
        error
    }
}

/// Runs a command that ends by itself.
pub(crate) async fn finished(mut command: Command, input: &str) -> Ran {
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let fed = async move {
        // A command that does not want it has ended already.
        drop(stdin.write_all(input.as_bytes()).await);
    };
    let both = async { tokio::join!(fed, child.wait_with_output()).1 };
    Ran::of(tokio::time::timeout(PATIENCE, both).await.expect("it ends").expect("its output"))
}

/// Sends a signal to a running command.
pub(crate) async fn signal(child: &Child, name: &str) {
    let id = child.id().expect("it runs").to_string();
    assert!(Command::new("kill").args([name, &id]).status().await.expect("kill").success());
}

/// How a running command ends.
pub(crate) async fn ended(child: Child) -> Ran {
    Ran::of(tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("its output"))
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o777
}

/// An engine that says this to everybody, whatever is asked. It reads a request before it answers; `None` never answers.
pub(crate) async fn scripted(answer: Option<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 65_536];
            let _ = stream.read(&mut head).await;
            if let Some(answer) = &answer {
                let _ = stream.write_all(answer.as_bytes()).await;
            }
            open.push(stream);
            if answer.is_some() {
                open.clear();
            }
        }
    });
    url
}

/// A successful answer with this JSON.
pub(crate) fn answered(json: &str) -> String {
    let length = json.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{json}")
}
