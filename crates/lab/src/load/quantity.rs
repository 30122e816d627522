//! Sizes and times as people type them.

use std::time::Duration;

/// Why a text is no size or no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct QuantityError {
    text: String,
    expected: &'static str,
}

const SIZE: &str = "a size: a number with nothing, k, m, g, t, p (1024 each), KiB to PiB, or kB to \
                    PB (1000 each) behind it";
const TIME: &str = "a time: a number with nothing or s (seconds), ms, m or h behind it, a year at \
                    most";

/// The longest time: a clock that is so much later still is one.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Bytes, in fio's words (`4k`) and in this project's (`4KiB`, `1GB`).
///
/// # Errors
/// When the text is neither, or the size exceeds 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let (number, suffix) = split(text);
    let (base, power): (u64, u32) = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => (1024, 0),
        "k" | "kib" => (1024, 1),
        "m" | "mib" => (1024, 2),
        "g" | "gib" => (1024, 3),
        "t" | "tib" => (1024, 4),
        "p" | "pib" => (1024, 5),
        "kb" => (1000, 1),
        "mb" => (1000, 2),
        "gb" => (1000, 3),
        "tb" => (1000, 4),
        "pb" => (1000, 5),
        _ => (0, 0),
    };
    let bytes = number.parse::<u64>().ok().filter(|_| base > 0);
    bytes
        .and_then(|bytes| bytes.checked_mul(base.pow(power)))
        .ok_or_else(|| QuantityError {
            text: text.to_owned(),
            expected: SIZE,
        })
}

/// A time; seconds when nothing is said.
///
/// # Errors
/// When the text is none.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let (number, suffix) = split(text);
    let milliseconds: u64 = match suffix {
        "" | "s" => 1000,
        "ms" => 1,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let number = number.parse::<u64>().ok().filter(|_| milliseconds > 0);
    number
        .and_then(|number| number.checked_mul(milliseconds))
        .map(Duration::from_millis)
        .filter(|time| *time <= TIME_MAX)
        .ok_or_else(|| QuantityError {
            text: text.to_owned(),
            expected: TIME,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("512", 512),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1M", 1 << 20),
            ("2GiB", 2 << 30),
            ("2GB", 2_000_000_000),
            ("1T", 1 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "4x", "-1", "4.5k", "99999999999999T"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "s", "1d", "1.5s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
