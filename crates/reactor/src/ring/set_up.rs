//! Making the ring itself.

use std::io;
use std::time::Duration;

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

/// Pauses before a ring is tried again for which there was no memory, a second in all.
const PAUSES_MS: [u64; 8] = [4, 8, 16, 32, 64, 128, 256, 500];

/// Tries again while there is no memory. The kernel takes all pages of a ring at once, and frees
/// what only caches files too late for that: seen at the 259th ring, beside 11 GB of such.
fn persisting<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause_ms in PAUSES_MS {
        let pause = Duration::from_millis(pause_ms);
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => std::thread::sleep(pause),
            other => return other,
        }
    }
    attempt()
}

/// The best ring this kernel offers, with entries of 128 bytes if it is to be `wide`.
pub(super) fn set_up(entries: u32, wide: bool) -> io::Result<Queues> {
    for kind in RING_KINDS {
        match persisting(|| set_up_kind(kind, entries, wide)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a ring is tried of which the first attempts end with these numbers.
    fn attempts(errors: &[i32]) -> (usize, io::Result<()>) {
        let mut count = 0;
        let outcome = persisting(|| {
            count += 1;
            let error = errors.get(count - 1);
            error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(*error)))
        });
        (count, outcome)
    }

    #[test]
    fn memory_that_is_short_for_a_moment_fails_no_start() {
        let (count, outcome) = attempts(&[libc::ENOMEM, libc::ENOMEM]);
        assert_eq!(count, 3);
        outcome.expect("there was memory at last");
        let (count, outcome) = attempts(&[libc::ENOMEM; 20]);
        assert_eq!(count, PAUSES_MS.len() + 1);
        let error = outcome.expect_err("there is none");
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        let (count, outcome) = attempts(&[libc::EPERM]);
        assert_eq!(count, 1);
        outcome.expect_err("a second attempt would end so too");
    }
}
