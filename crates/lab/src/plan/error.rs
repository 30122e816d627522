//! [`PlanError`]: why a text is no plan, and where.

use std::path::PathBuf;

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Something in the file, at a line and a column that count from 1.
    #[error("{file}:{line}:{column}: {message}")]
    At {
        /// The file, as it was named.
        file: String,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// A value given beside the file.
    #[error("--set {key}={value}: {message}")]
    Change {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// The plan has no such size.
    #[error("plan {plan} has no size {size}; it has: {known}")]
    Size {
        /// The plan's name.
        plan: String,
        /// The size asked for.
        size: String,
        /// The sizes there are.
        known: String,
    },
    /// Neither a plan that ships nor a file.
    #[error("no plan named {name}; there are: {known}; or give the path of a .toml file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
