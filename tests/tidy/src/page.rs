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

    /// The rows of every table with a column of this name, each as what is in that column.
    #[must_use]
    pub fn column(&self, name: &str) -> Vec<&str> {
        let mut found = Vec::new();
        let mut place = None;
        for line in &self.prose {
            let cells = cells(line);
            match place {
                _ if !line.starts_with('|') => place = None,
                None => place = Some(cells.iter().position(|cell| *cell == name)),
                Some(place) => found.extend(place.and_then(|place| cells.get(place).copied())),
            }
        }
        found
    }

    /// Every inline code in the columns of this name.
    #[must_use]
    pub fn code_in_column(&self, name: &str) -> Vec<&str> {
        let column = self.column(name).into_iter();
        column.flat_map(code_spans).collect()
    }

    /// What stands in code spans anywhere on the page.
    pub fn code(&self) -> Vec<&str> {
        let lines = self.prose.iter();
        lines.flat_map(|line| code_spans(line)).collect()
    }

    /// The first paragraph under the title.
    #[must_use]
    pub fn first_line(&self) -> &str {
        let mut lines = self.prose.iter().skip(1).filter(|line| !line.is_empty());
        lines.next().map_or("", String::as_str)
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

/// The cells of a table's row; none where the line is no row.
fn cells(line: &str) -> Vec<&str> {
    let row = line
        .strip_prefix("| ")
        .and_then(|row| row.strip_suffix(" |"));
    row.map_or_else(Vec::new, |row| row.split(" | ").collect())
}

/// What stands between backquotes.
fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
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

    #[test]
    fn finds_a_column_by_the_name_above_it() {
        let text = "# Title\n\nFirst.\n\n| a | test |\n|---|---|\n| `x` | `one`, `two` |\n\n\
            | test | b |\n|---|---|\n| see `three` | `y` |\n\n| c | d |\n|---|---|\n| `z` | e |\n";
        let page = Page {
            path: PathBuf::from("docs/page.md"),
            prose: prose(text),
        };
        assert_eq!(page.first_line(), "First.");
        assert_eq!(page.column("b"), ["`y`"]);
        assert_eq!(page.code_in_column("test"), ["one", "two", "three"]);
    }
}
