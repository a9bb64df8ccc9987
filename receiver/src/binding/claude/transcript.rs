//! Claude's own record of a session on disk: the only proof that an input is in it for good.
//!
//! A line is written some milliseconds after Claude says `started` and echoes the input, so neither of them is a proof.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use beepgrid::DeliveryId;
use serde_json::Value;
use uuid::Uuid;

use super::wire;

/// A longer line is skipped.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// What is looked for on behalf of one input.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) id: DeliveryId,
    /// The ids under which it may have gone out as an input.
    pub(super) uuids: Vec<Uuid>,
    /// The tool call whose result it may have been.
    pub(super) tool_call: Option<String>,
}

/// Where the transcript of a session is, if there is one yet.
pub(super) fn find(config_dir: &Path, session: &str) -> Option<PathBuf> {
    let name = format!("{session}.jsonl");
    let projects = std::fs::read_dir(config_dir.join("projects")).ok()?;
    projects.flatten().map(|project| project.path().join(&name)).find(|path| path.is_file())
}

/// Looks through the complete lines from `offset` on. Returns who was found, and where the next look may begin.
pub(super) fn look(path: &Path, offset: u64, wanted: &[Wanted]) -> std::io::Result<(BTreeSet<DeliveryId>, u64)> {
    let mut file = File::open(path)?;
    // A file that became shorter was written anew.
    let mut offset = if file.metadata()?.len() < offset { 0 } else { offset };
    file.seek(SeekFrom::Start(offset))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let needles: Vec<Needle<'_>> = wanted.iter().map(Needle::new).collect();
    let mut found = BTreeSet::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut length = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
        let mut complete = line.last() == Some(&b'\n');
        if !complete && length == MAX_LINE {
            let (skipped, end) = skip_line(&mut reader)?;
            (length, complete) = (length + skipped, end);
            line.clear();
        }
        if !complete {
            return Ok((found, offset));
        }
        offset += length;
        if let Ok(line) = std::str::from_utf8(&line) {
            found.extend(needles.iter().filter(|needle| needle.is_in(line)).map(|needle| needle.wanted.id.clone()));
        }
    }
}

fn skip_line(reader: &mut BufReader<File>) -> std::io::Result<(u64, bool)> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((skipped, false));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        skipped += used as u64;
        reader.consume(used);
        if end.is_some() {
            return Ok((skipped, true));
        }
    }
}

struct Needle<'a> {
    wanted: &'a Wanted,
    uuids: Vec<String>,
    mark: String,
}

impl<'a> Needle<'a> {
    fn new(wanted: &'a Wanted) -> Self {
        let uuids = wanted.uuids.iter().map(Uuid::to_string).collect();
        Self { wanted, uuids, mark: crate::frame::end_mark(&wanted.id) }
    }

    fn is_in(&self, line: &str) -> bool {
        let call = self.wanted.tool_call.as_deref();
        let mentions = line.contains(&self.mark)
            || self.uuids.iter().any(|uuid| line.contains(uuid.as_str()))
            || call.is_some_and(|call| line.contains(call));
        mentions && serde_json::from_str::<Value>(line).is_ok_and(|record| self.holds(&record))
    }

    /// Whether a record is the input itself, and not something that only mentions it.
    fn holds(&self, record: &Value) -> bool {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let ours = |uuid: &str| self.uuids.iter().any(|ours| ours == uuid);
        match text(record, "type").as_deref() {
            Some("user") => {
                let merged = record.get("mergedSendUuids").and_then(Value::as_array);
                text(record, "uuid").is_some_and(|uuid| ours(&uuid))
                    || merged.into_iter().flatten().filter_map(Value::as_str).any(ours)
                    || self.wanted.tool_call.as_ref().is_some_and(|call| wire::tool_results(record).contains(call))
                    || record.pointer("/message/content").is_some_and(|content| self.is_marked(content))
            }
            Some("attachment") => record.get("attachment").is_some_and(|attachment| {
                text(attachment, "type").as_deref() == Some("queued_command")
                    && (text(attachment, "source_uuid").is_some_and(|uuid| ours(&uuid))
                        || attachment.get("prompt").is_some_and(|prompt| self.is_marked(prompt)))
            }),
            _ => false,
        }
    }

    /// Whether a text of the message ends our frame around this input; quoted text can't.
    fn is_marked(&self, content: &Value) -> bool {
        let marked = |text: &str| text.lines().any(|line| line == self.mark);
        match content {
            Value::String(text) => marked(text),
            Value::Array(blocks) => blocks
                .iter()
                .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
                .any(|block| block.get("text").and_then(Value::as_str).is_some_and(marked)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn wanted(id: &str) -> Wanted {
        let id = DeliveryId::new(id);
        Wanted { uuids: vec![wire::input_uuid(&id, 0)], tool_call: None, id }
    }

    fn holds(id: &str, record: &Value) -> bool {
        let wanted = wanted(id);
        Needle::new(&wanted).is_in(&record.to_string())
    }

    #[test]
    fn an_input_is_found_as_a_turn_folded_and_merged() {
        let uuid = wire::input_uuid(&"dlv_1".into(), 0);
        assert!(holds("dlv_1", &json!({ "type": "user", "uuid": uuid })));
        assert!(holds("dlv_1", &json!({ "type": "user", "uuid": "other", "mergedSendUuids": [uuid] })));
        let folded = json!({ "type": "queued_command", "source_uuid": uuid });
        assert!(holds("dlv_1", &json!({ "type": "attachment", "attachment": folded })));
        let marked = json!([{ "type": "text", "text": "> x\n[beepgrid end dlv_1]\n" }]);
        assert!(holds("dlv_1", &json!({ "type": "user", "message": { "content": marked } })));
    }

    #[test]
    fn what_only_mentions_an_input_is_no_proof() {
        let uuid = wire::input_uuid(&"dlv_1".into(), 0);
        let mark = "[beepgrid end dlv_1]";
        for record in [
            json!({ "type": "assistant", "uuid": uuid, "message": { "content": mark } }),
            json!({ "type": "queue-operation", "operation": "enqueue", "commandUuid": uuid }),
            json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t", "content": mark }] } }),
            json!({ "type": "user", "message": { "content": format!("> {mark}") } }),
        ] {
            assert!(!holds("dlv_1", &record), "{record}");
        }
    }

    #[test]
    fn a_look_goes_on_where_the_last_complete_line_ended() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let uuid = wire::input_uuid(&"dlv_1".into(), 0);
        let half = json!({ "type": "user", "uuid": uuid }).to_string();
        let (first, second) = half.split_at(20);
        write!(file, "not json\n\n{first}").unwrap();
        let wanted = [wanted("dlv_1")];
        let (found, offset) = look(file.path(), 0, &wanted).unwrap();
        assert_eq!((found.len(), offset), (0, 10));
        writeln!(file, "{second}").unwrap();
        let (found, end) = look(file.path(), offset, &wanted).unwrap();
        assert!(found.contains(&DeliveryId::new("dlv_1")));
        assert_eq!(look(file.path(), end, &wanted).unwrap(), (BTreeSet::new(), end));
    }
}
