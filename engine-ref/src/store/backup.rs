//! A copy of a SQLite database before its schema changes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;

use super::StoreError;
use super::owner::{Owner, private, sync_folder};
use super::tx::Backend;

/// Writes `<file>.before-<version>`, complete or not at all, for its owner only.
pub(super) fn before(backend: &dyn Backend, owner: &Owner, version: i64) -> Result<(), StoreError> {
    let name = |end: String| {
        let mut name = owner.database().to_owned().into_os_string();
        name.push(end);
        PathBuf::from(name)
    };
    let (copy, part) = (name(format!(".before-{version}")), name(format!(".before-{version}.part")));
    let cannot = |error: &io::Error| StoreError::Open(format!("can't back the database up to {}: {error}", copy.display()));
    let Some(part_text) = part.to_str() else {
        return Err(StoreError::Open(format!("can't back the database up: {} is not Unicode", part.display())));
    };
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(&error)),
        _ => {}
    }
    // Into a file that is there and empty, so that it is private from its first byte on.
    let file = private(OpenOptions::new().write(true).create_new(true)).open(&part).map_err(|error| cannot(&error))?;
    drop(file);
    backend.execute("VACUUM INTO :part", &[("part", &part_text)])?;
    File::open(&part)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&part, &copy))
        .and_then(|()| sync_folder(&copy))
        .map_err(|error| cannot(&error))?;
    tracing::info!(copy = %copy.display(), "the database was copied before its schema changes");
    Ok(())
}
