//! Documentation: one title a page, links that lead somewhere, and tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

use tidy::{Page, Source};

fn pages() -> Vec<Page> {
    let root = tidy::root();
    let paths = tidy::files_with_extension("md").into_iter();
    let pages: Vec<Page> = paths
        .map(|path| Page::read(&root, path).expect("a page is readable"))
        .collect();
    assert!(!pages.is_empty(), "found no pages");
    pages
}

#[test]
fn every_page_has_one_title() {
    for page in pages() {
        assert_eq!(page.titles(), 1, "{}: titles", page.path.display());
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let root = tidy::root();
    let mut broken = Vec::new();
    for page in pages() {
        for link in page.links().iter().filter(|link| !root.join(link).exists()) {
            broken.push(format!("{} -> {}", page.path.display(), link.display()));
        }
    }
    assert!(
        broken.is_empty(),
        "links to nothing:\n{}",
        broken.join("\n")
    );
}

/// Names of tests in a source: functions with an attribute that ends in `test`, and the lines of a
/// macro that makes a test of each.
fn tests_in(source: &Source) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut attributed = false;
    for line in source.lines.iter().map(|line| line.trim()) {
        let name = line
            .split_once("fn ")
            .and_then(|(_, rest)| rest.split_once('('));
        if let Some((name, _)) = name.filter(|_| attributed) {
            found.insert(name.to_owned());
        }
        attributed = line == "#[test]" || attributed && (line.starts_with("#[") || line.is_empty());
        let planted = line
            .split_once(": ")
            .filter(|(_, rest)| rest.contains(" within "));
        found.extend(planted.map(|(name, _)| name.to_owned()));
    }
    found
}

#[test]
fn every_test_that_a_page_names_exists() {
    let root = tidy::root();
    let sources = tidy::files_with_extension("rs").into_iter();
    let sources = sources.map(|path| Source::read(&root, path).expect("a source is readable"));
    let tests: BTreeSet<String> = sources.flat_map(|source| tests_in(&source)).collect();
    let (mut named, mut missing) = (0, Vec::new());
    for page in pages() {
        for name in page.code_in_column("test") {
            named += 1;
            if !tests.contains(name) {
                missing.push(format!("{}: {name}", page.path.display()));
            }
        }
    }
    assert!(named > 50, "pages name only {named} tests");
    assert!(missing.is_empty(), "no such tests:\n{}", missing.join("\n"));
}

/// What strangers may try, and what they can make grow: no row goes without a test, and no test of
/// attacks without a row.
#[test]
fn every_attack_and_every_resource_names_its_test() {
    let root = tidy::root();
    let mut named = BTreeSet::new();
    for path in ["docs/security.md", "docs/resources.md"] {
        let page = Page::read(&root, path.into()).expect("the page is readable");
        let cells = page.column("test");
        assert!(cells.len() > 20, "{path} has only {} rows", cells.len());
        for (index, cell) in cells.iter().enumerate() {
            assert!(
                cell.contains('`'),
                "{path}: row {} names no test",
                index + 1
            );
        }
        let names = page.code_in_column("test").into_iter();
        named.extend(names.map(str::to_owned));
    }
    let attacks = "crates/flashyard/tests/attacks/main.rs";
    let attacks = Source::read(&root, attacks.into()).expect("the source is readable");
    let tests = tests_in(&attacks);
    assert!(tests.len() > 5, "found only {tests:?}");
    let missing: Vec<_> = tests.difference(&named).collect();
    assert!(missing.is_empty(), "in no row: {missing:?}");
}

/// Each requirement of the specification that the page has comes with the test that shows it.
#[test]
fn every_requirement_has_a_test() {
    let path = "docs/conformance.md".into();
    let page = Page::read(&tidy::root(), path).expect("the page is readable");
    let [requirements, sections, tests] =
        ["requirement", "section", "test"].map(|name| page.column(name));
    // The line of dashes under each header is a row.
    let rows = requirements.iter().zip(&sections).zip(&tests);
    let rows = rows.filter(|((requirement, _), _)| !requirement.starts_with('-'));
    let mut seen = BTreeSet::new();
    for ((requirement, section), test) in rows {
        assert!(test.starts_with('`'), "no test: {requirement}");
        let of = ["Base ", "NVM ", "TCP "];
        assert!(
            of.iter().any(|of| section.starts_with(of)),
            "no section: {requirement}"
        );
        assert!(seen.insert(requirement), "twice: {requirement}");
    }
    assert!(seen.len() > 40, "found only {} requirements", seen.len());
}

/// The page that shows where things are names files by their paths below the source of the pool.
#[test]
fn every_file_that_the_design_of_the_pool_names_exists() {
    let sources = tidy::files_with_extension("rs");
    let pool = sources
        .iter()
        .filter_map(|path| path.strip_prefix("crates/pool/src").ok());
    let names: BTreeSet<&str> = pool.filter_map(Path::to_str).collect();
    let page = Page::read(&tidy::root(), "docs/pool.md".into()).expect("the page is readable");
    let files = page.code_in_column("file");
    assert!(!files.is_empty(), "the page names no files");
    let elsewhere = page.code().into_iter().filter(|word| word.ends_with(".rs"));
    for file in files.into_iter().chain(elsewhere) {
        let is_there = names.contains(file) || tidy::root().join(file).exists();
        assert!(is_there, "{file} is neither in crates/pool/src nor here");
    }
}

#[test]
fn every_decision_has_a_number_a_date_and_a_status() {
    let folder = Path::new("docs/decisions");
    let index = Page::read(&tidy::root(), folder.join("README.md")).expect("the index is readable");
    let [numbers, dates, states, links] =
        ["number", "date", "status", "page"].map(|name| index.column(name).into_iter());
    let mut listed = BTreeSet::new();
    let rows = numbers.zip(dates).zip(states).zip(links);
    for (row, (((number, date), status), link)) in rows.enumerate() {
        let file = link
            .rsplit_once('(')
            .map_or(link, |(_, file)| file.trim_end_matches(')'));
        assert_eq!(
            number,
            (row + 1).to_string(),
            "numbers go up by one: {link}"
        );
        let page = Page::read(&tidy::root(), folder.join(file)).expect("a decision is readable");
        let (first, rest) = status.split_at(1);
        let line = format!("Decision {number}. {date}. {}{rest}.", first.to_uppercase());
        assert_eq!(page.first_line(), line, "{file}");
        listed.insert(folder.join(file));
    }
    let missing = pages()
        .into_iter()
        .filter(|page| page.path.starts_with(folder));
    let missing: Vec<_> = missing
        .map(|page| page.path)
        .filter(|path| !listed.contains(path) && !path.ends_with("README.md"))
        .collect();
    assert!(
        missing.is_empty(),
        "decisions without a number: {missing:?}"
    );
}
