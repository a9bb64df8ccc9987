use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::error::{Chain, ErrorKind};

const SECRET: &str = "bgt_0123456789abcdef";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn write(path: &Path, content: &[u8], mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn read(content: &[u8]) -> Result<String, Error> {
    let folder = folder();
    let path = folder.path().join("token");
    write(&path, content, 0o600);
    read_token(&path).map(|token| token.expose_secret().to_owned())
}

#[test]
fn one_line_end_is_trimmed_and_nothing_else() {
    for content in [SECRET.to_owned(), format!("{SECRET}\n"), format!("{SECRET}\r\n")] {
        assert_eq!(read(content.as_bytes()).unwrap(), SECRET);
    }
    let longest = "x".repeat(4096);
    assert_eq!(read(format!("{longest}\r\n").as_bytes()).unwrap(), longest);
}

#[test]
fn what_is_no_token_is_an_error_that_names_the_file_and_never_the_content() {
    let utf16: Vec<u8> = [0xFF, 0xFE].into_iter().chain(SECRET.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let mut contents: Vec<Vec<u8>> = [
        "",
        "\n",
        "\r\n",
        " ",
        "bgt_0123456789abcdef\n\n",
        "bgt_0123456789abcdef\r\n\r\n",
        "bgt_0123456789abcdef\r",
        " bgt_0123456789abcdef",
        "bgt_0123456789abcdef ",
        "bgt_0123456789abcdef \n",
        "bgt_0123456789abcdef\tx",
        "bgt_0123456789abcdef\nsecond",
        "\u{feff}bgt_0123456789abcdef",
        "bgt_0123456789abcdef\0",
        "bgt_0123456789abcdef\u{a0}",
        "bgt_0123456789abcdef-ключ",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    contents.extend([utf16, vec![b'x'; 4097], vec![b'x'; 1 << 20], vec![0x80, 0x81]]);
    for content in contents {
        let error = read(&content).unwrap_err();
        let text = format!("{error:?} {}", Chain(&error));
        let shown = String::from_utf8_lossy(content.get(..content.len().min(60)).unwrap()).into_owned();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{shown:?}");
        assert!(text.contains("/token"), "{text}");
        assert!(!text.contains("0123456789"), "{text}");
    }
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let folder = folder();
    let path = folder.path().join("token");
    for bits in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666, 0o777] {
        write(&path, SECRET.as_bytes(), bits);
        assert_eq!(read_token(&path).unwrap_err().kind(), ErrorKind::Configuration, "{bits:o}");
    }
    for bits in [0o600, 0o400, 0o700] {
        write(&path, SECRET.as_bytes(), bits);
        assert!(read_token(&path).is_ok(), "{bits:o}");
    }
}

#[test]
fn a_folder_and_a_missing_file_are_errors() {
    let folder = folder();
    for path in [folder.path().to_owned(), folder.path().join("nothing")] {
        assert_eq!(read_token(path).unwrap_err().kind(), ErrorKind::Configuration);
    }
}

#[test]
fn a_saved_token_reads_back_and_is_private_in_a_private_folder() {
    let folder = folder();
    let path = folder.path().join("new/deeper/token");
    save_token(&path, SECRET).unwrap();
    assert_eq!(read_token(&path).unwrap().expose_secret(), SECRET);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
}

#[test]
fn saving_replaces_a_readable_file_by_a_private_one_and_leaves_nothing_beside_it() {
    let folder = folder();
    let path = folder.path().join("token");
    write(&path, b"old", 0o644);
    save_token(&path, SECRET).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_symbolic_link_is_replaced_and_not_followed() {
    let folder = folder();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    write(&target, b"mine", 0o644);
    symlink(&target, &link).unwrap();
    save_token(&link, SECRET).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    assert_eq!(read_token(&link).unwrap().expose_secret(), SECRET);
}

#[test]
fn what_can_not_be_written_leaves_the_old_token() {
    let folder = folder();
    let path = folder.path().join("token");
    save_token(&path, SECRET).unwrap();
    assert!(save_token(&path, "two words").is_err());
    assert!(save_token(path.join("below-a-file"), "new").is_err());
    assert!(save_token(folder.path(), "new").is_err());
    assert_eq!(read_token(&path).unwrap().expose_secret(), SECRET);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_crash_between_write_and_rename_keeps_the_old_token() {
    let folder = folder();
    let path = folder.path().join("token");
    save_token(&path, SECRET).unwrap();
    let staged = Staged::write(folder.path(), path.file_name().unwrap(), &"new".into()).unwrap();
    let left_behind = staged.path.clone();
    std::mem::forget(staged); // the process is gone: nothing is cleaned up
    assert_eq!(mode(&left_behind), 0o600);
    assert_eq!(read_token(&path).unwrap().expose_secret(), SECRET);
    save_token(&path, "newer").unwrap();
    assert_eq!(read_token(&path).unwrap().expose_secret(), "newer");
}

/// Runs in a process of its own, since the umask belongs to the process.
#[test]
fn under_umask_000_no_moment_shows_the_token_to_others() {
    const CHILD: &str = "BEEPGRID_TEST_UMASK_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return save_while_somebody_looks();
    }
    let name = "credentials::tests::under_umask_000_no_moment_shows_the_token_to_others";
    let status = Command::new("sh")
        .args(["-c", "umask 000 && exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

fn save_while_somebody_looks() {
    let folder = folder();
    let plain = folder.path().join("plain");
    fs::write(&plain, b"x").unwrap();
    assert_eq!(mode(&plain), 0o666, "the umask is really off");
    let secrets = folder.path().join("secrets");
    let path = secrets.join("token");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut seen = 0_u32;
            while !done.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&secrets).into_iter().flatten().flatten() {
                    // Gone again between listing and looking: fine.
                    if let Ok(found) = fs::symlink_metadata(entry.path()) {
                        assert_eq!(found.mode() & 0o077, 0, "{}", entry.path().display());
                        seen += 1;
                    }
                }
            }
            seen
        });
        for round in 0..200 {
            save_token(&path, format!("token-{round}")).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(looks.join().unwrap() > 0);
    });
    assert_eq!(mode(&secrets), 0o700);
}

fn lookup(values: &[(&str, &str)]) -> Result<(String, String), Error> {
    let found = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
    from_environment(&found).map(|(url, token)| (url, token.expose_secret().to_owned()))
}

#[test]
fn the_environment_gives_url_and_token_with_their_defaults() {
    let folder = folder();
    let path = folder.path().join("token");
    save_token(&path, SECRET).unwrap();
    let file = path.to_str().unwrap();
    let ok = |url: &str, token: &str| (url.to_owned(), token.to_owned());
    assert_eq!(lookup(&[(TOKEN, "abc")]).unwrap(), ok("http://localhost:4010", "abc"));
    assert_eq!(lookup(&[(URL, "https://x.example"), (TOKEN_FILE, file)]).unwrap(), ok("https://x.example", SECRET));
    assert_eq!(lookup(&[(URL, ""), (TOKEN, ""), (TOKEN_FILE, file)]).unwrap(), ok("http://localhost:4010", SECRET));
    // Both: the variable wins, and the file is not even looked at.
    assert_eq!(lookup(&[(TOKEN, "abc"), (TOKEN_FILE, "/nowhere")]).unwrap().1, "abc");
}

#[test]
fn an_environment_without_a_usable_token_is_an_error_that_shows_none() {
    assert_eq!(lookup(&[]).unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(lookup(&[(TOKEN_FILE, "/nowhere/at/all")]).unwrap_err().kind(), ErrorKind::Configuration);
    let error = lookup(&[(TOKEN, "bgt_0123456789 ")]).unwrap_err();
    let text = format!("{error:?} {}", Chain(&error));
    assert!(text.contains(TOKEN) && !text.contains("0123456789"), "{text}");
}
