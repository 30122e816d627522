//! Finds the repository's own files.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold what tools made or fetched.
const NOT_OURS: [&str; 4] = ["target", "fuzz/target", "fuzz/artifacts", ".git"];

/// The top directory of the repository.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// Every file of ours with this extension, relative to [`root`], sorted.
#[must_use]
pub fn files_with_extension(extension: &str) -> Vec<PathBuf> {
    let root = root();
    let mut files = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(relative) = path.strip_prefix(&root) else {
                continue;
            };
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && is_ours(relative) {
                directories.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|found| found == extension) {
                files.push(relative.to_path_buf());
            }
        }
    }
    files.sort();
    files
}

fn is_ours(directory: &Path) -> bool {
    !NOT_OURS
        .iter()
        .any(|excluded| directory == Path::new(excluded))
        && !directory.ends_with("node_modules")
}
