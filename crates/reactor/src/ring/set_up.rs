//! Making the ring itself.

use std::io;

use io_uring::IoUring;

/// The best ring this kernel offers. Without deferred task work completions interrupt the thread
/// instead of waiting for it, which costs time but changes nothing else.
pub(super) fn set_up(entries: u32) -> io::Result<IoUring> {
    // A recv in flight on every connection, besides what is submitted in one turn.
    let completions = entries.saturating_mul(8).min(65536);
    let deferred = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(completions)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    match deferred {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        other => return other,
    }
    let cooperative = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(completions)
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    match cooperative {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        other => return other,
    }
    IoUring::builder()
        .setup_clamp()
        .setup_cqsize(completions)
        .build(entries)
}
