//! The one tool that the host serves to Claude, over the control channel: waiting for the result of a request.

use beepgrid::RequestId;
use serde_json::{Value, json};

use super::state::Waiting;

/// The name under which Claude knows the host's tools.
pub(super) const SERVER: &str = "beepgrid";
/// The tool that waits.
pub(super) const WAIT: &str = "wait_for_result";

/// What a message of Claude's to the server comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Served {
    /// The answer to send now.
    Now(Value),
    /// A call that waits for the result of this request.
    Waits(RequestId, Waiting),
    /// The call with this number is not waited for any more.
    Withdrawn(Value),
}

/// Serves one message; `ask` is the question that carries it.
pub(super) fn serve(ask: &str, message: &Value) -> Served {
    let rpc = message.get("id").cloned().unwrap_or(Value::Null);
    let params = message.get("params");
    match message.get("method").and_then(Value::as_str).unwrap_or_default() {
        "initialize" => {
            let version = params.and_then(|params| params.get("protocolVersion")).cloned().unwrap_or_else(|| "2025-06-18".into());
            let info = json!({ "name": SERVER, "version": env!("CARGO_PKG_VERSION") });
            let result = json!({ "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": info });
            Served::Now(wrap(&rpc, &Ok(result)))
        }
        "tools/list" => Served::Now(wrap(&rpc, &Ok(json!({ "tools": [tool()] })))),
        "tools/call" => call(ask, rpc, params),
        "notifications/cancelled" => {
            Served::Withdrawn(params.and_then(|params| params.get("requestId")).cloned().unwrap_or(Value::Null))
        }
        "ping" => Served::Now(wrap(&rpc, &Ok(json!({})))),
        method if method.starts_with("notifications/") => Served::Now(wrap(&json!(0), &Ok(json!({})))),
        _ => Served::Now(wrap(&rpc, &Err("this server does not know the method"))),
    }
}

fn call(ask: &str, rpc: Value, params: Option<&Value>) -> Served {
    let text = |pointer: &str| params.and_then(|params| params.pointer(pointer)).and_then(Value::as_str);
    if text("/name") != Some(WAIT) {
        return Served::Now(wrap(&rpc, &Err("this server does not know the tool")));
    }
    let Some(request) = text("/arguments/request_id").filter(|request| !request.is_empty()) else {
        return Served::Now(said(&rpc, "Name the request: request_id is missing.", true));
    };
    match text("/_meta/claudecode~1toolUseId") {
        Some(tool_call) => {
            Served::Waits(RequestId::new(request), Waiting { ask: ask.to_owned(), rpc, tool_call: tool_call.to_owned() })
        }
        // Without the call's name there would be no proof that its result arrived.
        None => Served::Now(said(&rpc, "Waiting is not possible here. Go on; the result comes as a message.", false)),
    }
}

fn tool() -> Value {
    json!({
        "name": WAIT,
        "description": "Waits for the result of a Beepgrid request that you sent (its id begins with req_). Returns early when other input \
            arrives; call it again then. Without it the result comes as a message when you are done.",
        "inputSchema": {
            "type": "object",
            "properties": { "request_id": { "type": "string", "description": "The id of your request" } },
            "required": ["request_id"],
        },
    })
}

/// The answer to a waiting call.
pub(super) fn said(rpc: &Value, text: &str, is_error: bool) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    wrap(rpc, &Ok(json!({ "content": content, "isError": is_error })))
}

/// What a waiting call hears when other input arrives.
pub(super) fn come_back(request: &RequestId) -> String {
    format!("No result of {request} yet; new input arrives. Call {WAIT} again when you have read it.")
}

fn wrap(rpc: &Value, result: &Result<Value, &str>) -> Value {
    let message = match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": rpc, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": rpc, "error": { "code": -32601, "message": error } }),
    };
    json!({ "mcp_response": message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_with(params: &Value) -> Served {
        serve("ask-1", &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }))
    }

    #[test]
    fn a_call_that_can_be_proven_waits() {
        let meta = json!({ "claudecode/toolUseId": "toolu_1" });
        let served = call_with(&json!({ "name": WAIT, "arguments": { "request_id": "req_1" }, "_meta": meta }));
        let waiting = Waiting { ask: "ask-1".to_owned(), rpc: json!(2), tool_call: "toolu_1".to_owned() };
        assert_eq!(served, Served::Waits(RequestId::new("req_1"), waiting));
    }

    #[test]
    fn everything_else_is_answered_at_once() {
        for params in [
            json!({}),
            json!({ "name": "other" }),
            json!({ "name": WAIT }),
            json!({ "name": WAIT, "arguments": { "request_id": "req_1" } }),
        ] {
            assert!(matches!(call_with(&params), Served::Now(_)), "{params}");
        }
        for method in ["initialize", "tools/list", "ping", "notifications/initialized", "resources/list", ""] {
            assert!(matches!(serve("ask-1", &json!({ "id": 1, "method": method })), Served::Now(_)), "{method}");
        }
        assert!(matches!(serve("ask-1", &Value::Null), Served::Now(_)));
    }
}
