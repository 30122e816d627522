//! Values of a plan as people write them: `4k`, `30s`, `randread`; and one of them or a list.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::load::{Pattern, parse_bytes, parse_duration};

/// A value that a plan writes as text or as a whole number.
pub trait Word: Sized {
    /// What a refusal says was expected.
    const EXPECTED: &'static str;

    /// From text.
    fn from_text(text: &str) -> Result<Self, String>;

    /// From a number.
    fn from_number(number: u64) -> Result<Self, String>;
}

impl Word for u64 {
    const EXPECTED: &'static str = "a size, such as 4096 or \"4k\"";

    fn from_text(text: &str) -> Result<u64, String> {
        parse_bytes(text).map_err(|error| error.to_string())
    }

    fn from_number(number: u64) -> Result<u64, String> {
        Ok(number)
    }
}

impl Word for u32 {
    const EXPECTED: &'static str = "a count or a size below 4 GiB";

    fn from_text(text: &str) -> Result<u32, String> {
        let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
        u32::from_number(bytes)
    }

    fn from_number(number: u64) -> Result<u32, String> {
        u32::try_from(number).map_err(|_| format!("{number} is not below 4 GiB"))
    }
}

impl Word for Duration {
    const EXPECTED: &'static str = "a time, such as \"30s\"";

    fn from_text(text: &str) -> Result<Duration, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }

    fn from_number(number: u64) -> Result<Duration, String> {
        Ok(Duration::from_secs(number))
    }
}

impl Word for Pattern {
    const EXPECTED: &'static str = "a pattern, such as \"randread\"";

    fn from_text(text: &str) -> Result<Pattern, String> {
        text.parse::<Pattern>().map_err(|error| error.to_string())
    }

    fn from_number(number: u64) -> Result<Pattern, String> {
        Err(format!("{number} is no pattern"))
    }
}

/// Reads one word.
pub fn word<'de, D: Deserializer<'de>, W: Word>(from: D) -> Result<W, D::Error> {
    let words = from.deserialize_any(WordVisitor {
        list: false,
        word: PhantomData,
    })?;
    words
        .into_iter()
        .next()
        .ok_or_else(|| D::Error::custom("nothing"))
}

/// Reads one word that may be absent.
pub fn optional<'de, D: Deserializer<'de>, W: Word>(from: D) -> Result<Option<W>, D::Error> {
    word(from).map(Some)
}

/// Reads one word or a list of them, at least one.
pub fn many<'de, D: Deserializer<'de>, W: Word>(from: D) -> Result<Vec<W>, D::Error> {
    from.deserialize_any(WordVisitor {
        list: true,
        word: PhantomData,
    })
}

struct WordVisitor<W> {
    list: bool,
    word: PhantomData<W>,
}

impl<'de, W: Word> Visitor<'de> for WordVisitor<W> {
    type Value = Vec<W>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = if self.list { ", or a list of them" } else { "" };
        write!(formatter, "{}{list}", W::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<W>, E> {
        W::from_text(text).map(|word| vec![word]).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<W>, E> {
        let number =
            u64::try_from(number).map_err(|_| E::custom(format!("{number} is below 0")))?;
        W::from_number(number)
            .map(|word| vec![word])
            .map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<W>, A::Error> {
        if !self.list {
            return Err(A::Error::custom("one value is expected, not a list"));
        }
        let mut words = Vec::new();
        while let Some(One(word)) = list.next_element()? {
            words.push(word);
        }
        if words.is_empty() {
            return Err(A::Error::custom("the list is empty"));
        }
        Ok(words)
    }
}

/// One word within a list.
struct One<W>(W);

impl<'de, W: Word> Deserialize<'de> for One<W> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<One<W>, D::Error> {
        word(from).map(One)
    }
}
