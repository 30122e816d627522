//! What a drive is said to be: checked, described, and as the data path has it.

use std::path::PathBuf;

use api::{DriveSpec, ErrorBody, Size};

use crate::control::is_absolute;

/// The whole of a drive.
const SCALE_PPM_MAX: u32 = 1_000_000;

/// A thousand times as long as the drive: a slower one never answers, as far as anybody can tell.
const DILATION_PERCENT_MAX: u32 = 100_000;

/// The longest path that the system takes (`PATH_MAX`, less the zero at its end).
const PATH_BYTES_MAX: usize = 4095;

/// Whether a drive is what is asked for. How large its file was made once need not be said again.
pub(in crate::control) fn is_what(existing: &DriveSpec, asked: &DriveSpec) -> bool {
    match (existing, asked) {
        (DriveSpec::Path { path, .. }, DriveSpec::Path { path: same, size }) if size.is_none() => {
            path == same
        }
        _ => existing == asked,
    }
}

pub(in crate::control) fn check(spec: &DriveSpec) -> Result<(), ErrorBody> {
    if let DriveSpec::Emulated {
        scale_ppm,
        dilation_percent,
        ..
    } = spec
    {
        if !(1..=SCALE_PPM_MAX).contains(scale_ppm) {
            let message = format!("{scale_ppm}; allowed: 1 to {SCALE_PPM_MAX}");
            return Err(ErrorBody::invalid("scale_ppm", message));
        }
        if !(1..=DILATION_PERCENT_MAX).contains(dilation_percent) {
            let message = format!("{dilation_percent}; allowed: 1 to {DILATION_PERCENT_MAX}");
            return Err(ErrorBody::invalid("dilation_percent", message));
        }
    }
    let (path, profile) = match spec {
        DriveSpec::Path { path, .. } => (Some(("path", path)), None),
        DriveSpec::Emulated {
            profile, directory, ..
        } => {
            let directory = directory.as_ref();
            (
                directory.map(|path| ("directory", path)),
                Some(("profile", profile)),
            )
        }
        DriveSpec::Memory { .. } | DriveSpec::Null { .. } => (None, None),
    };
    for (field, text) in profile.into_iter().chain(path) {
        // They would split lines of the log and of tables, or do worse to a terminal.
        if text.contains(char::is_control) {
            let message = format!("{field} {text:?} has control characters; allowed: none");
            return Err(ErrorBody::invalid(field, message));
        }
    }
    let Some((field, path)) = path else {
        return Ok(());
    };
    let problem = if !is_absolute(path) {
        "is relative"
    } else if path.len() > PATH_BYTES_MAX {
        "is too long"
    } else {
        return Ok(());
    };
    let message = format!(
        "{field} {path:?} {problem}; allowed: an absolute path on the node, up to \
         {PATH_BYTES_MAX} bytes, without control characters"
    );
    Err(ErrorBody::invalid(field, message))
}

/// The same drive, of whole blocks.
pub(in crate::control) fn in_blocks(spec: DriveSpec) -> DriveSpec {
    match spec {
        DriveSpec::Path { path, size } => DriveSpec::Path {
            path,
            size: size.map(Size::in_blocks),
        },
        DriveSpec::Memory { size } => DriveSpec::Memory {
            size: size.in_blocks(),
        },
        DriveSpec::Null { size } => DriveSpec::Null {
            size: size.in_blocks(),
        },
        emulated @ DriveSpec::Emulated { .. } => emulated,
    }
}

pub(in crate::control) fn data_path_spec(spec: &DriveSpec) -> node::DriveSpec {
    match spec {
        DriveSpec::Path { path, size } => node::DriveSpec::Path {
            path: path.into(),
            create_bytes: size.map(Size::bytes),
        },
        DriveSpec::Memory { size } => node::DriveSpec::Memory {
            bytes: size.bytes(),
        },
        DriveSpec::Null { size } => node::DriveSpec::Null {
            bytes: size.bytes(),
        },
        DriveSpec::Emulated {
            profile,
            scale_ppm,
            dilation_percent,
            directory,
        } => node::DriveSpec::Emulated(node::EmulatedSpec {
            profile: profile.clone(),
            scale_ppm: *scale_ppm,
            dilation_percent: *dilation_percent,
            directory: directory.as_ref().map(Into::into),
        }),
    }
}

/// The same drive, if it is there.
pub(in crate::control) fn existing(spec: node::DriveSpec) -> node::DriveSpec {
    match spec {
        node::DriveSpec::Path { path, .. } => node::DriveSpec::Path {
            path,
            create_bytes: None,
        },
        other => other,
    }
}

/// The file or directory that opening a drive makes, if it is not there yet.
pub(in crate::control) fn to_be_made(spec: &DriveSpec) -> Option<PathBuf> {
    let path = match spec {
        DriveSpec::Path {
            path,
            size: Some(_),
        } => PathBuf::from(path),
        DriveSpec::Emulated {
            directory: Some(directory),
            ..
        } => PathBuf::from(directory),
        _ => return None,
    };
    let missing = path.symlink_metadata().is_err();
    missing.then_some(path)
}

pub(in crate::control) fn description(spec: &DriveSpec) -> String {
    match spec {
        DriveSpec::Path { path, .. } => path.clone(),
        DriveSpec::Memory { size } => format!("{size} of memory, lost when the node stops"),
        DriveSpec::Null { size } => format!("{size} that keep nothing"),
        DriveSpec::Emulated { profile, .. } => format!("an emulated {profile}"),
    }
}
