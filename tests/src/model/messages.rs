//! Anthropic's messages: `POST …/messages`, as one JSON document or as a stream of events.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Answer, Asked, Item, NAME, text_of};

pub(super) fn read(body: &Value) -> Asked {
    let mut items = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let said = message["role"] == "assistant";
        let whole = [json!({ "type": "text", "text": message["content"] })];
        let parts = message["content"].as_array().map_or(whole.as_slice(), Vec::as_slice);
        for part in parts {
            let text = || part["text"].as_str().unwrap_or_default().to_owned();
            match part["type"].as_str().unwrap_or_default() {
                "text" if said => items.push(Item::Said(text())),
                // A system text among the messages is what the runtime says on somebody's behalf.
                "text" => items.push(Item::User(text())),
                "tool_use" => items.push(Item::Called(part["name"].as_str().unwrap_or_default().to_owned())),
                "tool_result" => items.push(Item::Result(text_of(&part["content"]))),
                _ => {}
            }
        }
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
    Asked { items, tools, stream: body["stream"].as_bool().unwrap_or(false) }
}

/// The answer's content type and body.
pub(super) fn write(answer: &Answer, number: usize, stream: bool) -> (&'static str, String) {
    let (block, delta, stop) = match answer {
        Answer::Text(text) => {
            (json!({ "type": "text", "text": text }), json!({ "type": "text_delta", "text": text }), "end_turn")
        }
        Answer::Call { name, arguments } => (
            json!({ "type": "tool_use", "id": format!("toolu_{number}"), "name": name, "input": arguments }),
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }),
            "tool_use",
        ),
    };
    let mut message = json!({ "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": NAME, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 1 } });
    if !stream {
        message["content"] = json!([block]);
        message["stop_reason"] = json!(stop);
        return ("application/json", message.to_string());
    }
    let mut empty = block;
    match empty["type"].as_str() {
        Some("text") => empty["text"] = json!(""),
        _ => empty["input"] = json!({}),
    }
    let end = json!({ "stop_reason": stop, "stop_sequence": null });
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let mut text = String::new();
    for event in events {
        // Writing to a String can't fail.
        let _ = write!(text, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    }
    ("text/event-stream", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_read_in_order_and_a_call_is_written_both_ways() {
        let body = json!({ "stream": true, "tools": [{ "name": "Bash" }], "system": "be good", "messages": [
            { "role": "user", "content": "one" },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": "done" }] }] },
            { "role": "system", "content": [{ "type": "text", "text": "two" }] },
        ] });
        let asked = read(&body);
        let expected =
            [Item::User("one".into()), Item::Called("Bash".into()), Item::Result("done".into()), Item::User("two".into())];
        assert_eq!((asked.items.as_slice(), asked.tools.as_slice()), (expected.as_slice(), ["Bash".to_owned()].as_slice()));
        let call = Answer::Call { name: "Bash".into(), arguments: json!({ "command": "true" }) };
        let whole: Value = serde_json::from_str(&write(&call, 1, false).1).unwrap();
        assert_eq!(whole["content"][0]["input"]["command"], "true");
        let (kind, stream) = write(&call, 1, true);
        assert_eq!((kind, stream.matches("event: ").count()), ("text/event-stream", 6));
    }
}
