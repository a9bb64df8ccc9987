//! One engine per SQLite file: where the file really is, and the lock beside it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::StoreError;

/// The right to use a database file, held as long as this value lives, by the system and not by a process number.
#[derive(Debug)]
pub(super) struct Owner {
    database: PathBuf,
    lock: PathBuf,
    held: File,
}

impl Owner {
    /// Takes a database file for this engine and creates it, private, if it is not there.
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        let database = real_path(path)?;
        let mut lock = database.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let held = private(OpenOptions::new().read(true).write(true).create(true).truncate(false))
            .open(&lock)
            .map_err(|error| cannot("create", &lock, &error))?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Open(format!("another engine uses the database {}", database.display())));
            }
            Err(TryLockError::Error(error)) => return Err(cannot("lock", &lock, &error)),
        }
        let owner = Self { database, lock, held };
        owner.check()?;
        owner.create()?;
        Ok(owner)
    }

    /// The file by its one name: no symbolic links, no `..`.
    pub(super) fn database(&self) -> &Path {
        &self.database
    }

    /// Fails once the lock file was removed or replaced: somebody else could hold another one then.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if is_same(&self.held, &self.lock) {
            return Ok(());
        }
        Err(StoreError::unavailable("the lock file beside the database was removed; restart the engine"))
    }

    /// Creates the database file before SQLite does, which would leave it readable to others.
    fn create(&self) -> Result<(), StoreError> {
        match private(OpenOptions::new().write(true).create_new(true)).open(&self.database) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(cannot("create", &self.database, &error)),
        }
        sync_folder(&self.database).map_err(|error| cannot("create", &self.database, &error))
    }
}

/// Options for a file that only its owner may read.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes a new or renamed file's name durable.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    if cfg!(unix)
        && let Some(folder) = file.parent()
    {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn real_path(path: &Path) -> Result<PathBuf, StoreError> {
    let known = match fs::metadata(path) {
        Ok(known) => known,
        Err(_) if fs::symlink_metadata(path).is_ok() => {
            return Err(StoreError::Open(format!("{} is a symbolic link to nowhere", path.display())));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return new_path(path),
        Err(error) => return Err(cannot("open", path, &error)),
    };
    if !known.is_file() {
        return Err(StoreError::Open(format!("{} is not a file", path.display())));
    }
    // SQLite keeps its log under the file's name: a second name would have a second log.
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&known) > 1 {
        return Err(StoreError::Open(format!("{} has more than one name (hard links)", path.display())));
    }
    fs::canonicalize(path).map_err(|error| cannot("open", path, &error))
}

fn new_path(path: &Path) -> Result<PathBuf, StoreError> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::Open(format!("{} is not the name of a file", path.display())));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| cannot("create", folder, &error))?;
    Ok(fs::canonicalize(folder).map_err(|error| cannot("open", folder, &error))?.join(name))
}

#[cfg(unix)]
fn is_same(held: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |known: io::Result<fs::Metadata>| known.ok().map(|known| (known.dev(), known.ino()));
    let held = identity(held.metadata());
    held.is_some() && held == identity(fs::metadata(path))
}

/// Elsewhere a file that is open can't be removed.
#[cfg(not(unix))]
fn is_same(_held: &File, path: &Path) -> bool {
    path.exists()
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Open(format!("can't {what} {}: {error}", path.display()))
}
