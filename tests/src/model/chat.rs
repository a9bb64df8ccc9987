//! OpenAI's chat completions: `POST …/chat/completions`, as one JSON document or as a stream of events.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Answer, Asked, Item, NAME, text_of};

pub(super) fn read(body: &Value) -> Asked {
    let mut items = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let text = text_of(&message["content"]);
        match message["role"].as_str().unwrap_or_default() {
            "user" => items.push(Item::User(text)),
            "tool" => items.push(Item::Result(text)),
            "assistant" => {
                if !text.is_empty() {
                    items.push(Item::Said(text));
                }
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    items.push(Item::Called(call["function"]["name"].as_str().unwrap_or_default().to_owned()));
                }
            }
            _ => {}
        }
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect();
    Asked { items, tools, stream: body["stream"].as_bool().unwrap_or(false) }
}

/// The answer's content type and body.
pub(super) fn write(answer: &Answer, number: usize, stream: bool) -> (&'static str, String) {
    let id = format!("chatcmpl-{number}");
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let (content, calls, finish) = match answer {
        Answer::Text(text) => (json!(text), Value::Null, "stop"),
        Answer::Call { name, arguments } => {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            let call = json!({ "index": 0, "id": format!("call_{number}"), "type": "function", "function": function });
            (Value::Null, json!([call]), "tool_calls")
        }
    };
    let mut message = json!({ "role": "assistant", "content": content });
    if !calls.is_null() {
        message["tool_calls"] = calls;
    }
    let document =
        |object: &str, choices: Value| json!({ "id": id, "object": object, "created": 1, "model": NAME, "choices": choices });
    if !stream {
        let mut whole = document("chat.completion", json!([{ "index": 0, "message": message, "finish_reason": finish }]));
        whole["usage"] = usage;
        return ("application/json", whole.to_string());
    }
    let chunk = |choices: Value| document("chat.completion.chunk", choices);
    let mut last = chunk(json!([]));
    last["usage"] = usage;
    let chunks = [
        chunk(json!([{ "index": 0, "delta": message, "finish_reason": null }])),
        chunk(json!([{ "index": 0, "delta": {}, "finish_reason": finish }])),
        last,
    ];
    let mut text = String::new();
    for chunk in chunks {
        // Writing to a String can't fail.
        let _ = write!(text, "data: {chunk}\n\n");
    }
    text.push_str("data: [DONE]\n\n");
    ("text/event-stream", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_read_in_order_and_a_call_is_written_both_ways() {
        let body = json!({ "stream": true, "tools": [{ "type": "function", "function": { "name": "bash" } }], "messages": [
            { "role": "system", "content": "be good" },
            { "role": "user", "content": [{ "type": "text", "text": "one" }] },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "function": { "name": "bash", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "c", "content": "done" },
        ] });
        let asked = read(&body);
        let expected = [Item::User("one".into()), Item::Called("bash".into()), Item::Result("done".into())];
        assert_eq!((asked.items.as_slice(), asked.tools.as_slice()), (expected.as_slice(), ["bash".to_owned()].as_slice()));
        let call = Answer::Call { name: "bash".into(), arguments: json!({ "command": "true" }) };
        let whole: Value = serde_json::from_str(&write(&call, 1, false).1).unwrap();
        assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"command\":\"true\"}");
        let (kind, stream) = write(&call, 1, true);
        assert_eq!((kind, stream.matches("data: ").count()), ("text/event-stream", 4));
    }
}
