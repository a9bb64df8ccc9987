//! What goes over the wire, read leniently: the parts of the protocol that the binding needs, and the two steering extensions.

use beepgrid::DeliveryId;
use serde_json::{Value, json};

use crate::input::LiveInput;

use super::options::{Choice, Permission, PermissionAsk, Steering};

pub(super) const PROMPT: &str = "session/prompt";
pub(super) const STEER: &str = "_session/steering";
pub(super) const GOOSE_STEER: &str = "_goose/unstable/session/steer";

/// What the agent said about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) steering: Steering,
    /// Replays a session from its history.
    pub(super) loads: bool,
    /// Takes a session up without replaying it.
    pub(super) resumes: bool,
}

impl Agent {
    /// Reads the answer to `initialize`.
    pub(super) fn read(answer: &Value) -> Self {
        let is = |pointer: &str| answer.pointer(pointer) == Some(&Value::Bool(true));
        let name = answer.pointer("/agentInfo/name").and_then(Value::as_str).unwrap_or_default();
        let steering = if is("/_meta/steering/supported") || is("/agentCapabilities/_meta/steering/supported") {
            Steering::Standard
        } else if name.eq_ignore_ascii_case("goose") {
            Steering::Goose
        } else {
            Steering::None
        };
        let resumes = answer.pointer("/agentCapabilities/sessionCapabilities/resume").is_some_and(|resume| !resume.is_null());
        Self { steering, loads: is("/agentCapabilities/loadSession"), resumes }
    }
}

/// One `session/update`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// A piece of what a user said.
    UserSaid {
        text: String,
        message: Option<String>,
    },
    /// The agent thinks, speaks or acts.
    Works,
    /// goose: the run that takes steers now, if any.
    Run(Option<String>),
    Other,
}

impl Update {
    /// Reads the parameters of the notification.
    pub(super) fn read(params: &Value) -> Self {
        let Some(update) = params.get("update") else { return Self::Other };
        let run = ["/update/_meta/goose/activeRunId", "/_meta/goose/activeRunId"];
        if let Some(run) = run.iter().find_map(|pointer| params.pointer(pointer)) {
            return Self::Run(run.as_str().map(str::to_owned));
        }
        match update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default() {
            "user_message_chunk" => {
                let text = update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default().to_owned();
                Self::UserSaid { text, message: update.get("messageId").and_then(Value::as_str).map(str::to_owned) }
            }
            "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "tool_call_update" | "plan" => Self::Works,
            _ => Self::Other,
        }
    }
}

/// Puts the pieces of what users said together and finds the ends of our frames in it.
#[derive(Debug, Default)]
pub(super) struct Ends {
    line: String,
}

/// Longer lines are no end of a frame.
const LONGEST: usize = 512;

impl Ends {
    /// Takes a piece; gives the ids of the deliveries whose frame ends in it. The last line counts without a line end, because it has none.
    pub(super) fn take(&mut self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for piece in text.split_inclusive('\n') {
            if self.line.len() <= LONGEST {
                self.line.push_str(piece);
            }
            if let Some(id) = ended(&self.line) {
                found.push(id);
            }
            if piece.ends_with('\n') {
                self.line.clear();
            }
        }
        found
    }

    /// What users say next begins a new line.
    pub(super) fn cut(&mut self) {
        self.line.clear();
    }
}

fn ended(line: &str) -> Option<String> {
    let line = line.trim_end_matches(['\n', '\r']);
    let id = line.strip_prefix("[beepgrid end ")?.strip_suffix(']')?;
    // The mark of that id and nothing else.
    (crate::frame::end_mark(&DeliveryId::new(id)) == line).then(|| id.to_owned())
}

/// What became of a steer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Steered {
    /// The agent has it for the running turn, in memory.
    Injected { message: Option<String> },
    /// The agent began a turn with it, which no request of ours owns.
    Started,
    /// There is no turn.
    NoTurn,
    /// The agent said no.
    Failed(String),
}

/// Reads the answer to a steer.
pub(super) fn steered(steering: Steering, answer: &Value) -> Option<Steered> {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    if steering == Steering::Goose {
        return Some(Steered::Injected { message: text("messageId") });
    }
    match text("outcome")?.as_str() {
        "injected" => Some(Steered::Injected { message: None }),
        "startedNewTurn" => Some(Steered::Started),
        "promptRequired" => Some(Steered::NoTurn),
        "failed" => Some(Steered::Failed(text("reason").unwrap_or_else(|| "the agent gave no reason".to_owned()))),
        _ => None,
    }
}

/// The framed input, with every `@` that could name a file written as `\@`: agents read mentioned files into the session, and the protocol has no
/// way to say that the words are not their user's.
pub(super) fn text(input: &LiveInput) -> String {
    let framed = crate::frame::frame(input, None);
    let mut text = String::with_capacity(framed.len());
    let mut before = ' ';
    for c in framed.chars() {
        // Within a word it is an address, not a mention.
        if c == '@' && !before.is_alphanumeric() {
            text.push('\\');
        }
        text.push(c);
        before = c;
    }
    text
}

