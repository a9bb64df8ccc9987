//! Files that a command makes: new, for their owner only, whole or not there.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::failure::Refused;

/// A file that will appear under its name once it is complete. Dropped before, nothing is left.
#[derive(Debug)]
pub(crate) struct NewFile {
    staged: NamedTempFile,
    target: PathBuf,
}

impl NewFile {
    /// Makes sure that the file can be made, before anything happens that can't be taken back.
    pub(crate) fn prepare(target: &Path) -> anyhow::Result<Self> {
        let refuse = |problem: &str| Refused::input("output_file", format!("{}: {problem}", target.display()));
        if target.file_name().is_none() || target.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(refuse("is not the path of a file").into());
        }
        if target.symlink_metadata().is_ok() {
            return Err(refuse("is there already; nothing is overwritten").into());
        }
        let folder = folder(target);
        let staged = tempfile::Builder::new().prefix(".beepgrid-").tempfile_in(folder);
        let staged = staged.map_err(|error| refuse(&format!("can't be made: {error}")))?;
        make_private(staged.as_file()).map_err(|error| refuse(&format!("can't be kept private: {error}")))?;
        Ok(Self { staged, target: target.to_owned() })
    }

    /// As [`NewFile::prepare`], for a secret: its folder is made too, for its owner only.
    pub(crate) fn prepare_secret(target: &Path) -> anyhow::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(folder(target))
            .map_err(|error| Refused::input("output_file", format!("{}: its folder can't be made: {error}", target.display())))?;
        Self::prepare(target)
    }

    /// Writes the content and gives the file its name. If that is taken meanwhile, the content stays where the error says.
    pub(crate) fn finish(mut self, content: &[u8]) -> anyhow::Result<Value> {
        let target = self.target;
        let cannot = || format!("can't write {}", target.display());
        self.staged.write_all(content).with_context(cannot)?;
        self.staged.as_file().sync_all().with_context(cannot)?;
        if let Err(refused) = self.staged.persist_noclobber(&target) {
            let error = anyhow::Error::from(refused.error).context(cannot());
            let (_, kept) = refused.file.keep().context("the content is lost")?;
            return Err(error.context(format!("the content is kept in {}", kept.display())));
        }
        if cfg!(unix) {
            File::open(folder(&target)).and_then(|folder| folder.sync_all()).with_context(cannot)?;
        }
        Ok(json!({ "saved": target.to_string_lossy(), "bytes": content.len() }))
    }
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The umask may have taken the owner's bits, and some file systems ignore modes: the result is checked, not assumed.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    if file.metadata()?.mode() & 0o777 == 0o600 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "this file system can't keep a file private"))
}

#[cfg(not(unix))]
fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_meanwhile_keeps_both_contents() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("token");
        let new = NewFile::prepare(&target).expect("prepared");
        fs::write(&target, "another's").expect("written");
        let error = format!("{:#}", new.finish(b"ours").expect_err("the name is taken"));
        assert_eq!(fs::read(&target).expect("there"), b"another's");
        let kept = fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file").path());
        let kept: Vec<_> = kept.filter(|path| *path != target).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(fs::read(&kept[0]).expect("there"), b"ours");
        assert!(error.contains(kept[0].to_str().expect("a path")), "{error}");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(NewFile::prepare(&folder.path().join("a")).expect("prepared"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
