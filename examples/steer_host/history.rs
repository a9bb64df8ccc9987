//! What is in the model's context, on disk: one JSON line for each entry, with the delivery that it came from.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

pub(crate) struct History {
    kept: Mutex<(File, Vec<Entry>)>,
}

struct Entry {
    delivery: Option<String>,
    message: Value,
}

impl History {
    /// Reads what an earlier run left. A last line that a crash cut off was never accepted: it is dropped.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let text = std::fs::read_to_string(path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(u64::try_from(whole)?)?;
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).map(|line| Entry {
            delivery: line.get("delivery").and_then(Value::as_str).map(str::to_owned),
            message: line.get("message").cloned().unwrap_or_default(),
        });
        Ok(Self { kept: Mutex::new((file, entries.collect())) })
    }

    fn kept(&self) -> MutexGuard<'_, (File, Vec<Entry>)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On disk when it returns.
    pub(crate) fn add(&self, delivery: Option<&str>, message: Value) -> anyhow::Result<()> {
        let mut kept = self.kept();
        let mut line = json!({ "delivery": delivery, "message": message }).to_string();
        line.push('\n');
        kept.0.write_all(line.as_bytes())?;
        kept.0.sync_data()?;
        kept.1.push(Entry { delivery: delivery.map(str::to_owned), message });
        Ok(())
    }

    pub(crate) fn holds(&self, delivery: &str) -> bool {
        self.kept().1.iter().any(|entry| entry.delivery.as_deref() == Some(delivery))
    }

    /// For the model.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.kept().1.iter().map(|entry| entry.message.clone()).collect()
    }
}
