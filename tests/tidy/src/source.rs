//! A Rust source file as rustfmt leaves it: what is code, what is comment, where functions end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One Rust file.
pub struct Source {
    /// Path relative to the top of the repository.
    pub path: PathBuf,
    /// Every line, without its line end.
    pub lines: Vec<String>,
}

/// One function whose body spans lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The 1-based line it starts on.
    pub line: usize,
    /// Lines from the first of its signature to its closing brace.
    pub length: usize,
}

impl Source {
    /// Reads `path`, which is relative to `root`.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8.
    pub fn read(root: &Path, path: PathBuf) -> io::Result<Source> {
        let text = fs::read_to_string(root.join(&path))?;
        Ok(Source {
            path,
            lines: text.lines().map(str::to_owned).collect(),
        })
    }

    /// The crate it belongs to (`crates/NAME`, `tests/NAME`), or its top directory.
    #[must_use]
    pub fn room(&self) -> String {
        let mut parts = self.path.iter().filter_map(|part| part.to_str());
        match (parts.next(), parts.next()) {
            (Some("crates" | "tests"), Some(name)) => name.to_owned(),
            (Some(top), _) => top.to_owned(),
            (None, _) => String::new(),
        }
    }

    /// Whether the whole file is tests or benchmarks.
    fn is_test(&self) -> bool {
        let directories = ["tests", "benches", "fuzz"];
        self.path.ends_with("tests.rs")
            || self
                .path
                .iter()
                .any(|part| directories.iter().any(|name| part == *name))
    }

    /// The lines that are not tests: unit tests stand at a file's end.
    #[must_use]
    pub fn product(&self) -> &[String] {
        let end = self.lines.iter().position(|line| line == "#[cfg(test)]");
        let end = if self.is_test() {
            0
        } else {
            end.unwrap_or(self.lines.len())
        };
        &self.lines[..end]
    }

    /// Lines of code outside tests, neither blank nor comment.
    #[must_use]
    pub fn code_lines(&self) -> usize {
        let code = self.product().iter();
        code.map(|line| line.trim())
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
            .count()
    }

    /// Every function outside tests whose body spans lines.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        let lines = self.product().iter().enumerate();
        lines
            .filter_map(|(index, line)| self.function_at(index, line))
            .collect()
    }

    fn function_at(&self, index: usize, line: &str) -> Option<Function> {
        let signature = line.trim_start();
        let indent = &line[..line.len() - signature.len()];
        let name = function_name(signature)?;
        let closing = format!("{indent}}}");
        // At the depth of its start, a body ends in a brace and a mere declaration in a semicolon.
        let ends = |line: &&String| {
            let depth = line.len() - line.trim_start().len();
            **line == closing || (depth == indent.len() && line.ends_with(';'))
        };
        let rest = &self.product()[index..];
        let last = rest.iter().position(|line| ends(&line))?;
        let length = last + 1;
        (rest[last] == closing).then(|| Function {
            name: name.to_owned(),
            line: index + 1,
            length,
        })
    }
}

/// The name of the function whose signature starts on this line.
fn function_name(signature: &str) -> Option<&str> {
    let mut words = signature;
    loop {
        if let Some(rest) = words.strip_prefix("fn ") {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return (end > 0 && !signature.ends_with('}')).then(|| &rest[..end]);
        }
        let (word, rest) = words.split_once(' ')?;
        let qualifier = matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"");
        if !qualifier && !word.starts_with("pub") {
            return None;
        }
        words = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source {
            path: PathBuf::from("crates/room/src/file.rs"),
            lines: text.lines().map(str::to_owned).collect(),
        }
    }

    #[test]
    fn counts_code_without_comments_blanks_and_unit_tests() {
        let file = source("//! Room.\n\nuse a;\n// why\nfn f() {\n}\n#[cfg(test)]\nmod t {\n}\n");
        assert_eq!(file.code_lines(), 3);
        assert_eq!(file.room(), "room");
    }

    #[test]
    fn measures_functions_from_signature_to_closing_brace() {
        let tested = "#[cfg(test)]\nmod t {\n    fn t() {\n        a();\n    }\n}\n";
        let file = source(&format!(
            "{}{tested}",
            concat!(
                "pub trait T {\n    fn declared(&self);\n}\n",
                "impl A {\n    pub(crate) async fn long(\n        &self,\n    ) {\n",
                "        a();\n    }\n}\n"
            ),
        ));
        let long = Function {
            name: "long".into(),
            line: 5,
            length: 5,
        };
        assert_eq!(file.functions(), vec![long]);
    }
}
