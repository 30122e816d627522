//! `atomic-write DEVICE OFFSET BYTES VALUE`: one write, past the page cache, that the kernel is
//! told to do whole or not at all (`RWF_ATOMIC`, since Linux 6.11); fio knows that from 3.38 on.
//! Ends with 1, and says why, when the kernel refuses it.

use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};

/// `RWF_ATOMIC` of `linux/fs.h`.
const ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// What the block layer wants buffers to begin at a multiple of.
const ALIGNMENT: usize = 4096;

fn write(arguments: &[String]) -> Result<()> {
    let [device, offset, bytes, value] = arguments else {
        anyhow::bail!("allowed: DEVICE OFFSET BYTES VALUE");
    };
    let (offset, bytes): (u64, usize) = (offset.parse()?, bytes.parse()?);
    let memory = vec![value.parse::<u8>()?; bytes + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let direct = i32::try_from(OFlags::DIRECT.bits())?;
    let file = File::options()
        .write(true)
        .custom_flags(direct)
        .open(device);
    let file = file.with_context(|| format!("cannot open {device}"))?;
    let buffer = IoSlice::new(&memory[start..start + bytes]);
    let written = pwritev2(&file, &[buffer], offset, ATOMIC).context("refused")?;
    ensure!(written == bytes, "{written} of {bytes} bytes written");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match write(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("atomic-write: {error:#}");
            ExitCode::FAILURE
        }
    }
}
