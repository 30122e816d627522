//! Every label that the web page and the command line's tables show to people who run a node is in
//! the glossary. The laboratory's tables have the words of their page.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use tidy::{Page, labels};

/// Finds the labels in a file's text.
type Labels = fn(&str) -> Vec<String>;

fn shown() -> BTreeSet<String> {
    let ways: [(&str, &str, Labels); 2] = [
        ("rs", "crates/flashyard/src", labels::of_tables),
        ("tsx", "web/src", labels::of_page),
    ];
    let mut shown = BTreeSet::new();
    for (extension, room, of) in ways {
        let mut paths = tidy::files_with_extension(extension);
        paths.retain(|path| path.starts_with(room));
        let of_laboratory = |path: &Path| {
            let words = ["demo", "lab", "perf", "sim", "ssd"];
            let stem = |part: &OsStr| {
                part.to_str()
                    .map(|it| it.trim_end_matches(".rs").to_owned())
            };
            path.iter()
                .filter_map(stem)
                .any(|part| words.contains(&part.as_str()))
        };
        paths.retain(|path| !of_laboratory(path));
        for path in paths {
            let text = std::fs::read_to_string(tidy::root().join(&path)).expect("it is readable");
            shown.extend(of(&text).iter().map(|label| label.to_lowercase()));
        }
    }
    assert!(shown.len() > 80, "found only {} labels", shown.len());
    shown
}

fn glossary(column: &str) -> BTreeSet<String> {
    let page = Page::read(&tidy::root(), Path::new("docs/GLOSSARY.md").into());
    let page = page.expect("the glossary is readable");
    let cells = page.column(column).into_iter();
    let words = cells.flat_map(|cell| cell.split(", ").map(str::to_lowercase));
    words.collect()
}

#[test]
fn every_label_is_in_the_glossary() {
    let known: BTreeSet<String> = &glossary("word") | &glossary("label");
    let missing: Vec<String> = shown().difference(&known).cloned().collect();
    assert!(missing.is_empty(), "not in docs/GLOSSARY.md: {missing:?}");
}

#[test]
fn every_label_of_the_glossary_is_shown() {
    let unused: Vec<String> = glossary("label").difference(&shown()).cloned().collect();
    assert!(unused.is_empty(), "labels that nothing shows: {unused:?}");
}
