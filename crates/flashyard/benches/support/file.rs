//! Files that stand for drives.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// A file of `bytes` in `directory`, full of data that is no run of zeroes, so that reads of it
/// reach the drive.
pub fn prepare(directory: &Path, bytes: u64) -> Result<PathBuf> {
    let path = directory.join("drive");
    let mut file = File::create(&path)?;
    let mut chunk = vec![0_u8; 1 << 20];
    let mut word = 1_u64;
    for _ in 0..bytes / chunk.len() as u64 {
        for bytes in chunk.chunks_exact_mut(8) {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    Ok(path)
}
