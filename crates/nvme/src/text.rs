//! Text fields: NUL terminated names and space padded strings.

/// `text` in a field of `N` bytes, cut so that at least one NUL follows.
pub fn terminated<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let bytes = text.as_bytes();
    let kept = bytes.len().min(N.saturating_sub(1));
    field[..kept].copy_from_slice(&bytes[..kept]);
    field
}

/// `text` in a field of `N` bytes, cut or padded with spaces (NVMe 2.0 §1.4.2).
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let bytes = text.as_bytes();
    let kept = bytes.len().min(N);
    field[..kept].copy_from_slice(&bytes[..kept]);
    field
}

/// The name in a NUL terminated field, if it is terminated and is UTF-8.
pub fn from_terminated(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(field.get(..end)?).ok()
}

/// The text in a padded field, without the padding; an invalid byte ends it.
pub fn from_padded(field: &[u8]) -> &str {
    let valid = match std::str::from_utf8(field) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&field[..error.valid_up_to()]).unwrap_or(""),
    };
    valid.trim_end_matches([' ', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_its_field_and_is_cut_when_too_long() {
        assert_eq!(from_terminated(&terminated::<8>("abc")), Some("abc"));
        assert_eq!(from_terminated(&terminated::<4>("abcdef")), Some("abc"));
        assert_eq!(from_terminated(b"abc"), None);
        assert_eq!(from_padded(&padded::<6>("abc")), "abc");
        assert_eq!(from_padded(b"ab\xffcd "), "ab");
    }
}
