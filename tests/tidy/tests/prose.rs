//! The language of the documentation: short sentences that begin with nouns.

use std::path::{Path, PathBuf};

use tidy::Sentence;

/// A sentence with more words is long.
const WORDS_MAX: usize = 30;
/// So many of a hundred sentences may be long, on all pages together.
const LONG_MAX_PERCENT: usize = 5;
/// So many of a hundred may begin with a clause that stands for a noun.
const CLAUSES_MAX_PERCENT: usize = 1;
/// On one page at most twice the share may be long, or one where that is less.
const PAGE_FACTOR: usize = 2;

/// How the sentences of one page, or of all, are made.
#[derive(Default)]
struct Counts {
    sentences: usize,
    long: usize,
    clauses: usize,
}

impl Counts {
    fn of(sentences: &[Sentence]) -> Counts {
        let long = |one: &&Sentence| one.words() > WORDS_MAX;
        let clause = |one: &&Sentence| one.begins_with_a_clause();
        Counts {
            sentences: sentences.len(),
            long: sentences.iter().filter(long).count(),
            clauses: sentences.iter().filter(clause).count(),
        }
    }

    fn add(&mut self, other: &Counts) {
        self.sentences += other.sentences;
        self.long += other.long;
        self.clauses += other.clauses;
    }

    fn page_is_plain(&self) -> bool {
        let most = |percent: usize| (PAGE_FACTOR * percent * self.sentences / 100).max(1);
        self.long <= most(LONG_MAX_PERCENT) && self.clauses <= most(CLAUSES_MAX_PERCENT)
    }

    fn all_are_plain(&self) -> bool {
        100 * self.long <= LONG_MAX_PERCENT * self.sentences
            && 100 * self.clauses <= CLAUSES_MAX_PERCENT * self.sentences
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages = tidy::files_with_extension("md");
    let tops = ["README.md", "CONTRIBUTING.md", "SECURITY.md"];
    pages.retain(|page| page.starts_with("docs") || tops.iter().any(|top| page == Path::new(top)));
    assert!(pages.len() > 20, "found only {} pages", pages.len());
    pages
}

#[test]
fn sentences_of_the_documentation_are_short_and_begin_with_nouns() {
    let mut all = Counts::default();
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(tidy::root().join(&page)).expect("a page is readable");
        let sentences = Sentence::all(&text);
        let counts = Counts::of(&sentences);
        all.add(&counts);
        let bad = |one: &&Sentence| one.words() > WORDS_MAX || one.begins_with_a_clause();
        if !counts.page_is_plain() {
            let lines = sentences.iter().filter(bad).map(Sentence::text);
            let lines: Vec<&str> = lines.collect();
            broken.push(format!("{}:\n  {}", page.display(), lines.join("\n  ")));
        }
    }
    let Counts {
        sentences,
        long,
        clauses,
    } = all;
    println!("{sentences} sentences, {long} over {WORDS_MAX} words, {clauses} begin with a clause");
    assert!(
        broken.is_empty() && all.all_are_plain(),
        "{long} of {sentences} sentences have over {WORDS_MAX} words, {clauses} begin with What, \
         Who, Whoever or Those:\n{}",
        broken.join("\n")
    );
}

#[test]
fn a_page_of_long_sentences_or_of_clauses_is_found() {
    let long = format!("The log {}ends.", "goes on and on ".repeat(8));
    let pages = [
        (format!("{long} {long}"), false),
        (
            "What is here stays. Those that go are gone.".to_owned(),
            false,
        ),
        (format!("{long} One claim a sentence. It is short."), true),
        ("The log ends. A crash loses nothing.".to_owned(), true),
    ];
    for (page, plain) in pages {
        let counts = Counts::of(&Sentence::all(&page));
        assert_eq!(counts.page_is_plain(), plain, "{page}");
        assert_eq!(counts.all_are_plain(), plain && counts.long == 0, "{page}");
    }
}
