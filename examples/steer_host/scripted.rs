//! A stand-in for a model, behind the HTTP that a real one speaks: told "wait N" it calls the tool, else it says what it has read.

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

/// Serves until the program ends; returns the address.
pub(crate) async fn serve() -> anyhow::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let app = Router::new().route("/v1/chat/completions", post(async |Json(asked): Json<Value>| Json(answer(&asked))));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

fn answer(asked: &Value) -> Value {
    let messages = asked.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let role = |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
    // Of each message what the peer wrote: the quoted lines of its frame.
    let quoted = |message: &Value| {
        let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
        content.lines().filter_map(|line| line.strip_prefix("> ")).collect::<Vec<_>>().join(" ")
    };
    let turn = messages.iter().rposition(|message| role(message, "assistant") && message.get("tool_calls").is_none());
    let news = messages.get(turn.map_or(0, |end| end + 1)..).unwrap_or_default();
    let said: Vec<String> = news.iter().filter(|message| role(message, "user")).map(quoted).collect();
    let wanted = said.iter().find_map(|text| text.strip_prefix("wait ")?.parse::<f64>().ok());
    let message = match wanted {
        Some(seconds) if !news.iter().any(|message| role(message, "tool")) => {
            json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "call_1", "type": "function", "function": { "name": "wait", "arguments": json!({ "seconds": seconds }).to_string() } },
        ] })
        }
        _ => json!({ "role": "assistant", "content": format!("I have read: {}", said.join(" | ")) }),
    };
    json!({ "choices": [{ "index": 0, "message": message }] })
}