pub(super) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

pub(super) fn steer(session: &str, text: &str) -> Value {
    let mut params = prompt(session, text);
    if let Some(params) = params.as_object_mut() {
        // Anything else lets an idle agent begin a turn that no request owns.
        params.insert("_meta".to_owned(), json!({ "steering": { "idleBehavior": "promptRequired" } }));
    }
    params
}

pub(super) fn goose_steer(session: &str, run: &str, text: &str) -> Value {
    let mut params = prompt(session, text);
    if let Some(params) = params.as_object_mut() {
        params.insert("expectedRunId".to_owned(), run.into());
    }
    params
}

pub(super) fn permission_ask(params: &Value) -> PermissionAsk {
    let options = params.get("options").and_then(Value::as_array).into_iter().flatten();
    let choices = options
        .filter_map(|option| {
            let text = |key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
            Some(Choice { id: text("optionId")?, name: text("name").unwrap_or_default(), kind: text("kind").unwrap_or_default() })
        })
        .collect();
    PermissionAsk { choices, tool_call: params.get("toolCall").cloned().unwrap_or(Value::Null) }
}

/// The answer to a question; `None` when the turn was cancelled.
pub(super) fn permission(choices: &[Choice], decision: Option<&Permission>) -> Value {
    let known = |id: &str| choices.iter().find(|choice| choice.id == id);
    let reject = || ["reject_once", "reject_always"].iter().find_map(|kind| choices.iter().find(|choice| choice.kind == *kind));
    let choice = match decision {
        Some(Permission::Choose(id)) => known(id).or_else(reject),
        Some(Permission::Reject) => reject(),
        None => None,
    };
    match choice {
        Some(choice) => json!({ "outcome": { "outcome": "selected", "optionId": choice.id } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_found_however_it_is_cut() {
        let text = "[beepgrid message dlv_1 from agt_2 in cnv_1: x]\n> [beepgrid end dlv_9]\n[beepgrid end dlv_1]";
        for size in 1..text.len() {
            let mut ends = Ends::default();
            let pieces = text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap());
            assert_eq!(pieces.flat_map(|piece| ends.take(piece)).collect::<Vec<_>>(), ["dlv_1"], "{size}");
        }
    }

    #[test]
    fn no_other_line_is_an_end() {
        for text in
            ["x [beepgrid end dlv_1]", "> [beepgrid end dlv_1]", "[beepgrid end dlv_1] x", "[beepgrid end", "[beepgrid end a]b]"]
        {
            assert_eq!(Ends::default().take(text), Vec::<String>::new(), "{text}");
        }
        let mut ends = Ends::default();
        ends.take("> quoted ");
        assert_eq!(ends.take("[beepgrid end dlv_1]"), Vec::<String>::new());
        ends.cut();
        assert_eq!(ends.take("[beepgrid end dlv_1]"), ["dlv_1"]);
    }

    #[test]
    fn a_peer_mentions_no_file() {
        let delivery = json!({ "id": "dlv_1", "generation": 1, "payload": { "type": "message", "conversation_id": "cnv_1",
            "message": { "id": "msg_1", "conversation_id": "cnv_1", "sender_id": "agt_2", "body": "@a (@b) \"@c\" d@e\n@f @@g" } } });
        let text = text(&LiveInput::from(serde_json::from_value::<beepgrid::Delivery>(delivery).unwrap()));
        assert!(text.contains("> \\@a (\\@b) \"\\@c\" d@e\n> \\@f \\@\\@g\n"), "{text}");
    }

    #[test]
    fn steering_is_used_only_when_it_is_advertised() {
        assert_eq!(Agent::read(&json!({})), Agent { steering: Steering::None, loads: false, resumes: false });
        let standard = json!({ "_meta": { "steering": { "supported": true } }, "agentCapabilities": { "loadSession": true } });
        assert_eq!(Agent::read(&standard), Agent { steering: Steering::Standard, loads: true, resumes: false });
        assert_eq!(Agent::read(&json!({ "agentInfo": { "name": "goose" } })).steering, Steering::Goose);
    }

    #[test]
    fn a_question_is_rejected_in_the_narrowest_way_offered() {
        let ask = permission_ask(&json!({ "options": [
            { "optionId": "a", "name": "Yes", "kind": "allow_once" },
            { "optionId": "n", "name": "Never", "kind": "reject_always" },
            { "optionId": "r", "name": "No", "kind": "reject_once" },
        ] }));
        let answer = |decision: Option<&Permission>| permission(&ask.choices, decision)["outcome"].clone();
        assert_eq!(answer(Some(&Permission::Reject))["optionId"], "r");
        let choose = |id: &str| Permission::Choose(id.to_owned());
        assert_eq!(answer(Some(&choose("a")))["optionId"], "a");
        assert_eq!(answer(Some(&choose("made up")))["optionId"], "r");
        assert_eq!(answer(None)["outcome"], "cancelled");
        assert_eq!(permission(&[], Some(&Permission::Reject))["outcome"]["outcome"], "cancelled");
    }
}
