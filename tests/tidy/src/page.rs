//! A page of documentation: its titles and the places it points to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One Markdown file.
pub struct Page {
    /// Path relative to the top of the repository.
    pub path: PathBuf,
    prose: Vec<String>,
}

impl Page {
    /// Reads `path`, which is relative to `root`.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8.
    pub fn read(root: &Path, path: PathBuf) -> io::Result<Page> {
        let text = fs::read_to_string(root.join(&path))?;
        Ok(Page {
            path,
            prose: prose(&text),
        })
    }

    /// Lines that are a title of the first level.
    #[must_use]
    pub fn titles(&self) -> usize {
        self.prose
            .iter()
            .filter(|line| line.starts_with("# "))
            .count()
    }

    /// Files of ours that the page links to, relative to the top of the repository.
    #[must_use]
    pub fn links(&self) -> Vec<PathBuf> {
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let targets = self.prose.iter().flat_map(|line| link_targets(line));
        let ours = targets.filter(|target| !target.contains(':') && !target.starts_with('#'));
        ours.map(|target| directory.join(target.split('#').next().unwrap_or(target)))
            .collect()
    }
}

/// The lines outside fenced code.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn link_targets(line: &str) -> Vec<&str> {
    let starts = line
        .match_indices("](")
        .map(|(at, found)| &line[at + found.len()..]);
    starts
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_titles_and_links_outside_code_only() {
        let text = "# Title\n```\n# not a title\n```\n[a](b.md#part) [c](https://d/e) [f](#g)\n";
        let page = Page {
            path: PathBuf::from("docs/page.md"),
            prose: prose(text),
        };
        assert_eq!(page.titles(), 1);
        assert_eq!(page.links(), vec![PathBuf::from("docs/b.md")]);
    }
}
