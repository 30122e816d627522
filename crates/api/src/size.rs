//! [`Size`]: a number of bytes as people write it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use utoipa::openapi::schema::{KnownFormat, OneOfBuilder, SchemaFormat};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Suffixes, largest first; the binary ones come first so that whole multiples print with them.
const SUFFIXES: [(&str, u64); 10] = [
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

/// How many of them are binary.
const BINARY_SUFFIXES: usize = 5;

/// A number of bytes. Read as an integer or as text with a suffix (`KiB`, `MiB`, `GiB`, `TiB`,
/// `PiB`; `KB` to `PB` are decimal); written as an integer in JSON and with a suffix in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Size(pub u64);

/// Why a text is no [`Size`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "size {0:?}; allowed: a whole number of bytes, or a number with KiB, MiB, GiB, TiB, PiB, KB, \
     MB, GB, TB or PB, up to 2^64-1 bytes"
)]
pub struct SizeError(String);

/// Drives and volumes are whole blocks of this many bytes.
const BLOCK_BYTES: u64 = 4096;

impl Size {
    /// The least number of whole blocks of 4 KiB that has room for it. One that no number has room
    /// for stays as it is, for others to refuse.
    pub fn in_blocks(self) -> Size {
        Size(
            self.0
                .checked_next_multiple_of(BLOCK_BYTES)
                .unwrap_or(self.0),
        )
    }

    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        parse(text.trim())
            .map(Size)
            .ok_or_else(|| SizeError(text.chars().take(64).collect()))
    }
}

fn parse(text: &str) -> Option<u64> {
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let suffix = suffix.trim_start();
    let unit = match suffix {
        "" | "B" => 1,
        _ => {
            SUFFIXES
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(suffix))?
                .1
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let bytes = whole.checked_mul(unit)?;
    if number.contains('.') {
        bytes.checked_add(fraction_of(fraction, unit)?)
    } else {
        Some(bytes)
    }
}

/// `0.fraction * unit`, if that is a whole number of bytes.
fn fraction_of(fraction: &str, unit: u64) -> Option<u64> {
    if fraction.is_empty() || fraction.len() > 18 || unit == 1 {
        return None;
    }
    let numerator = fraction.parse::<u64>().ok()?;
    let denominator = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let scaled = u128::from(numerator) * u128::from(unit);
    let whole = scaled
        .is_multiple_of(denominator)
        .then(|| scaled / denominator)?;
    u64::try_from(whole).ok()
}

impl fmt::Display for Size {
    /// Exact when the number is a multiple of 0.1 of a suffix, else rounded to one decimal.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = &SUFFIXES[..BINARY_SUFFIXES];
        let text = match binary.iter().find(|(_, unit)| self.0 >= *unit) {
            None => format!("{} B", self.0),
            Some((suffix, unit)) if self.0.is_multiple_of(*unit) => {
                format!("{} {suffix}", self.0 / unit)
            }
            Some((suffix, unit)) => format!("{:.1} {suffix}", self.0 as f64 / *unit as f64),
        };
        formatter.pad(&text)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl serde::de::Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of bytes, or text such as \"10GiB\"")
    }

    fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Size, E> {
        Ok(Size(bytes))
    }

    fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Size, E> {
        u64::try_from(bytes)
            .map(Size)
            .map_err(|_| E::custom(SizeError(bytes.to_string())))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map_err(E::custom)
    }
}

impl PartialSchema for Size {
    fn schema() -> RefOr<Schema> {
        let integer = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0));
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(r"^[0-9]+(\.[0-9]+)? ?(B|[KkMmGgTtPp]i?[Bb])?$"));
        OneOfBuilder::new()
            .item(integer)
            .item(text)
            .description(Some(
                "Bytes, or a number with KiB, MiB, GiB, TiB, PiB, KB, MB, GB, TB or PB",
            ))
            .into()
    }
}

impl ToSchema for Size {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Size")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("512 B", 512),
            ("1GiB", 1 << 30),
            ("1 gib", 1 << 30),
            ("1.5KiB", 1536),
            ("4 PiB", 1 << 52),
            ("1PB", 1_000_000_000_000_000),
            ("7.68TB", 7_680_000_000_000),
            ("1GB", 1_000_000_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_blocks() {
        for (bytes, blocks) in [
            (0, 0),
            (1, 4096),
            (4096, 4096),
            (4097, 8192),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(Size(bytes).in_blocks(), Size(blocks));
        }
        let gigabyte: Size = "1GB".parse().unwrap();
        assert_eq!(gigabyte.in_blocks(), Size(1_000_001_536));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "GiB",
            "-1",
            "1.5",
            "1..5KiB",
            "1.",
            "1 XiB",
            "99999999999TiB",
            "0.3KiB",
            "1e3",
        ] {
            assert!(
                text.parse::<Size>().is_err(),
                "{text:?} was taken for a size"
            );
        }
    }

    #[test]
    fn json_takes_numbers_and_text_and_gives_numbers() {
        assert_eq!(serde_json::from_str::<Size>("4096").unwrap(), Size(4096));
        assert_eq!(
            serde_json::from_str::<Size>("\"4KiB\"").unwrap(),
            Size(4096)
        );
        assert!(serde_json::from_str::<Size>("-1").is_err());
        assert!(serde_json::from_str::<Size>("true").is_err());
        assert_eq!(serde_json::to_string(&Size(4096)).unwrap(), "4096");
    }

    proptest! {
        #[test]
        fn whole_multiples_survive_printing(
            count in 1u64..1024,
            suffix in 0..BINARY_SUFFIXES,
        ) {
            let size = Size(count << (10 * suffix));
            prop_assert_eq!(size.to_string().parse::<Size>(), Ok(size));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Size>();
        }
    }
}
