//! The bytes of files: rows of the database, or files of a folder that the rows name.
//!
//! A file's bytes are written once, under a name that was never used and is never used again, and its row is there before it is. So
//! whatever the process dies in, there is a row for every file, and one that nobody refers to goes with its file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use beepgrid::Timestamp;

use super::open::Attachments;
use super::owner::{private, sync_folder};
use super::{ReadTx, StoreError, WriteTx};

/// Where the bytes are when there is a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Database(Vec<u8>),
    Folder,
}

/// Stores bytes, or notes a file that is about to be written.
pub(crate) fn insert(tx: &WriteTx<'_>, id: &str, bytes: Option<&[u8]>) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO blobs (id, bytes, kept, created_at) VALUES (:id, :bytes, FALSE, :now)",
        &[("id", &id), ("bytes", &bytes), ("now", &tx.now())],
    )?;
    Ok(())
}

/// Whether the row is still there.
pub(crate) fn is_there(tx: &ReadTx<'_>, id: &str) -> Result<bool, StoreError> {
    // Index: primary key.
    Ok(tx.find("SELECT id FROM blobs WHERE id = :id", &[("id", &id)])?.is_some())
}

/// Notes that bytes stay: what refers to them is no draft.
pub(crate) fn keep(tx: &WriteTx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE blobs SET kept = TRUE WHERE id = :id AND kept = FALSE", &[("id", &id)])?;
    Ok(())
}

/// Where the bytes are.
pub(crate) fn find(tx: &ReadTx<'_>, id: &str) -> Result<Option<Place>, StoreError> {
    // Index: primary key.
    let Some(row) = tx.find("SELECT bytes FROM blobs WHERE id = :id", &[("id", &id)])? else { return Ok(None) };
    Ok(Some(row.opt_blob("bytes")?.map_or(Place::Folder, Place::Database)))
}

/// Bytes older than `until` to which no attachment refers: no new one can.
pub(crate) fn unreferenced(tx: &ReadTx<'_>, until: Timestamp, after: &str, limit: i64) -> Result<Vec<String>, StoreError> {
    // Index: blobs_loose, which has drafts and what is left behind, and attachments_blob for each.
    tx.query(
        "SELECT b.id FROM blobs b
         WHERE b.kept = FALSE AND b.id > :after AND b.created_at <= :until AND NOT EXISTS (SELECT 1 FROM attachments a WHERE a.blob_id = b.id)
         ORDER BY b.id LIMIT :limit",
        &[("until", &until), ("after", &after), ("limit", &limit)],
    )?
    .iter()
    .map(|row| row.text("id"))
    .collect()
}

/// Forgets bytes, unless somebody refers to them.
pub(crate) fn remove(tx: &WriteTx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM blobs WHERE id = :id AND kept = FALSE AND NOT EXISTS (SELECT 1 FROM attachments a WHERE a.blob_id = :id)",
        &[("id", &id)],
    )?;
    Ok(())
}

/// Where a store keeps new bytes, and where it finds those that are in files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blobs {
    folder: Option<Folder>,
    into_database: bool,
}

impl Blobs {
    /// What was asked for; by default the folder beside a database file, else the database.
    pub(super) fn open(wanted: Option<&Attachments>, database: Option<&Path>) -> Result<Self, StoreError> {
        let folder = match (wanted, database) {
            (Some(Attachments::Folder(path)), _) => Some(Folder::open(path)?),
            (None, Some(database)) => Some(Folder::open(&beside(database))?),
            // What was in files before stays readable.
            (Some(Attachments::Database), Some(database)) if beside(database).is_dir() => Some(Folder::open(&beside(database))?),
            (Some(Attachments::Database), _) | (None, None) => None,
        };
        Ok(Self { folder, into_database: !matches!((wanted, database), (Some(Attachments::Folder(_)), _) | (None, Some(_))) })
    }

    /// The folder that new bytes go to; `None` when they go to the database.
    pub(crate) fn for_writing(&self) -> Option<&Folder> {
        self.folder.as_ref().filter(|_| !self.into_database)
    }

    /// The folder, if there is one.
    pub(crate) fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }
}

/// The folder of a database file, whose path has no links in it.
fn beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".files");
    PathBuf::from(path)
}

/// A private folder of files. Its calls block.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The folder, which is made, private, if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let cannot = |error: &io::Error| StoreError::Open(format!("can't keep files in {}: {error}", path.display()));
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|error| cannot(&error))?;
        let path = fs::canonicalize(path).map_err(|error| cannot(&error))?;
        sync_folder(&path).map_err(|error| cannot(&error))?;
        Ok(Self(path))
    }

    /// Writes a file, whole and durable, or not at all.
    pub(crate) fn write(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        let (part, whole) = (self.part(id), self.file(id));
        let written = private(OpenOptions::new().write(true).create_new(true)).open(&part).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let written = written.and_then(|()| fs::rename(&part, &whole)).and_then(|()| sync_folder(&whole));
        if written.is_err() {
            // The first error says more. What stays is found by its row.
            drop(self.remove(id));
        }
        written
    }

    /// The bytes of a file, if it has `size` of them.
    pub(crate) fn read(&self, id: &str, size: u64) -> io::Result<Vec<u8>> {
        let file = File::open(self.file(id))?;
        let found = file.metadata()?.len();
        if found != size {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the file has {found} bytes instead of {size}")));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        io::Read::read_to_end(&mut io::Read::take(file, size), &mut bytes)?;
        Ok(bytes)
    }

    /// Removes a file, whole or half written; fine if it is not there.
    pub(crate) fn remove(&self, id: &str) -> io::Result<()> {
        for path in [self.part(id), self.file(id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&self, id: &str) -> PathBuf {
        self.0.join(id)
    }

    fn part(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.part"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("files")).unwrap();
        (dir, folder)
    }

    #[test]
    fn a_file_is_whole_private_and_written_once() {
        let (_dir, folder) = folder();
        folder.write("blb_1", b"abc").unwrap();
        assert_eq!(folder.read("blb_1", 3).unwrap(), b"abc");
        assert_eq!(folder.read("blb_1", 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(!folder.part("blb_1").exists());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&folder.file("blb_1")), 0o600);
            assert_eq!(mode(&folder.0), 0o700);
        }
    }

    #[test]
    fn a_file_goes_with_its_half_and_a_missing_one_is_fine() {
        let (_dir, folder) = folder();
        fs::write(folder.part("blb_1"), b"half").unwrap();
        folder.remove("blb_1").unwrap();
        assert!(!folder.part("blb_1").exists());
        folder.remove("blb_1").unwrap();
        assert_eq!(folder.read("blb_1", 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let (_dir, folder) = folder();
        fs::create_dir(folder.file("blb_1")).unwrap();
        fs::write(folder.file("blb_1").join("x"), b"").unwrap();
        assert!(folder.write("blb_1", b"abc").is_err());
        assert!(!folder.part("blb_1").exists());
    }
}
