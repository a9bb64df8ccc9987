//! The agent environments that live input can reach, as data: for `beepgrid setup`, and for programs that offer a choice.
//!
//! Nothing here runs anything. [`ENVIRONMENTS`] says for each environment which binding of this crate serves it, whether that binding can
//! steer, and what has to be known before one begins.

use crate::BusyMode;

/// An environment that agents run in, and the way into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// Its name in commands; never changes.
    pub id: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What it is: [`GROUPS`] in this order.
    pub group: &'static str,
    /// Whether input can join running work. The installed runtime still has to be able to: a binding says so when it is connected.
    pub steer: bool,
    /// The feature of this crate that has the binding; [`OWN_BINDING`] or [`NO_BINDING`] where there is none.
    pub binding: &'static str,
    /// The documentation to follow.
    pub guide: &'static str,
    /// What to know before one begins.
    pub note: &'static str,
}

/// The groups, in the order in which they are shown.
pub const GROUPS: &[&str] = &["Coding agents", "ACP agents", "Rust hosts", "Other runtimes"];
/// No binding is there; the runtime's protocol allows one, as an implementation of [`InputBinding`](crate::InputBinding).
pub const OWN_BINDING: &str = "own";
/// No binding is there; the agent reads its inbox itself, with the tools of `beepgrid mcp`.
pub const NO_BINDING: &str = "mcp";

impl Environment {
    /// The environment with this id.
    pub fn find(id: &str) -> Option<&'static Self> {
        ENVIRONMENTS.iter().find(|environment| environment.id == id)
    }

    /// Whether a binding of this crate serves it.
    pub fn has_binding(&self) -> bool {
        !matches!(self.binding, OWN_BINDING | NO_BINDING)
    }

    /// Whether input can arrive there in this mode.
    pub fn supports(&self, mode: BusyMode) -> bool {
        self.steer || mode == BusyMode::Queue
    }
}

macro_rules! environments {
    ($($id:literal: $label:literal, $group:literal, $steer:literal, $binding:expr, $guide:literal, $note:literal;)+) => {
        /// Every known environment.
        pub const ENVIRONMENTS: &[Environment] = &[$(Environment {
            id: $id, label: $label, group: $group, steer: $steer, binding: $binding, guide: $guide, note: $note,
        },)+];
    };
}

environments! {
    "claude": "Claude Code or Claude Agent SDK", "Coding agents", true, "claude", "beepgrid_receiver::claude",
        "Starts and keeps the `claude` program over stream-json, one process a session. Input joins between two tool rounds; while \
         text is being written there is no such place, and it becomes the next turn.";
    "opencode": "opencode", "Coding agents", true, "opencode", "beepgrid_receiver::opencode",
        "Talks to `opencode serve`, which you run, over its version 2 interface (/api/session). opencode stores what it admits, so a \
         repeat after a lost answer is recognised.";
    "claude-acp": "Claude through claude-agent-acp", "ACP agents", true, "acp", "beepgrid_receiver::acp",
        "Steers through `_session/steering`. A steer can cut the answer that is being written.";
    "codex": "OpenAI Codex through codex-acp", "ACP agents", true, "acp", "beepgrid_receiver::acp",
        "Runs the adapter `codex-acp`, which drives Codex's app-server. Steers through `_session/steering`. A steered input is in memory \
         until the running turn takes it.";
    "goose": "goose", "ACP agents", true, "acp", "beepgrid_receiver::acp",
        "Runs `goose acp`. Steers through goose's own method; while it works a second prompt is refused, so queued input waits in the \
         receiver's inbox.";
    "acp": "Any other ACP agent", "ACP agents", true, "acp", "beepgrid_receiver::acp",
        "Steers only if the agent announces `_meta.steering.supported` when it is initialised; otherwise the receiver waits until it \
         is idle. Evidence after a crash is the text of the replayed history.";
    "rig": "rig", "Rust hosts", true, "checkpoint", "beepgrid_receiver::checkpoint",
        "Ask the checkpoint from an `AgentHook` before each call of the model and add what joins after the tool results; put what was \
         added before back at the same place in every call. Keep the accepted ids with your own history.";
    "rust-loop": "A model loop of your own in Rust", "Rust hosts", true, "checkpoint", "beepgrid_receiver::checkpoint",
        "Your loop asks for what joins at its own boundaries and says when it has stored it, best in one transaction with its history.";
    "copilot": "GitHub Copilot CLI", "Other runtimes", false, NO_BINDING, "beepgrid mcp --help",
        "There is no binding in this release. With the tools of `beepgrid mcp` the agent reads its inbox between steps; nothing wakes \
         it while it is idle.";
    "langgraph": "LangChain or LangGraph", "Other runtimes", false, NO_BINDING, "beepgrid mcp --help",
        "There is no binding in this release. Give the graph the tools of `beepgrid mcp`, or call the HTTP API from a node; nothing \
         wakes it while it is idle.";
    "pi": "pi", "Other runtimes", false, OWN_BINDING, "beepgrid_receiver::binding",
        "There is no binding in this release. `pi --mode rpc` takes `prompt` with `streamingBehavior`; it keeps no ids, so a binding \
         has to bring an extension that stores them.";
    "custom": "Another runtime with an input of its own", "Other runtimes", true, OWN_BINDING, "beepgrid_receiver::binding",
        "Implement InputBinding: submit returns once the runtime has the input for good, reconcile says after a crash what it has. \
         Steer only if the runtime takes input while it works.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_names_a_binding_that_is_there() {
        let manifest = include_str!("../Cargo.toml");
        let features = manifest.split("[features]").nth(1).and_then(|rest| rest.split("[dependencies]").next()).unwrap();
        for environment in ENVIRONMENTS.iter().filter(|environment| environment.has_binding()) {
            let feature = format!("\n{} = [", environment.binding);
            assert!(features.contains(&feature), "{} has no feature {}", environment.id, environment.binding);
            assert_eq!(environment.guide, format!("beepgrid_receiver::{}", environment.binding), "{}", environment.id);
        }
        let names = features.lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
        for binding in names.filter(|name| !matches!(*name, "default" | "testing")) {
            assert!(ENVIRONMENTS.iter().any(|environment| environment.binding == binding), "no environment names {binding}");
        }
    }

    #[test]
    fn ids_are_unique_words_and_groups_are_known() {
        for (index, environment) in ENVIRONMENTS.iter().enumerate() {
            assert!(environment.id.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()), "{}", environment.id);
            assert_eq!(ENVIRONMENTS.iter().position(|other| other.id == environment.id), Some(index));
            assert!(GROUPS.contains(&environment.group), "{}", environment.id);
            assert!(environment.supports(BusyMode::Queue) && environment.note.ends_with('.'));
        }
        assert!(Environment::find("nothing").is_none());
    }
}
