//! Admin commands to an NVMe drive of this machine, through its kernel.
#![allow(
    unsafe_code,
    reason = "calls the kernel's passthrough; see the SAFETY lines"
)]

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{File, Kind};
use crate::blocking::blocking;

/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`: linux/nvme_ioctl.h.
const ADMIN_COMMAND: libc::c_ulong = 0xc048_4e41;

/// `_IO('N', 0x46)`: looks for namespaces again.
const RESCAN: libc::c_ulong = 0x4e46;

/// An admin command (NVMe 2.0 §5), as the kernel passes it on.
#[derive(Clone, Debug, Default)]
pub struct AdminCommand {
    /// Opcode; its two low bits say which way the data goes.
    pub opcode: u8,
    /// NSID.
    pub namespace_id: u32,
    /// Command dwords 10 to 15.
    pub dwords: [u32; 6],
    /// What goes to the controller, or room for what comes from it.
    pub data: Vec<u8>,
}

/// How a drive answered.
#[derive(Clone, Debug)]
pub struct AdminAnswer {
    /// The status field of the completion without its phase bit; 0 is success.
    pub status: u16,
    /// Dword 0 of the completion.
    pub result: u32,
    /// The data of the command, filled if it came from the controller.
    pub data: Vec<u8>,
}

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct PassedThrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace_id: u32,
    dword2: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dwords: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<PassedThrough>() == 72);

impl File {
    /// Passes an admin command to the NVMe drive that this file is a device of.
    ///
    /// # Errors
    /// The system's, `Unsupported` for what is no NVMe device. A command that the drive refuses is
    /// an answer, not an error.
    pub async fn nvme_admin(&self, command: AdminCommand) -> io::Result<AdminAnswer> {
        let device = self.device()?;
        blocking(move || pass_through(&device, command)).await
    }

    /// Has the kernel look which namespaces a controller has now.
    ///
    /// # Errors
    /// The system's, `Unsupported` for what is no NVMe device.
    pub async fn nvme_rescan(&self) -> io::Result<()> {
        let device = self.device()?;
        blocking(move || {
            // SAFETY: this request takes no argument.
            answered(unsafe { libc::ioctl(device.as_raw_fd(), RESCAN) }).map(|_| ())
        })
        .await
    }

    fn device(&self) -> io::Result<OwnedFd> {
        match &self.kind {
            Kind::Descriptor(descriptor) => descriptor.as_fd().try_clone_to_owned(),
            Kind::Simulated(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

fn pass_through(device: &OwnedFd, command: AdminCommand) -> io::Result<AdminAnswer> {
    let mut data = command.data;
    let data_bytes = u32::try_from(data.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let mut passed = PassedThrough {
        opcode: command.opcode,
        namespace_id: command.namespace_id,
        address: data.as_mut_ptr() as u64,
        data_bytes,
        dwords: command.dwords,
        ..PassedThrough::default()
    };
    // SAFETY: the kernel reads and writes `passed`, which has the size that the request's number
    // says, and `data_bytes` bytes at `address`; both live until the call returns.
    let status =
        answered(unsafe { libc::ioctl(device.as_raw_fd(), ADMIN_COMMAND, &raw mut passed) })?;
    Ok(AdminAnswer {
        status,
        result: passed.result,
        data,
    })
}

/// What a call returned: an error of the system, or a status of the drive.
fn answered(returned: libc::c_int) -> io::Result<u16> {
    match u16::try_from(returned) {
        Ok(status) => Ok(status),
        Err(_) => Err(match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOTTY) => ErrorKind::Unsupported.into(),
            error => error,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::OpenOptions;
    use crate::{Reactor, ReactorConfig};

    #[test]
    fn what_is_no_nvme_device_takes_no_admin_command() {
        let file = tempfile::NamedTempFile::new().expect("a file to ask");
        let ask = async |path: &std::path::Path| {
            let options = OpenOptions {
                create: true,
                ..OpenOptions::default()
            };
            let file = File::open(path, &options).await.expect("it opens");
            let identify = AdminCommand {
                opcode: 6,
                data: vec![0; 4096],
                ..AdminCommand::default()
            };
            let refused = file.nvme_admin(identify).await.expect_err("no drive");
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            let refused = file.nvme_rescan().await.expect_err("no drive");
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
        };
        Reactor::io_uring(ReactorConfig::default())
            .expect("a reactor")
            .run(ask(file.path()));
        Reactor::simulated(1).run(ask(file.path()));
    }
}
