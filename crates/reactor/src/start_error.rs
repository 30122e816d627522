//! [`StartError`]: why a reactor could not be started, and what to do about it.

use std::io;

/// Why a reactor could not start. The text says what is missing and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The kernel has no io_uring at all.
    #[error(
        "this kernel has no io_uring (running {release}): Linux 5.19 or later is needed, \
         6.1 or later is recommended; in a container a seccomp profile may hide it"
    )]
    NoIoUring {
        /// The running kernel's release.
        release: String,
    },
    /// The kernel's io_uring is too old.
    #[error(
        "the io_uring of this kernel (running {release}) lacks {missing}: Linux 5.19 or later is \
         needed, 6.1 or later is recommended; in a container a seccomp profile may hide it"
    )]
    KernelTooOld {
        /// The running kernel's release.
        release: String,
        /// What was looked for.
        missing: &'static str,
    },
    /// Something forbids the system call.
    #[error(
        "io_uring is forbidden here (kernel.io_uring_disabled = {disabled}): run `sysctl \
         kernel.io_uring_disabled=0`; in a container, allow io_uring_setup, io_uring_enter and \
         io_uring_register in the seccomp profile (Docker: --security-opt seccomp=PROFILE)"
    )]
    Forbidden {
        /// The setting's value, or "unknown".
        disabled: String,
    },
    /// Any other failure to set the ring up.
    #[error("cannot set up an io_uring: {0}")]
    Setup(io::Error),
    /// A thread for a core could not be made or pinned.
    #[error("cannot start the thread of core {index}: {error}")]
    Thread {
        /// Which core of the configuration.
        index: usize,
        /// What the system said.
        error: io::Error,
    },
}

impl StartError {
    /// Names the cause of a failed ring set-up.
    pub(crate) fn from_setup(error: io::Error) -> StartError {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => StartError::NoIoUring { release: release() },
            Some(libc::EPERM | libc::EACCES) => StartError::Forbidden {
                disabled: std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
                    .map_or_else(|_| "unknown".to_owned(), |value| value.trim().to_owned()),
            },
            _ => StartError::Setup(error),
        }
    }

    pub(crate) fn too_old(missing: &'static str) -> StartError {
        StartError::KernelTooOld {
            release: release(),
            missing,
        }
    }
}

fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_says_what_to_do() {
        let text = |code| StartError::from_setup(io::Error::from_raw_os_error(code)).to_string();
        assert!(text(libc::ENOSYS).contains("Linux 5.19 or later"));
        assert!(text(libc::EPERM).contains("sysctl kernel.io_uring_disabled=0"));
        assert!(text(libc::EPERM).contains("seccomp"));
        assert!(text(libc::ENOMEM).contains("cannot set up"));
    }
}
