//! Names and media types of files, as the uploader sent them: reduced to what can do no harm wherever they end up.

use super::Refusal;
use super::checks::is_unsafe_in_a_line;
use super::limits::{MAX_FILE_NAME_CHARS, MAX_MEDIA_TYPE_BYTES};

/// What a file without a usable name is called.
const NAMELESS: &str = "file";
/// The media type of a file without one.
const TYPELESS: &str = "application/octet-stream";
/// Code points of an ending, its dot included, that survives when a long name is cut.
const MAX_ENDING_CHARS: usize = 16;
/// Names that open a device on Windows, whatever their ending.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "clock$", "conin$", "conout$"];

/// The last component of a name, without what steers a path, a header, a terminal or a reader's eye. Letters of every script stay.
///
/// # Errors
/// `invalid_request` for U+0000, which nothing may hold.
pub(crate) fn file_name(given: &str) -> Result<String, Refusal> {
    if given.contains('\0') {
        return Err(Refusal::invalid("file", "the file name has the character U+0000, which can't be used"));
    }
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let last = match last.split_once(':') {
        Some((drive, rest)) if drive.len() == 1 && drive.bytes().all(|byte| byte.is_ascii_alphabetic()) => rest,
        _ => last,
    };
    // A colon names a stream of a file on Windows.
    let plain: String = last.chars().filter(|c| !is_unsafe_in_a_line(*c)).map(|c| if c == ':' { '_' } else { c }).collect();
    let mut name = end(&shorten(end(&plain))).to_owned();
    if is_device(&name) {
        name.insert(0, '_');
        name = shorten(&name);
    }
    Ok(if name.is_empty() { NAMELESS.to_owned() } else { name })
}

/// Without white space around it and dots after it, which Windows drops by itself.
fn end(name: &str) -> &str {
    name.trim_start().trim_end_matches(|c: char| c == '.' || c.is_whitespace())
}

/// Cuts a name to its limit and keeps its ending.
fn shorten(name: &str) -> String {
    let count = name.chars().count();
    if count <= MAX_FILE_NAME_CHARS {
        return name.to_owned();
    }
    let ending = name.rfind('.').filter(|at| *at > 0).and_then(|at| name.get(at..)).unwrap_or_default();
    let ending = if ending.chars().count() > MAX_ENDING_CHARS { "" } else { ending };
    let kept = MAX_FILE_NAME_CHARS - ending.chars().count();
    let stem: String = name.chars().take(kept).collect();
    stem + ending
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    if DEVICES.contains(&stem.as_str()) {
        return true;
    }
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    port.is_some_and(|number| {
        let mut digits = number.chars();
        matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
    })
}

/// A media type as it was declared; none is bytes of no known kind.
///
/// # Errors
/// `invalid_request` for what is none.
pub(crate) fn media_type(given: &str) -> Result<String, Refusal> {
    let given = given.trim();
    if given.is_empty() {
        return Ok(TYPELESS.to_owned());
    }
    let essence = given.split(';').next().unwrap_or_default().trim_end();
    let is_type = essence.split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub));
    let is_plain = given.bytes().all(|byte| (0x20..=0x7E).contains(&byte));
    if given.len() > MAX_MEDIA_TYPE_BYTES || !is_type || !is_plain {
        return Err(Refusal::invalid(
            "file",
            format!("its Content-Type has to be a media type such as text/plain, of at most {MAX_MEDIA_TYPE_BYTES} bytes"),
        ));
    }
    Ok(given.to_owned())
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-%'*`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(given: &str) -> String {
        file_name(given).unwrap()
    }

    #[test]
    fn only_the_last_component_stays() {
        for (given, kept) in [
            ("../../etc/passwd", "passwd"),
            ("/etc/passwd", "passwd"),
            (r"C:\Windows\System32\evil.exe", "evil.exe"),
            (r"..\..\evil.exe", "evil.exe"),
            ("C:evil.exe", "evil.exe"),
            ("notes.txt:hidden", "notes.txt_hidden"),
            ("a/..", "file"),
            ("..", "file"),
            (".", "file"),
            ("", "file"),
            ("...", "file"),
            ("a/", "file"),
            (" . ", "file"),
            (".profile", ".profile"),
            ("trailing. . ", "trailing"),
            ("%2e%2e%2fevil", "%2e%2e%2fevil"),
        ] {
            assert_eq!(clean(given), kept, "{given:?}");
        }
    }

    #[test]
    fn letters_of_every_script_stay_and_what_steers_goes() {
        assert_eq!(clean("Отчёт 📊 za říjen.pdf"), "Отчёт 📊 za říjen.pdf");
        assert_eq!(clean("say \"hi\"\r\nSet-Cookie: a.txt"), "say \"hi\"Set-Cookie_ a.txt");
        assert_eq!(clean("invoice\u{202E}fdp.exe"), "invoicefdp.exe");
        assert_eq!(clean("a\u{7}\u{1b}[31mb\u{2066}c\u{2028}d"), "a[31mbcd");
        assert!(file_name("a\0b").is_err());
    }

    #[test]
    fn device_names_are_none_any_more() {
        for (given, kept) in
            [("CON", "_CON"), ("nul.txt", "_nul.txt"), ("COM1.tar.gz", "_COM1.tar.gz"), ("lpt¹", "_lpt¹"), ("Aux .c", "_Aux .c")]
        {
            assert_eq!(clean(given), kept);
        }
        for harmless in ["console.log", "com.txt", "COM10", "null"] {
            assert_eq!(clean(harmless), harmless);
        }
    }

    #[test]
    fn long_names_keep_their_ending() {
        let cut = clean(&format!("{}.tar", "ж".repeat(300)));
        assert_eq!(cut.chars().count(), MAX_FILE_NAME_CHARS);
        assert!(cut.ends_with("ж.tar"));
        assert_eq!(clean(&"x".repeat(300)).len(), MAX_FILE_NAME_CHARS);
        assert_eq!(clean(&format!("a.{}", "x".repeat(300))).len(), MAX_FILE_NAME_CHARS);
        assert!(clean(&format!("con.{}", "x".repeat(300))).len() <= MAX_FILE_NAME_CHARS);
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        for given in ["../a.txt", "CON", "x:y", &"ж".repeat(300), " . .a. ", "a\u{202E}"] {
            let once = clean(given);
            assert_eq!(clean(&once), once, "{given:?}");
        }
    }

    #[test]
    fn media_types_are_types() {
        assert_eq!(media_type("").unwrap(), TYPELESS);
        assert_eq!(media_type(" text/plain; charset=utf-8 ").unwrap(), "text/plain; charset=utf-8");
        for wrong in ["text", "text/", "/plain", "a b/c", "text/html\r\nX: y", "té/xt", &format!("a/{}", "x".repeat(300))] {
            assert!(media_type(wrong).is_err(), "{wrong:?}");
        }
    }
}
