//! A file as a multipart form, written the way browsers write one: the name in UTF-8, every letter of it.

use bytes::Bytes;
use uuid::Uuid;

/// The content type and body of a form with one part `file`.
pub(crate) fn file(name: &str, media_type: &str, data: &[u8]) -> (String, Bytes) {
    // Made anew each time, so that no file can hold it.
    let boundary = format!("beepgrid-{}", Uuid::now_v7().simple());
    // What would end the name is written as browsers do.
    let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let media_type = if media_type.is_empty() { String::new() } else { format!("\r\nContent-Type: {media_type}") };
    let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"{media_type}\r\n\r\n");
    let tail = format!("\r\n--{boundary}--\r\n");
    let body = [head.as_bytes(), data, tail.as_bytes()].concat();
    (format!("multipart/form-data; boundary={boundary}"), body.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_the_file_and_its_name_on_lines_of_their_own() {
        let (content_type, body) = file("a \"b\"\r\nX: ж.txt", "text/plain", b"\r\n--");
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a %22b%22%0D%0AX: ж.txt\"\r\n\
             Content-Type: text/plain\r\n\r\n\r\n--\r\n--{boundary}--\r\n"
        );
        assert_eq!(body, expected.as_bytes());
        assert_ne!(file("", "", b"x").0, content_type);
    }
}
