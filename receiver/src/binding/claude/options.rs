//! How Claude is started, and what the host decides for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use tokio::process::Command;
use uuid::Uuid;

use crate::binding::link::{self, Link};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(super) type Connect = Arc<dyn Fn(Launch) -> Boxed<io::Result<Link>> + Send + Sync>;
pub(super) type Decide = Arc<dyn Fn(PermissionAsk) -> Boxed<Permission> + Send + Sync>;
pub(super) type Watch = Arc<dyn Fn(&Value) + Send + Sync>;

/// Which session a process is started for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// The session's id, a UUID.
    pub session: String,
    /// Whether Claude has a transcript of it: then it is taken up again, else it is begun.
    pub resume: bool,
}

/// What Claude asks before it uses a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionAsk {
    /// The tool.
    pub tool: String,
    /// What it is called with.
    pub input: Value,
    /// The whole question as it came.
    pub request: Value,
}

/// The host's answer to a [`PermissionAsk`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Permission {
    /// Go on, with the input as asked for or another.
    Allow {
        /// The input to use.
        input: Value,
    },
    /// Don't; the model reads why.
    Deny {
        /// Why not.
        message: String,
    },
}

/// How to start Claude, in which session, and what the host decides.
#[derive(Clone)]
pub struct Options {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) folder: Option<PathBuf>,
    pub(super) config_dir: Option<PathBuf>,
    pub(super) session: String,
    pub(super) waits_yield: bool,
    pub(super) decide: Option<Decide>,
    pub(super) watch: Option<Watch>,
    pub(super) connect: Option<Connect>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and environment can carry secrets.
        f.debug_struct("Options")
            .field("program", &self.program)
            .field("session", &self.session)
            .field("folder", &self.folder)
            .field("config_dir", &self.config_dir)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Starts `program` (most often `claude`) in a session of its own. The session's id is made here; keep [`Options::session_id`] and give it
    /// back through [`Options::session`] after a restart, or nothing of what the session knows comes back.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            folder: None,
            config_dir: None,
            session: Uuid::new_v4().to_string(),
            waits_yield: true,
            decide: None,
            watch: None,
            connect: None,
        }
    }

    /// The session to take up or to begin: a UUID.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = id.into();
        self
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// Further arguments, after those that the binding needs: `--model`, `--allowedTools`, …
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// One variable of Claude's environment, beside the host's own.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The folder that Claude works in; a session can be taken up again only in the folder where it began.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Where Claude keeps its transcripts: `CLAUDE_CONFIG_DIR`, by default `.claude` in the home folder.
    #[must_use]
    pub fn config_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config_dir = Some(folder.into());
        self
    }

    /// Whether an agent that waits for a result stops waiting when a steered input arrives, so that it can read it; it may wait again. On unless
    /// switched off: otherwise the input would reach the model only after the result.
    #[must_use]
    pub fn waits_yield(mut self, on: bool) -> Self {
        self.waits_yield = on;
        self
    }

    /// Answers Claude's questions before it uses a tool. Without this they are denied. The future is dropped when Claude takes its question back.
    #[must_use]
    pub fn permission<F, A>(mut self, decide: F) -> Self
    where
        F: Fn(PermissionAsk) -> A + Send + Sync + 'static,
        A: Future<Output = Permission> + Send + 'static,
    {
        self.decide = Some(Arc::new(move |ask| Box::pin(decide(ask))));
        self
    }

    /// Sees every record that Claude writes, for display or a log. Called in the order of the records, between them: it must be quick.
    #[must_use]
    pub fn on_record(mut self, watch: impl Fn(&Value) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Reaches Claude in another way than as a child process: in a container, over a tunnel, or a scripted one in tests. The transcripts must
    /// still be in reach under [`Options::config_dir`].
    #[must_use]
    pub fn connect<F, A>(mut self, connect: F) -> Self
    where
        F: Fn(Launch) -> A + Send + Sync + 'static,
        A: Future<Output = io::Result<Link>> + Send + 'static,
    {
        self.connect = Some(Arc::new(move |launch| Box::pin(connect(launch))));
        self
    }

    /// The folder with the transcripts, as Claude itself finds it.
    pub(super) fn transcripts(&self) -> Option<PathBuf> {
        let set = |name: &str| self.env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| PathBuf::from(value));
        let inherited = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let own = self.config_dir.clone().or_else(|| set("CLAUDE_CONFIG_DIR")).or_else(|| inherited("CLAUDE_CONFIG_DIR"));
        own.or_else(|| Some(set("HOME").or_else(|| inherited("HOME"))?.join(".claude")))
    }

    pub(super) async fn open(&self, launch: Launch) -> io::Result<Link> {
        match &self.connect {
            Some(connect) => connect(launch).await,
            None => link::spawn(&mut self.command(&launch), "claude"),
        }
    }

    /// Everything after the program's name.
    pub(super) fn command_line(&self, launch: &Launch) -> Vec<String> {
        let mut args: Vec<String> = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
            .into_iter()
            .chain(["--replay-user-messages", if launch.resume { "--resume" } else { "--session-id" }])
            .map(str::to_owned)
            .collect();
        args.push(launch.session.clone());
        if self.decide.is_some() {
            args.extend(["--permission-prompt-tool", "stdio"].map(str::to_owned));
        }
        args.extend(self.args.iter().cloned());
        args
    }

    fn command(&self, launch: &Launch) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(self.command_line(launch))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1");
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(config_dir) = &self.config_dir {
            command.env("CLAUDE_CONFIG_DIR", config_dir);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_begun_once_and_then_taken_up() {
        let options = Options::new("claude").session("s").args(["--model", "m"]);
        let line = |resume| options.command_line(&Launch { session: "s".to_owned(), resume }).join(" ");
        assert!(line(false).contains("--session-id s --model m"));
        assert!(line(true).contains("--resume s --model m"));
        assert!(!line(true).contains("--permission-prompt-tool"));
    }

    #[test]
    fn secrets_in_the_environment_are_not_shown() {
        let options = Options::new("claude").env("ANTHROPIC_API_KEY", "hush").args(["--settings", "hush"]);
        assert!(!format!("{options:?}").contains("hush"));
        let options = options.env("CLAUDE_CONFIG_DIR", "/elsewhere");
        assert_eq!(options.transcripts(), Some(PathBuf::from("/elsewhere")));
        assert_eq!(options.config_dir("/here").transcripts(), Some(PathBuf::from("/here")));
    }
}
