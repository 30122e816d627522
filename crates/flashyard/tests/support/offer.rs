//! Whether the kernel offers FUSE over io_uring.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Whether the kernel offers FUSE over io_uring, as a test wants it; put back when dropped. Only
/// one test at a time has this, in all processes.
pub struct Offer {
    /// How requests come then.
    pub requests: &'static str,
    /// The parameter, locked, and what it was.
    kept: Option<(File, String)>,
}

impl Offer {
    pub fn set(io_uring: bool) -> Offer {
        // A kernel without the parameter offers nothing, and what is tested is the other way.
        let Ok(file) = File::open(PARAMETER) else {
            eprintln!("FUSE over io_uring is not tested: this kernel has no {PARAMETER}");
            return Offer {
                requests: "read",
                kept: None,
            };
        };
        file.lock().unwrap();
        let before = std::fs::read_to_string(PARAMETER).unwrap();
        let (value, requests) = match io_uring {
            true => ("Y", "io_uring"),
            false => ("N", "read"),
        };
        std::fs::write(PARAMETER, value).unwrap();
        Offer {
            requests,
            kept: Some((file, before)),
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some((_locked, before)) = &self.kept {
            std::fs::write(PARAMETER, before.trim()).unwrap();
        }
    }
}
