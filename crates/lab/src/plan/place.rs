//! Where in a plan's text something is.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Line and column, counted from 1, of the byte at `offset`.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

/// Where the key at `path` is, or the deepest part of the path that exists. An element of a list
/// of tables is found by its `name`, or by its index.
pub fn locate(text: &str, path: &[&str]) -> (usize, usize) {
    let Ok(document) = DeTable::parse(text) else {
        return (1, 1);
    };
    let found = in_table(document.get_ref(), path);
    line_and_column(text, found.map_or(0, |span| span.start))
}

fn in_table(table: &DeTable<'_>, path: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first)?;
    in_value(value, rest).or_else(|| Some(key.span()))
}

fn in_value(value: &Spanned<DeValue<'_>>, path: &[&str]) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, path),
        DeValue::Array(list) => {
            let (first, rest) = path.split_first()?;
            let named = |element: &&Spanned<DeValue<'_>>| {
                let name = element.get_ref().get("name");
                name.and_then(|name| name.get_ref().as_str()) == Some(first)
            };
            let index = || list.get(first.parse::<usize>().ok()?);
            let element = list.iter().find(named).or_else(index)?;
            in_value(element, rest).or_else(|| Some(element.span()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"é\"\n\n[run]\nseed = 1\n\n[[target]]\nname = \"a\"\n\n[[target]]\n\
                        name = \"b\"\n  scale = 2\n";

    #[test]
    fn keys_are_found_by_name_and_by_index() {
        assert_eq!(locate(TEXT, &["run", "seed"]), (4, 1));
        assert_eq!(locate(TEXT, &["target", "b", "scale"]), (11, 3));
        assert_eq!(locate(TEXT, &["target", "1", "scale"]), (11, 3));
        // What is missing is shown at what it is missing from.
        assert_eq!(locate(TEXT, &["target", "b", "drives"]), (9, 1));
        assert_eq!(locate(TEXT, &["run", "nothing"]), (3, 2));
        assert_eq!(locate(TEXT, &["nothing"]), (1, 1));
    }

    #[test]
    fn columns_count_characters() {
        let quote = TEXT.rfind('é').map_or(0, |at| at + 2);
        assert_eq!(line_and_column(TEXT, quote), (1, 10));
    }
}
