//! [`plain`]: text from disks and people, as one line.

use std::borrow::Cow;

/// The text with its control characters written out, such as `\n`: they would split a line of a
/// log or a table, or do worse to a terminal.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let written = text.chars().flat_map(|one| {
        let escaped = one.is_control().then(|| one.escape_default());
        let same = (!one.is_control()).then_some(one);
        escaped.into_iter().flatten().chain(same)
    });
    Cow::Owned(written.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out_and_nothing_else_changes() {
        assert_eq!(plain("a/b \"ü\" \\n"), "a/b \"ü\" \\n");
        assert_eq!(plain("a\nb\t\u{1b}[2J\u{9b}"), "a\\nb\\t\\u{1b}[2J\\u{9b}");
    }
}
