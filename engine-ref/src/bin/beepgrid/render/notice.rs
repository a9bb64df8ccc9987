//! What a started engine says.

use crate::local::Owner;
use crate::serve::Notice;

/// Says where a started engine is, and in development what to do next. The first line ends with the URL.
pub(crate) fn notice(notice: &Notice) {
    super::text(&describe(notice));
}

fn describe(notice: &Notice) -> String {
    let mut said = format!("Beepgrid listens on {}\n", notice.url);
    let mut line = |text: String| {
        said.push_str(&text);
        said.push('\n');
    };
    match &notice.owner {
        None => {}
        Some(Owner::Environment) => line("The owner's token is the one in BEEPGRID_BOOTSTRAP_TOKEN.".to_owned()),
        Some(Owner::Elsewhere { file, foreign }) => {
            let what = if *foreign { "is not this workspace's" } else { "is not there" };
            line(format!(
                "The workspace has an owner, but the token file {} {what}: use the token that the owner was made with.",
                file.display()
            ));
        }
        Some(Owner::File { file, made }) => {
            line(format!("Owner token {}: {}", if *made { "made" } else { "found" }, file.display()));
            line("In another terminal:".to_owned());
            line(format!("  export BEEPGRID_URL={}", notice.url));
            line(format!("  export BEEPGRID_TOKEN_FILE={}", quoted(&file.display().to_string())));
            line("Then, for example:".to_owned());
            line("  beepgrid diagnose              is everything in order?".to_owned());
            line("  beepgrid seed                  make a launcher that enrolls agents under examples/".to_owned());
            line("  beepgrid help                  every command".to_owned());
            line("Stop with Ctrl-C; everything is kept for the next start.".to_owned());
        }
    }
    said
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_the_shell() {
        assert_eq!(quoted("/home/me/.local/owner-token"), "/home/me/.local/owner-token");
        assert_eq!(quoted("/my files/it's"), r"'/my files/it'\''s'");
        assert_eq!(quoted("/a$(b)"), "'/a$(b)'");
    }

    #[test]
    fn the_first_line_ends_with_the_url() {
        let notice = Notice { url: "http://127.0.0.1:9".to_owned(), owner: None };
        assert_eq!(describe(&notice), "Beepgrid listens on http://127.0.0.1:9\n");
    }
}
