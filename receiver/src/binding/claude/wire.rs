//! The records of Claude's stream-json, as far as the binding needs them. Pure: lines in, records out, and the lines that go the other way.

use beepgrid::DeliveryId;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Namespace of the ids that inputs carry; fixed for ever, because transcripts hold them.
const NAMESPACE: Uuid = Uuid::from_u128(0x6b0c_5f0e_9d0b_5c57_8f6a_5b1d_f3a2_c914);

/// How urgent an input is to Claude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// Joins the running turn at its next tool round, or opens the next one.
    Next,
    /// A turn of its own, after the running one.
    Later,
}

/// What Claude says about one of our inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Queued,
    Started,
    Completed,
    /// It will not run (any further): cancelled, discarded or refused.
    Ended,
}

/// What the session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Working {
    Idle,
    Running,
}

/// One line from Claude.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    /// A turn begins; says which session it is.
    Init {
        session: Option<String>,
    },
    State(Working),
    Life(Uuid, Life),
    /// An input came back as an echo. Not a proof that it was taken: what is repeated after a cancel is echoed too, and dropped.
    Replay(Uuid),
    /// Tool results that went into the session.
    ToolResults(Vec<String>),
    /// The model spoke.
    Assistant,
    /// A turn is over.
    TurnOver,
    /// Claude asks something of the host.
    Ask {
        id: String,
        request: Value,
    },
    /// Claude takes a question back.
    AskWithdrawn {
        id: String,
    },
    /// The answer to something we asked.
    Answer {
        id: String,
        answer: Result<Value, String>,
    },
    /// Anything else.
    Other,
}

impl Record {
    pub(super) fn read(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            "system" => match (text("subtype"), text("state")) {
                (Some("init"), _) => Self::Init { session: text("session_id").map(str::to_owned) },
                (Some("session_state_changed"), Some("idle")) => Self::State(Working::Idle),
                (Some("session_state_changed"), Some(_)) => Self::State(Working::Running),
                _ => Self::Other,
            },
            "command_lifecycle" => {
                let Some(uuid) = text("command_uuid").and_then(|uuid| uuid.parse().ok()) else { return Self::Other };
                match text("state").unwrap_or_default() {
                    "queued" => Self::Life(uuid, Life::Queued),
                    "started" => Self::Life(uuid, Life::Started),
                    "completed" => Self::Life(uuid, Life::Completed),
                    "cancelled" | "discarded" | "refused" => Self::Life(uuid, Life::Ended),
                    _ => Self::Other,
                }
            }
            "user" if value.get("isReplay") == Some(&Value::Bool(true)) => {
                text("uuid").and_then(|uuid| uuid.parse().ok()).map_or(Self::Other, Self::Replay)
            }
            "user" => Self::ToolResults(tool_results(value)),
            "assistant" | "stream_event" => Self::Assistant,
            "result" => Self::TurnOver,
            "control_request" => match (text("request_id"), value.get("request")) {
                (Some(id), Some(request)) => Self::Ask { id: id.to_owned(), request: request.clone() },
                _ => Self::Other,
            },
            "control_cancel_request" => text("request_id").map_or(Self::Other, |id| Self::AskWithdrawn { id: id.to_owned() }),
            "control_response" => answer(value).unwrap_or(Self::Other),
            _ => Self::Other,
        }
    }
}

fn answer(value: &Value) -> Option<Record> {
    let response = value.get("response")?;
    let id = response.get("request_id")?.as_str()?.to_owned();
    let answer = if response.get("subtype").and_then(Value::as_str) == Some("success") {
        Ok(response.get("response").cloned().unwrap_or(Value::Null))
    } else {
        Err(response.get("error").and_then(Value::as_str).unwrap_or("no reason given").to_owned())
    };
    Some(Record::Answer { id, answer })
}

/// The ids of the tool calls whose results a user record carries.
pub(super) fn tool_results(record: &Value) -> Vec<String> {
    let blocks = record.pointer("/message/content").and_then(Value::as_array);
    let ids = blocks.into_iter().flatten().filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"));
    ids.filter_map(|block| block.get("tool_use_id")?.as_str().map(str::to_owned)).collect()
}

