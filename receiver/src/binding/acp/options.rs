//! How the agent is started, and what the host decides for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::binding::link::{self, Link};

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Connect = Arc<dyn Fn() -> Boxed<io::Result<Link>> + Send + Sync>;
pub(super) type Decide = Arc<dyn Fn(PermissionAsk) -> Boxed<Permission> + Send + Sync>;
pub(super) type Serve = Arc<dyn Fn(String, Value) -> Boxed<Option<Value>> + Send + Sync>;
pub(super) type Watch = Arc<dyn Fn(&Value) + Send + Sync>;

/// How the agent takes input while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// Not at all: input waits until it is idle.
    None,
    /// Through the extension `_session/steering`.
    Standard,
    /// Through goose's own `_goose/unstable/session/steer`, which names the run that it is meant for.
    Goose,
}

/// One answer that the agent offers to its question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// What [`Permission::Choose`] takes.
    pub id: String,
    /// What people read.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or what the agent calls it.
    pub kind: String,
}

/// What the agent asks before it uses a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionAsk {
    /// The answers it offers.
    pub choices: Vec<Choice>,
    /// The tool call.
    pub tool_call: Value,
}

/// The host's answer to a [`PermissionAsk`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// This choice.
    Choose(String),
    /// No, in whatever way the agent offers.
    Reject,
}

/// How to start the agent, in which session, and what the host decides.
#[derive(Clone)]
pub struct Options {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) folder: PathBuf,
    pub(super) session: Option<String>,
    pub(super) mcp_servers: Value,
    pub(super) capabilities: Value,
    pub(super) steering: Option<Steering>,
    pub(super) read_back: bool,
    pub(super) decide: Option<Decide>,
    pub(super) serve: Option<Serve>,
    pub(super) watch: Option<Watch>,
    connect: Option<Connect>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments, environment and MCP servers can carry secrets.
        f.debug_struct("Options")
            .field("program", &self.program)
            .field("folder", &self.folder)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Starts `program` with `args` in a new session that works in `folder`, an absolute path.
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<String>>,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            folder: folder.into(),
            session: None,
            mcp_servers: json!([]),
            capabilities: json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false }),
            steering: None,
            read_back: true,
            decide: None,
            serve: None,
            watch: None,
            connect: None,
        }
    }

    /// Takes up this session, as [`super::AcpBinding::session`] named it before; a new one is begun if the agent does not know it.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// One variable of the agent's environment, beside the host's own.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The MCP servers for the session, as the protocol's `mcpServers`. `beepgrid mcp` is one: with it the agent can wait for results.
    #[must_use]
    pub fn mcp_servers(mut self, servers: Value) -> Self {
        self.mcp_servers = servers;
        self
    }

    /// How the agent takes input while it works, where it does not say so itself.
    #[must_use]
    pub fn steering(mut self, steering: Steering) -> Self {
        self.steering = Some(steering);
        self
    }

    /// Whether an idle agent is started anew to read back from its history what became of an input whose fate is open. On unless switched
    /// off; then such an input is held for a person.
    #[must_use]
    pub fn read_back(mut self, on: bool) -> Self {
        self.read_back = on;
        self
    }

    /// Answers the agent's questions before it uses a tool. Without this they are rejected. The future is dropped when the turn is cancelled.
    #[must_use]
    pub fn permission<F, A>(mut self, decide: F) -> Self
    where
        F: Fn(PermissionAsk) -> A + Send + Sync + 'static,
        A: Future<Output = Permission> + Send + 'static,
    {
        self.decide = Some(Arc::new(move |ask| Box::pin(decide(ask))));
        self
    }

    /// Serves files and terminals: `capabilities` is what the host says it can (`clientCapabilities`), `serve` answers a method with its
    /// parameters, or with nothing if it does not know it. Without this the agent has to do with its own.
    #[must_use]
    pub fn serve<F, A>(mut self, capabilities: Value, serve: F) -> Self
    where
        F: Fn(String, Value) -> A + Send + Sync + 'static,
        A: Future<Output = Option<Value>> + Send + 'static,
    {
        self.capabilities = capabilities;
        self.serve = Some(Arc::new(move |method, params| Box::pin(serve(method, params))));
        self
    }

    /// Sees every `session/update`, for display or a log. Called in order, between them: it must be quick.
    #[must_use]
    pub fn on_update(mut self, watch: impl Fn(&Value) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Reaches the agent in another way than as a child process: in a container, over a socket, or a scripted one in tests.
    #[must_use]
    pub fn connect<F, A>(mut self, connect: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = io::Result<Link>> + Send + 'static,
    {
        self.connect = Some(Arc::new(move || Box::pin(connect())));
        self
    }

    pub(super) async fn open(&self) -> io::Result<Link> {
        if let Some(connect) = &self.connect {
            return connect().await;
        }
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value))).current_dir(&self.folder);
        link::spawn(&mut command, "agent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let options = Options::new("agent", ["--key", "hush"], "/").env("KEY", "hush").mcp_servers(json!(["hush"]));
        assert!(!format!("{options:?}").contains("hush"));
    }
}
