//! Signals on their way to other processes.

use beepgrid::{PrincipalId, RequestId};
use serde::{Deserialize, Serialize};

use crate::signals::Signal;

/// PostgreSQL takes less than 8000 bytes; the rest is for the frame and for escapes in ids.
const KEYS_PER_PAYLOAD: usize = 80;

/// What one notification says. Short names: it has to fit.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Payload {
    /// The process that sent it.
    #[serde(rename = "p")]
    process: String,
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    work: Vec<PrincipalId>,
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    requests: Vec<RequestId>,
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    access: Vec<PrincipalId>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    sequence: Option<i64>,
    #[serde(rename = "v", default, skip_serializing_if = "Vec::is_empty")]
    readers: Vec<PrincipalId>,
    #[serde(rename = "va", default, skip_serializing_if = "std::ops::Not::not")]
    all_readers: bool,
    #[serde(rename = "all", default, skip_serializing_if = "std::ops::Not::not")]
    all: bool,
}

/// As few notifications as hold `signals`.
pub(super) fn payloads(process: &str, signals: &[Signal]) -> Vec<String> {
    let pack = |signals: &[Signal]| {
        let mut payload = Payload { process: process.to_owned(), ..Payload::default() };
        for signal in signals {
            match signal {
                Signal::Work { agent } => payload.work.push(agent.clone()),
                Signal::RequestClosed { request } => payload.requests.push(request.clone()),
                Signal::Access { principal } => payload.access.push(principal.clone()),
                Signal::Event { sequence } => payload.sequence = payload.sequence.max(Some(*sequence)),
                Signal::EventFor { reader } => payload.readers.push(reader.clone()),
                Signal::EventForAll => payload.all_readers = true,
                Signal::All => payload.all = true,
            }
        }
        // Texts and numbers always have a form in JSON.
        serde_json::to_string(&payload).unwrap_or_default()
    };
    signals.chunks(KEYS_PER_PAYLOAD).map(pack).collect()
}

/// The signals of another process; `None` for our own and for what this release does not understand.
pub(super) fn signals(process: &str, payload: &str) -> Option<Vec<Signal>> {
    let payload: Payload = serde_json::from_str(payload).ok()?;
    if payload.process == process {
        return None;
    }
    let mut signals: Vec<Signal> = payload.work.into_iter().map(|agent| Signal::Work { agent }).collect();
    signals.extend(payload.requests.into_iter().map(|request| Signal::RequestClosed { request }));
    signals.extend(payload.access.into_iter().map(|principal| Signal::Access { principal }));
    signals.extend(payload.sequence.map(|sequence| Signal::Event { sequence }));
    signals.extend(payload.readers.into_iter().map(|reader| Signal::EventFor { reader }));
    signals.extend(payload.all_readers.then_some(Signal::EventForAll));
    signals.extend(payload.all.then_some(Signal::All));
    Some(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_hold_every_signal_and_stay_small() {
        let mut sent: Vec<Signal> = vec![Signal::EventForAll, Signal::Event { sequence: i64::MAX }];
        for number in 0..500 {
            sent.push(Signal::Work { agent: PrincipalId::new(format!("{number:064}")) });
        }
        sent.push(Signal::RequestClosed { request: RequestId::new("req_1") });
        sent.push(Signal::Access { principal: PrincipalId::new("per_1") });
        sent.push(Signal::EventFor { reader: PrincipalId::new("per_2") });
        sent.push(Signal::EventForAll);
        sent.push(Signal::All);
        let payloads = payloads("one", &sent);
        assert!(payloads.iter().all(|payload| payload.len() < 8000));
        assert!(payloads.iter().all(|payload| signals("one", payload).is_none()));
        let received: Vec<Signal> = payloads.iter().flat_map(|payload| signals("two", payload).unwrap()).collect();
        assert_eq!(received.len(), sent.len());
        assert!(sent.iter().all(|signal| received.contains(signal)));
    }
}
