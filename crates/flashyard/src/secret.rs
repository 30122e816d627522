//! Secrets from files: the command line of a process is there for all to see.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use api::SecretText;

/// The byte order mark that some editors write before UTF-8.
const MARK: &str = "\u{feff}";

/// What UTF-16 begins with, in both orders.
const MARKS_OF_UTF_16: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// Far more than a secret has; what is longer is some other file.
const BYTES_MAX: u64 = 64 << 10;

/// Reads the secret in a file; `-` is standard input.
///
/// # Errors
/// What is wrong with the file, without its name.
pub fn read_secret(path: &str) -> Result<SecretText, String> {
    match path {
        "-" => in_stream(io::stdin().lock()),
        path => in_file(Path::new(path)),
    }
}

/// Reads the line that a file consists of.
///
/// # Errors
/// What is wrong with the file, without its name.
pub fn in_file(path: &Path) -> Result<SecretText, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    in_stream(file)
}

fn in_stream(stream: impl Read) -> Result<SecretText, String> {
    // Large enough to stay where it is: what moves leaves a copy.
    let mut bytes = Vec::with_capacity(BYTES_MAX as usize + 2);
    let read = stream.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err("longer than 64 KiB; allowed: one line with the secret".to_owned());
    }
    if MARKS_OF_UTF_16.iter().any(|mark| bytes.starts_with(mark)) {
        return Err("UTF-16 text; allowed: UTF-8".to_owned());
    }
    let text = String::from_utf8(bytes).map(SecretText::from);
    let text = text.map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("no UTF-8 text from byte {at} on; allowed: one line with the secret")
    })?;
    one_line(text.reveal()).map(SecretText::from)
}

/// The one word that a text consists of, without the blanks and the byte order mark around it.
pub fn one_line(text: &str) -> Result<&str, String> {
    let text = text.strip_prefix(MARK).unwrap_or(text).trim();
    let lines = text.lines().count();
    match lines {
        0 => Err("empty; allowed: one line with the secret".to_owned()),
        1 if text.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Err("a blank or a control character within; allowed: one word".to_owned())
        }
        1 => Ok(text),
        lines => Err(format!("{lines} lines; allowed: one line with the secret")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_word_whatever_an_editor_put_around_it() {
        for text in ["fy_1", "fy_1\n", " fy_1 \r\n", "\u{feff}fy_1\n\n"] {
            assert_eq!(in_stream(text.as_bytes()), Ok("fy_1".into()), "{text:?}");
        }
        let refused: [(&[u8], &str); 7] = [
            (b"", "empty"),
            (b"\n\n", "empty"),
            (b"fy_1\nfy_2\n", "2 lines"),
            (b"fy 1", "blank"),
            (b"fy\x001", "control character"),
            (b"\xff\xfef\0y\0", "UTF-16"),
            (b"fy\xe9", "byte 2"),
        ];
        for (bytes, problem) in refused {
            let said = in_stream(bytes).unwrap_err();
            assert!(said.contains(problem), "{bytes:?} gave {said:?}");
        }
        assert!(in_stream(io::repeat(b'x')).unwrap_err().contains("64 KiB"));
    }
}
