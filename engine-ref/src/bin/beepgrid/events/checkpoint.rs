//! A position in the event stream, in a file that always holds a whole one.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::failure::Refused;

/// Longer than any sequence and its line end.
const MAX_BYTES: u64 = 32;

/// The position, and where it is kept.
#[derive(Debug)]
pub(super) struct Checkpoint {
    file: Option<PathBuf>,
    position: i64,
}

impl Checkpoint {
    /// A position that is kept nowhere.
    pub(super) fn nowhere(position: i64) -> Self {
        Self { file: None, position }
    }

    /// The position in the file; `after` if it is not there, and then it is made.
    pub(super) fn open(file: &Path, after: i64) -> anyhow::Result<Self> {
        let mut checkpoint = Self { file: Some(file.to_owned()), position: after };
        let refuse = |problem: String| Refused::input("checkpoint", format!("{}: {problem}", file.display()));
        match fs::symlink_metadata(file) {
            Ok(found) if !found.is_file() => return Err(refuse("is not a plain file".to_owned()).into()),
            Ok(_) => checkpoint.position = read(file).map_err(refuse)?,
            // Found out now that it can't be written, not after the first event.
            Err(_) => checkpoint.write().map_err(|error| refuse(format!("can't be written: {error:#}")))?,
        }
        Ok(checkpoint)
    }

    pub(super) fn position(&self) -> i64 {
        self.position
    }

    /// Moves forward; the file has the new position when it returns, or the old one.
    pub(super) fn save(&mut self, position: i64) -> anyhow::Result<()> {
        if position <= self.position {
            return Ok(());
        }
        self.position = position;
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let cannot = || format!("can't write {}", file.display());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut staged = tempfile::Builder::new().prefix(".beepgrid-").tempfile_in(folder).with_context(cannot)?;
        writeln!(staged, "{}", self.position).with_context(cannot)?;
        staged.as_file().sync_data().with_context(cannot)?;
        staged.persist(file).with_context(cannot)?;
        Ok(())
    }
}

fn read(file: &Path) -> Result<i64, String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.map_err(|error| format!("can't be read: {error}"))?;
    let position = text.trim_end().parse::<i64>().ok().filter(|position| *position >= 0);
    position.ok_or_else(|| "does not hold a position: one number on one line".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_kept_and_only_grows() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("position");
        let mut checkpoint = Checkpoint::open(&file, 7).expect("opened");
        assert_eq!(fs::read_to_string(&file).expect("there"), "7\n");
        checkpoint.save(9_007_199_254_740_993).expect("saved");
        checkpoint.save(8).expect("ignored");
        assert_eq!(Checkpoint::open(&file, 0).expect("opened").position(), 9_007_199_254_740_993);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_is_no_position_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("notes");
        for text in ["", "-1", "12 13", "hello", "99999999999999999999999999999999999999"] {
            fs::write(&file, text).expect("written");
            assert!(Checkpoint::open(&file, 0).is_err(), "{text:?}");
            assert_eq!(fs::read_to_string(&file).expect("there"), text);
        }
        assert!(Checkpoint::open(folder.path(), 0).is_err());
        assert!(Checkpoint::open(&folder.path().join("nowhere/position"), 0).is_err());
    }
}
