//! Making the ring itself.

use std::io;

use io_uring::squeue::EntryMarker;
use io_uring::{Builder, IoUring};

use super::queues::{Pair, Queues};

/// How completions reach the thread; the later ones cost time but change nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingKind {
    /// They wait until the thread asks for them (Linux 6.1).
    Deferred,
    /// They wait until the thread enters the kernel for any reason (Linux 5.19).
    Cooperative,
    /// They interrupt the thread.
    Plain,
}

/// Best first.
pub(crate) const RING_KINDS: [RingKind; 3] =
    [RingKind::Deferred, RingKind::Cooperative, RingKind::Plain];

/// The best ring this kernel offers, with entries of 128 bytes if it is to be `wide`.
pub(super) fn set_up(entries: u32, wide: bool) -> io::Result<Queues> {
    for kind in RING_KINDS {
        match set_up_kind(kind, entries, wide) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => return other,
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

pub(super) fn set_up_kind(kind: RingKind, entries: u32, wide: bool) -> io::Result<Queues> {
    Ok(match wide {
        false => Queues::Narrow(Pair::of(build(kind, entries)?)),
        true => Queues::Wide(Pair::of(build(kind, entries)?)),
    })
}

fn build<S: EntryMarker>(kind: RingKind, entries: u32) -> io::Result<IoUring<S>> {
    let mut builder = IoUring::builder();
    // A recv in flight on every connection, besides what is submitted in one turn.
    builder
        .setup_clamp()
        .setup_cqsize(entries.saturating_mul(8).min(65536));
    options_of(kind, &mut builder);
    builder.build(entries)
}

fn options_of<S: EntryMarker>(kind: RingKind, builder: &mut Builder<S>) {
    match kind {
        RingKind::Deferred => {
            builder
                .setup_submit_all()
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag();
        }
        RingKind::Cooperative => {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        RingKind::Plain => {}
    }
}
