//! Between parse and use: what lies on a drive is used only if it is such as a pool writes.
//!
//! A checksum tells what decay has changed, and nothing of who wrote it. So numbers on a drive are
//! input: they are compared here with the drive's size, with each other and with those of the other
//! members, before anything is reckoned, allocated or looked up by them.

mod label;
mod tables;

pub(crate) use label::{label, member};
pub(crate) use tables::tables;

use crate::ids::SegmentNumber;
use std::fmt;
use std::ops::RangeInclusive;

/// Zones that the drives of a pool have together, at most. No more segments can be told apart.
pub(crate) const ZONES_MAX: u64 = SegmentNumber::END as u64;
/// Bytes of tables, at most: they are read whole before anything is known of them.
pub(crate) const TABLES_BYTES_MAX: u64 = 128 << 20;
/// A pool is not opened whose counts have come to more. Headers of stripes may say twice as much:
/// so no pool that is open comes to where its own would not count.
pub(crate) const COUNT_MAX: u64 = 1 << 60;
/// Stripes that may be under way when a host dies, by any setting there is.
pub(crate) const UNDER_WAY_MAX: u64 = 1 << 16;

/// A value on a drive that no pool writes, although the checksum over it is right. Its words can be
/// printed whatever was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}; allowed: {allowed}")]
pub struct Implausible {
    field: String,
    found: String,
    allowed: String,
}

/// A field of one of several: how it is called, of what, and the number of that.
#[derive(Clone, Copy)]
struct Of(&'static str, &'static str, u32);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Of(field, of, number) = self;
        write!(f, "{field} of {of} {number}")
    }
}

/// `field` is `found`, which is right only if it is `allowed`.
fn right(
    right: bool,
    field: impl fmt::Display,
    found: impl fmt::Display,
    allowed: impl fmt::Display,
) -> Result<(), Implausible> {
    match right {
        true => Ok(()),
        false => Err(Implausible {
            field: field.to_string(),
            found: found.to_string(),
            allowed: allowed.to_string(),
        }),
    }
}

/// As [`right`], for a number in a range.
fn within<T: PartialOrd + fmt::Display>(
    field: impl fmt::Display,
    found: T,
    allowed: RangeInclusive<T>,
) -> Result<(), Implausible> {
    let range = format_args!("{} to {}", allowed.start(), allowed.end());
    right(allowed.contains(&found), field, &found, range)
}

/// Says whether people can be shown a name.
pub(crate) fn is_printable(name: &str) -> bool {
    !name.contains(char::is_control)
}

/// A text of unknown origin for people: control characters are written out.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for one in text.chars() {
        match one.is_control() {
            true => safe.extend(one.escape_default()),
            false => safe.push(one),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_a_value_can_be_printed_whatever_it_was() {
        assert_eq!(within("rows", 3, 1..=3), Ok(()));
        let refused = within("rows", 4, 1..=3).unwrap_err();
        assert_eq!(refused.to_string(), "rows is 4; allowed: 1 to 3");
        assert_eq!(printable("tank\x1b[2J\n"), "tank\\u{1b}[2J\\n");
        assert!(is_printable("t änk") && !is_printable("a\tb"));
    }
}
