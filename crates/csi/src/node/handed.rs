//! Secrets that another program reads: from memory, as the command line of a process is there for
//! all to see.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use api::SecretText;
use rustix::fs::{MemfdFlags, memfd_create};
use tonic::Status;

/// A secret that a program reads from a path, as long as this is there.
pub struct Handed(File);

impl Handed {
    /// Of this secret.
    ///
    /// # Errors
    /// `INTERNAL` when there is no memory for it.
    pub fn new(secret: &SecretText) -> Result<Handed, Status> {
        let failed = |error: std::io::Error| Status::internal(format!("memory: {error}"));
        let memory = memfd_create("secret", MemfdFlags::CLOEXEC);
        let mut file = File::from(memory.map_err(|error| failed(error.into()))?);
        file.write_all(secret.reveal().as_bytes()).map_err(failed)?;
        Ok(Handed(file))
    }

    /// Where it is for a program of the same user.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_reads_it_more_than_once() {
        let handed = Handed::new(&"a secret".into()).unwrap();
        for _ in 0..2 {
            let read = std::process::Command::new("cat")
                .arg(handed.path())
                .output();
            assert_eq!(read.unwrap().stdout, b"a secret");
        }
    }
}
