//! One owner, private files.
//!
//! Two locks of the operating system: one on a lock file, one on the folder itself. Both belong to the open file, so they end with the
//! process and no process number is involved. The folder's lock holds when the lock file is deleted; where folders can't be locked
//! (network file systems), the owner notices a deleted lock file before its next write and stops. The database file itself is not
//! locked by us: on some systems that lock would meet SQLite's own.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::super::{InboxError, InboxErrorKind};
use crate::mutants::{self, Mutant};

const DATABASE: &str = "inbox.db";
const LOCK: &str = "inbox.lock";

/// Proof that this process owns the folder.
pub(super) struct Ownership {
    folder: PathBuf,
    lock: File,
    folder_lock: Option<File>,
    database: Option<Identity>,
}

/// What tells one file from another that took its name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Ownership {
    pub(super) fn take(folder: &Path) -> Result<Self, InboxError> {
        make_private_folder(folder).map_err(|e| failed(folder, e))?;
        // Another path or a symbolic link leads to the same folder, and so to the same locks.
        let folder = folder.canonicalize().map_err(|e| failed(folder, e))?;
        make_empty_folder_private(&folder).map_err(|e| failed(&folder, e))?;
        check_private(&folder, true)?;
        let in_use = || InboxError::new(InboxErrorKind::InUse, folder.display().to_string());
        let folder_lock = match File::open(&folder).map_err(TryLockError::Error).and_then(|dir| dir.try_lock().map(|()| dir)) {
            Ok(dir) => Some(dir),
            Err(TryLockError::WouldBlock) if !mutants::on(Mutant::LockNotTaken) => return Err(in_use()),
            Err(_) => None,
        };
        let lock = open_private_file(&folder.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if mutants::on(Mutant::LockNotTaken) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(e)) => return Err(failed(&folder.join(LOCK), e)),
        }
        Ok(Self { folder, lock, folder_lock, database: None })
    }

    /// The database file, made private before SQLite sees it; the log files beside it get its mode.
    pub(super) fn database_file(&mut self) -> Result<PathBuf, InboxError> {
        let path = self.folder.join(DATABASE);
        drop(open_private_file(&path)?);
        self.database = identity_at(&path);
        Ok(path)
    }

    /// Fails if the files were taken away under us: writing on would go to a file that nobody finds again.
    pub(super) fn check(&self) -> Result<(), InboxError> {
        let lost = |path: &Path| {
            let about = format!("{} was removed or replaced", path.display());
            Err(InboxError::new(InboxErrorKind::LockLost, about))
        };
        let database = self.folder.join(DATABASE);
        if identity_at(&database) != self.database {
            return lost(&database);
        }
        let lock = self.folder.join(LOCK);
        if self.folder_lock.is_none() && identity_at(&lock) != identity(&self.lock) {
            return lost(&lock);
        }
        Ok(())
    }
}

fn failed(path: &Path, error: std::io::Error) -> InboxError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => InboxErrorKind::Full,
        _ => InboxErrorKind::Storage,
    };
    InboxError::new(kind, path.display().to_string()).because(error)
}

fn open_private_file(path: &Path) -> Result<File, InboxError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(InboxError::new(InboxErrorKind::NotPrivate, format!("{} is not a plain file", path.display())));
        }
        Ok(_) => check_private(path, false)?,
        Err(_) => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|e| failed(path, e))
}

#[cfg(unix)]
fn make_private_folder(folder: &Path) -> Result<(), std::io::Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A folder that somebody made for us with `mkdir` and that holds nothing yet is closed to others; one with content is left alone.
#[cfg(unix)]
fn make_empty_folder_private(folder: &Path) -> Result<(), std::io::Error> {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::read_dir(folder)?.next().is_none() {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_empty_folder_private(_folder: &Path) -> Result<(), std::io::Error> {
    Ok(())
}

#[cfg(not(unix))]
fn make_private_folder(folder: &Path) -> Result<(), std::io::Error> {
    fs::create_dir_all(folder)
}

#[cfg(unix)]
fn check_private(path: &Path, folder: bool) -> Result<(), InboxError> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path).map_err(|e| failed(path, e))?;
    let refuse = |what: &str| Err(InboxError::new(InboxErrorKind::NotPrivate, format!("{} {what}", path.display())));
    if folder != found.is_dir() {
        return refuse("is not a folder");
    }
    if found.mode() & 0o077 != 0 {
        return refuse(&format!("has mode {:04o}; take away the rights of group and others", found.mode() & 0o7777));
    }
    if !folder && found.nlink() != 1 {
        return refuse("has a second name (hard link)");
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_path: &Path, _folder: bool) -> Result<(), InboxError> {
    Ok(())
}

#[cfg(unix)]
fn of(found: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    Identity(found.dev(), found.ino())
}

// Elsewhere an open file can't be removed or replaced, so presence is identity.
#[cfg(not(unix))]
fn of(_found: &fs::Metadata) -> Identity {
    Identity(0, 0)
}

fn identity_at(path: &Path) -> Option<Identity> {
    fs::symlink_metadata(path).ok().map(|found| of(&found))
}

fn identity(file: &File) -> Option<Identity> {
    file.metadata().ok().map(|found| of(&found))
}
