//! The sentences of a page, as a reader meets them: prose and lists, without code and tables.

/// A sentence begins with one of these where a clause stands for a noun.
const CLAUSES: [&str; 4] = ["What", "Who", "Whoever", "Those"];

/// Abbreviations that end with a full stop and end no sentence.
const ABBREVIATIONS: [&str; 4] = ["e.g.", "i.e.", "etc.", "vs."];

/// One sentence, with markup removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence(String);

impl Sentence {
    /// Every sentence of a page in Markdown.
    #[must_use]
    pub fn all(markdown: &str) -> Vec<Sentence> {
        let paragraphs = paragraphs(markdown);
        let all = paragraphs.iter().flat_map(|text| split(&plain(text)));
        all.collect()
    }

    /// How many words it has; inline code is one.
    #[must_use]
    pub fn words(&self) -> usize {
        let words = self.0.split_whitespace();
        words
            .filter(|word| word.contains(|c: char| c.is_alphanumeric()))
            .count()
    }

    /// True where it begins with a clause instead of a noun.
    #[must_use]
    pub fn begins_with_a_clause(&self) -> bool {
        let start = self.0.trim_start_matches(|c: char| !c.is_alphanumeric());
        let end = start.find(|c: char| !c.is_alphanumeric());
        CLAUSES.contains(&end.map_or(start, |end| &start[..end]))
    }

    /// What a reader sees.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Paragraphs and list items, each as one line. A block of code, a table, a title and a comment
/// are none.
fn paragraphs(markdown: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let (mut fenced, mut in_list, mut after_blank) = (false, false, true);
    for line in markdown.lines() {
        let text = line.trim();
        if text.starts_with("```") {
            fenced = !fenced;
            found.push(String::new());
            continue;
        }
        let indented = line.starts_with("    ") && after_blank && !in_list;
        if fenced || indented {
            continue;
        }
        after_blank = text.is_empty();
        if text.is_empty() || text.starts_with(['|', '#', '<']) {
            found.push(String::new());
            in_list &= text.is_empty();
            continue;
        }
        if let Some(item) = list_item(text) {
            found.push(item.to_owned());
            in_list = true;
            continue;
        }
        in_list &= line.starts_with(' ') || found.last().is_some_and(|text| !text.is_empty());
        if let Some(paragraph) = found.last_mut() {
            paragraph.push(' ');
            paragraph.push_str(text);
        }
    }
    found.retain(|text| !text.trim().is_empty());
    found
}

/// The text behind the mark of a list's item.
fn list_item(line: &str) -> Option<&str> {
    let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    bullet.or_else(|| {
        let (number, item) = line.split_once(". ")?;
        let counts = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
        counts.then_some(item)
    })
}

/// Without links and emphasis, and with inline code as one word that ends no sentence.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split('`').enumerate() {
        match index % 2 {
            0 => plain.push_str(part),
            _ => {
                let word = part.replace([' ', '.', '?', '!', '[', ']', '(', ')'], "_");
                plain.push_str(&format!("`{word}`"));
            }
        }
    }
    let mut rest = plain.replace("**", "");
    while let Some((before, after)) = rest.split_once("](") {
        let behind = after.split_once(')').map_or("", |(_, behind)| behind);
        rest = format!("{}{behind}", before.replacen('[', "", 1));
    }
    rest
}

/// A sentence ends with a mark, and the next one begins with a capital, a figure or a quotation.
fn split(text: &str) -> Vec<Sentence> {
    let mut found: Vec<String> = vec![String::new()];
    let words: Vec<&str> = text.split_whitespace().collect();
    for (index, word) in words.iter().enumerate() {
        if let Some(sentence) = found.last_mut() {
            sentence.push_str(word);
            sentence.push(' ');
        }
        let bare = word.trim_end_matches([')', '"', '*', '_', '”']);
        let ends = bare.ends_with(['.', '?', '!']) && !ABBREVIATIONS.contains(&bare);
        let begins = |next: &&str| {
            next.starts_with(|c: char| c.is_uppercase() || c.is_numeric() || "\"([*“`".contains(c))
        };
        if ends && words.get(index + 1).is_some_and(begins) {
            found.push(String::new());
        }
    }
    let said = found.into_iter().map(|text| text.trim().to_owned());
    said.filter(|text| text.contains(char::is_alphabetic))
        .map(Sentence)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(markdown: &str) -> Vec<String> {
        let all = Sentence::all(markdown);
        all.iter().map(|one| one.text().to_owned()).collect()
    }

    #[test]
    fn prose_and_lists_count_and_code_and_tables_do_not() {
        let page = concat!(
            "# A title. Of two\n\nOne is here. Two\ngoes on. `a.b` is three.\n\n",
            "    code. Code\n\n- Four, e.g. this.\n  Five (v1.2) is\n  here.\n\n",
            "```\nNot. This\n```\n\n| a. B | c |\n|---|---|\n\n",
            "6. **Six.** [Seven](x.md#y) it is.\n",
        );
        let expected = [
            "One is here.",
            "Two goes on.",
            "`a_b` is three.",
            "Four, e.g. this.",
            "Five (v1.2) is here.",
            "Six.",
            "Seven it is.",
        ];
        assert_eq!(texts(page), expected);
    }

    #[test]
    fn words_are_counted_and_code_is_one_of_them() {
        let all = Sentence::all("It runs `cargo test --all` - on [two cores](page.md).");
        assert_eq!(all.iter().map(Sentence::words).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_clause_at_the_start_is_found() {
        let page =
            "What is here stays. **Whoever** asks waits. \"Those\" go. Whole ones do not. The end.";
        let clauses = Sentence::all(page)
            .iter()
            .map(Sentence::begins_with_a_clause)
            .collect::<Vec<_>>();
        assert_eq!(clauses, [true, true, true, false, false]);
    }
}
