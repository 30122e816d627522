//! Documentation: one title a page, and every link leads somewhere.

use tidy::Page;

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
