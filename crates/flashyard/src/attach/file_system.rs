//! A file system of one file, which is the volume: its mount, and what it says of itself.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::Geometry;
use fuser::{Filesystem, InitFlags, KernelConfig, MountOption, Request, Session};
use rustix::fs::OFlags;

use super::wire::{self, Asked, Attributes};

/// The file's name.
pub const FILE: &str = "volume";

/// The inodes: the directory, and the file in it.
const ROOT: u64 = 1;
const VOLUME: u64 = 2;

/// Requests that the kernel keeps outstanding on its own account; its usual 12 would be the limit
/// of every queue depth above.
const BACKGROUND: u16 = 256;

/// Largest write in one request, and largest payload of any.
pub const WRITE_BYTES: usize = 1 << 20;

/// The mounted file system; unmounted when dropped, if it still is mounted.
pub struct Mounted {
    /// Whether the kernel waits for entries of its rings before it asks anything.
    pub over_ring: bool,
    /// Where the kernel's requests come from and answers go to; reads do not wait.
    pub channel: Rc<OwnedFd>,
    _session: Session<Terms>,
}

/// What is agreed on with the kernel at the start. The requests after that do not go through the
/// library: the event loop that has the connection takes them itself, so that none changes threads.
struct Terms {
    /// Over io_uring, if the kernel offers it; and whether that was agreed on.
    ring: bool,
    agreed: Arc<AtomicBool>,
}

impl Filesystem for Terms {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that offers less gets along with less.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        let ring = self.ring
            && config
                .add_capabilities(InitFlags::FUSE_OVER_IO_URING)
                .is_ok();
        self.agreed.store(ring, Ordering::Relaxed);
        let _ = config.set_max_write(WRITE_BYTES as u32);
        // Nothing is read ahead; a kernel that would do more would want larger entries.
        let _ = config.set_max_readahead(WRITE_BYTES as u32);
        Ok(())
    }
}

impl Mounted {
    /// Mounts it at the directory `place`, with requests over io_uring if `ring` and the kernel
    /// want it so.
    pub fn mount(place: &Path, ring: bool) -> io::Result<Mounted> {
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            MountOption::FSName("flashyard".to_owned()),
            MountOption::NoDev,
            MountOption::NoSuid,
        ];
        let agreed = Arc::new(AtomicBool::new(false));
        let terms = Terms {
            ring,
            agreed: Arc::clone(&agreed),
        };
        let session = Session::new(terms, place, &config)?;
        let channel = session.as_fd().try_clone_to_owned()?;
        let flags = rustix::fs::fcntl_getfl(&channel)?;
        rustix::fs::fcntl_setfl(&channel, flags | OFlags::NONBLOCK)?;
        Ok(Mounted {
            over_ring: agreed.load(Ordering::Relaxed),
            channel: Rc::new(channel),
            _session: session,
        })
    }
}

fn attributes(inode: u64, geometry: &Geometry) -> Option<Attributes> {
    let (mode, bytes) = match inode {
        ROOT => (wire::DIRECTORY | 0o700, 0),
        VOLUME => (wire::REGULAR | 0o600, geometry.capacity_bytes()),
        _ => return None,
    };
    Some(Attributes {
        inode,
        mode,
        bytes,
        block_bytes: geometry.block_bytes,
    })
}

/// The payload of the answer to what is asked about the file system, or an errno; what is asked of
/// the volume is none of its business.
pub fn about(asked: Asked<'_>, geometry: &Geometry) -> Result<Vec<u8>, i32> {
    let missing = rustix::io::Errno::NOENT.raw_os_error();
    match asked {
        Asked::Lookup { parent, name } => attributes(VOLUME, geometry)
            .filter(|_| parent == ROOT && name == FILE.as_bytes())
            .map(|found| found.entry())
            .ok_or(missing),
        Asked::Attributes { inode } => attributes(inode, geometry)
            .map(|found| found.attributes())
            .ok_or(missing),
        Asked::Statistics => Ok(wire::statistics(geometry.block_bytes, geometry.block_count)),
        // Not "unknown": the kernel would never ask for any change of the allocation again.
        Asked::OtherAllocation => Err(rustix::io::Errno::OPNOTSUPP.raw_os_error()),
        Asked::Open => Ok(wire::opened()),
        Asked::Close => Ok(Vec::new()),
        Asked::List { from } => Ok(wire::listed(
            &[
                (ROOT, wire::DIRECTORY, "."),
                (ROOT, wire::DIRECTORY, ".."),
                (VOLUME, wire::REGULAR, FILE),
            ],
            from,
        )),
        _ => Err(rustix::io::Errno::NOSYS.raw_os_error()),
    }
}
