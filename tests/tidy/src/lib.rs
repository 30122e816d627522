//! The repository's own rules, as something a test can ask about: every source file with its code
//! told apart from its tests, every page of documentation. The rules themselves are in `tests/`:
//! which crate may depend on which (`layering.rs`), which room of the pool may import which
//! (`floors.rs`), sizes and banned words (`sources.rs`), pages
//! and links (`pages.rs`), the language of pages (`prose.rs`) and
//! the labels that people read (`labels.rs`).

pub mod labels;
mod page;
mod repository;
mod sentences;
mod source;

pub use page::Page;
pub use repository::{files_with_extension, root};
pub use sentences::Sentence;
pub use source::{Function, Source};
