//! Why a drive cannot be modelled: [`FlashError`], [`ProfileError`], [`FitError`].

/// Flash that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlashError {
    /// No superblocks, no pages in one, or no low-water mark.
    #[error("flash needs superblocks, pages in them, and at least one kept free")]
    NoFlash,
    /// More pages than 32-bit page numbers count.
    #[error("{0} pages of flash; the model counts up to 4294967294: choose a smaller scale")]
    TooManyPages(u64),
    /// Full of data, cleaning could make no progress.
    #[error("{logical} logical pages, but only {usable} fit beside what cleaning needs")]
    NoSpare {
        /// Logical pages asked for.
        logical: u64,
        /// Pages that the superblocks outside the reserve hold.
        usable: u64,
    },
    /// Zero placement handles.
    #[error("at least one placement handle is needed")]
    NoHandles,
}

/// A profile that describes no drive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// No profile of that name ships with the program.
    #[error("no profile named {name:?}; there are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Not a profile at all: syntax, a missing or an unknown key.
    #[error("the profile cannot be read: {0}")]
    Syntax(String),
    /// A value that no drive has.
    #[error("{key} = {value}: {rule}")]
    Value {
        /// The key, as `table.key`.
        key: &'static str,
        /// What was found.
        value: f64,
        /// What it has to be.
        rule: String,
    },
    /// A value without a line in `[source]`, or a source that names no value.
    #[error("source of {key}: {problem}")]
    Source {
        /// The key, as `table.key`.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The user capacity does not fit the flash.
    #[error("{capacity_tb} TB of user capacity do not fit {raw_tb} TB of flash: {reason}")]
    NoSpare {
        /// `drive.capacity_tb`.
        capacity_tb: f64,
        /// `nand.raw_tb`.
        raw_tb: f64,
        /// What the flash says.
        reason: String,
    },
    /// The scale leaves too few pages, or asks for more than can be counted.
    #[error("scale {scale}: {reason}")]
    Scale {
        /// The capacity factor asked for.
        scale: f64,
        /// Why it cannot be.
        reason: String,
    },
    /// A study was asked of a namespace, a range or a load that the drive does not have.
    #[error("{0}")]
    Load(String),
}

/// Figures that no drive of this model has.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Something needed was not given.
    #[error("{0} is needed for a fit")]
    Missing(&'static str),
    /// A figure that cannot be.
    #[error("{key} = {value}: {rule}")]
    Figure {
        /// Which figure.
        key: &'static str,
        /// What was given.
        value: f64,
        /// What it has to be.
        rule: &'static str,
    },
    /// The profile that came out is none.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}