/// The id under which Claude knows an input. It answers a repeat of the same id by an echo, also when it had only cancelled it, so a new
/// `round` begins after each cancel.
pub(super) fn input_uuid(id: &DeliveryId, round: u32) -> Uuid {
    match round {
        0 => Uuid::new_v5(&NAMESPACE, id.as_str().as_bytes()),
        round => Uuid::new_v5(&NAMESPACE, format!("{id}#{round}").as_bytes()),
    }
}

/// One line for Claude.
fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// An input, of the receiver's if it has a priority. `isSynthetic` makes Claude show it as a message that is not from its user, and
/// `client_composed` as it is written: no file that it mentions is read, no slash command in it is run.
pub(super) fn user(session: &str, uuid: Uuid, text: &str, priority: Option<Priority>) -> Vec<u8> {
    let mut record = json!({
        "type": "user",
        "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
        "parent_tool_use_id": null,
        "session_id": session,
        "uuid": uuid,
    });
    if let (Some(priority), Some(record)) = (priority, record.as_object_mut()) {
        let word = match priority {
            Priority::Next => "next",
            Priority::Later => "later",
        };
        record.insert("priority".to_owned(), word.into());
        record.insert("isSynthetic".to_owned(), true.into());
        record.insert("client_composed".to_owned(), true.into());
    }
    line(&record)
}

/// A question to Claude.
pub(super) fn ask(id: &str, subtype: &str, more: Value) -> Vec<u8> {
    let mut request = match more {
        Value::Object(more) => more,
        _ => Map::new(),
    };
    request.insert("subtype".to_owned(), subtype.into());
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// The answer to a question of Claude's.
pub(super) fn reply(id: &str, answer: &Result<Value, String>) -> Vec<u8> {
    let response = match answer {
        Ok(response) => json!({ "subtype": "success", "request_id": id, "response": response }),
        Err(error) => json!({ "subtype": "error", "request_id": id, "error": error }),
    };
    line(&json!({ "type": "control_response", "response": response }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart() {
        let uuid = Uuid::from_u128(7);
        let read = |value: Value| Record::read(&value);
        let life = json!({ "type": "command_lifecycle", "command_uuid": uuid, "state": "started" });
        assert_eq!(read(life), Record::Life(uuid, Life::Started));
        let replay = json!({ "type": "user", "uuid": uuid, "isReplay": true, "message": {} });
        assert_eq!(read(replay), Record::Replay(uuid));
        let waiting = json!({ "type": "system", "subtype": "session_state_changed", "state": "requires_action" });
        assert_eq!(read(waiting), Record::State(Working::Running));
        let result = json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "toolu_1" }] } });
        assert_eq!(read(result), Record::ToolResults(vec!["toolu_1".to_owned()]));
        for odd in [
            json!(null),
            json!([]),
            json!("x"),
            json!({ "type": 7 }),
            json!({ "type": "command_lifecycle" }),
            json!({ "type": "control_request" }),
        ] {
            assert_eq!(read(odd), Record::Other);
        }
    }

    #[test]
    fn an_input_keeps_its_id_until_it_is_cancelled() {
        let id = DeliveryId::new("dlv_1");
        assert_eq!(input_uuid(&id, 0), input_uuid(&id, 0));
        assert_ne!(input_uuid(&id, 0), input_uuid(&id, 1));
        assert_ne!(input_uuid(&id, 0), input_uuid(&DeliveryId::new("dlv_2"), 0));
        // Pinned: transcripts of earlier versions hold it.
        assert_eq!(input_uuid(&id, 0).get_version_num(), 5);
    }

    #[test]
    fn a_line_is_one_line_whatever_the_text() {
        let text = "a\nb\u{2028}\"c";
        let line = String::from_utf8(user("s", Uuid::nil(), text, Some(Priority::Later))).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["message"]["content"][0]["text"], text);
        assert_eq!((&value["priority"], &value["client_composed"]), (&json!("later"), &json!(true)));
        assert_eq!(value["isSynthetic"], true, "a peer's words are not the user's");
    }
}
