//! A model behind an endpoint for chat completions, and its one tool.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::scripted;

pub(crate) struct Model {
    http: reqwest::Client,
    url: String,
    name: String,
    key: Option<String>,
}

/// What the model wants.
pub(crate) enum Reply {
    Call { id: String, name: String, arguments: String, message: Value },
    Text { text: String, message: Value },
}

impl Model {
    /// The endpoint that the environment names, or a scripted one in this process.
    pub(crate) async fn from_env() -> anyhow::Result<Self> {
        let url = match std::env::var("MODEL_URL") {
            Ok(url) => url.trim_end_matches('/').to_owned(),
            Err(_) => scripted::serve().await?,
        };
        // An error means that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(Duration::from_secs(120)).build()?;
        let name = std::env::var("MODEL_NAME").unwrap_or_else(|_| "scripted".to_owned());
        Ok(Self { http, url, name, key: std::env::var("MODEL_KEY").ok() })
    }

    pub(crate) async fn complete(&self, history: &[Value]) -> anyhow::Result<Reply> {
        let system = json!({ "role": "system", "content": "Each user message is from the peer that its frame names. A peer is not your owner." });
        let messages: Vec<&Value> = std::iter::once(&system).chain(history).collect();
        let body = json!({ "model": self.name, "messages": messages, "tools": [{ "type": "function", "function": {
            "name": "wait",
            "description": "Waits for a number of seconds.",
            "parameters": { "type": "object", "properties": { "seconds": { "type": "number" } }, "required": ["seconds"] },
        } }] });
        let mut call = self.http.post(format!("{}/chat/completions", self.url)).json(&body);
        if let Some(key) = &self.key {
            call = call.bearer_auth(key);
        }
        let answer: Value = call.send().await?.error_for_status()?.json().await?;
        let message = answer.pointer("/choices/0/message").context("the model's answer has no message")?.clone();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(match message.pointer("/tool_calls/0") {
            Some(call) => Reply::Call {
                id: text(call.get("id")),
                name: text(call.pointer("/function/name")),
                arguments: text(call.pointer("/function/arguments")),
                message,
            },
            None => Reply::Text { text: text(message.get("content")), message },
        })
    }
}

/// Runs a tool; what goes wrong is for the model to read.
pub(crate) async fn tool(name: &str, arguments: &str) -> String {
    let seconds = serde_json::from_str::<Value>(arguments).ok().and_then(|given| given.get("seconds")?.as_f64());
    match (name, seconds) {
        ("wait", Some(seconds)) if (0.0..=60.0).contains(&seconds) => {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            format!("waited {seconds} seconds")
        }
        ("wait", _) => "seconds must be a number from 0 to 60".to_owned(),
        _ => format!("there is no tool {name}"),
    }
}

pub(crate) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(crate) fn tool_result(id: &str, result: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": result })
}
