//! What happens to a pool, as events and as the progress of jobs.

use api::{JobKind, Severity};
use node::{DriveChange, OfflineReason, PoolEvent, PoolState};

use crate::events::Events;
use crate::jobs::Jobs;

/// Bytes of a block of a pool.
const BLOCK_BYTES: u64 = 4096;

/// Tells what happened to `pool`; `drive` is what the drive is called that it is about.
pub fn tell(events: &Events, jobs: &Jobs, pool: &str, drive: Option<&str>, event: &PoolEvent) {
    let object = format!("pool/{pool}");
    if let Some((severity, message)) = said(drive, event) {
        events.record(severity, &object, &message);
    }
    match event {
        PoolEvent::Rebuild {
            left_blocks,
            total_blocks,
        } => rebuilt(events, jobs, &object, *left_blocks, *total_blocks),
        PoolEvent::RebuildStuck { .. } | PoolEvent::RebuildWaits { .. } => {
            if let Some(id) = jobs.running(JobKind::Rebuild, &object)
                && let Some((_, message)) = said(drive, event)
            {
                jobs.finish(id, Err(message));
            }
        }
        PoolEvent::Balance {
            left_zones,
            total_zones,
        } => rebalanced(jobs, &object, *left_zones, *total_zones),
        PoolEvent::Scrub {
            done_segments,
            total_segments,
        } => {
            if let Some(id) = jobs.running(JobKind::Scrub, &object) {
                jobs.progress(id, *done_segments, *total_segments);
            }
        }
        _ => {}
    }
}

/// Tells that a panic has ended `pool`, and the jobs that end with it unasked.
pub fn failed(events: &Events, jobs: &Jobs, pool: &str, fault: &str) {
    let object = format!("pool/{pool}");
    let message = format!("offline: {}: {fault}", OfflineReason::InternalError);
    events.record(Severity::Error, &object, &message);
    for kind in [JobKind::Rebuild, JobKind::Rebalance] {
        if let Some(id) = jobs.running(kind, &object) {
            jobs.finish(id, Err(message.clone()));
        }
    }
}

/// The progress of a removal, or of a rebuild, which starts by itself.
fn rebuilt(events: &Events, jobs: &Jobs, object: &str, left: u64, total: u64) {
    let done = total.saturating_sub(left);
    if let Some(id) = jobs.running(JobKind::RemoveDrive, object) {
        jobs.progress(id, done, total);
        return;
    }
    let running = jobs.running(JobKind::Rebuild, object);
    let id = match running {
        Some(id) => id,
        None if left == 0 => return,
        None => {
            let message = format!("rebuild begins: {} to move", blocks(total));
            events.record(Severity::Warning, object, &message);
            jobs.start(JobKind::Rebuild, object).id
        }
    };
    jobs.progress(id, done, total);
    if left == 0 {
        let message = format!("rebuilt: {} moved", blocks(total));
        events.record(Severity::Info, object, &message);
        jobs.finish(id, Ok(message));
    }
}

/// The progress of a rebalancing, which starts by itself and is no cause for concern.
fn rebalanced(jobs: &Jobs, object: &str, left: u64, total: u64) {
    let running = jobs.running(JobKind::Rebalance, object);
    let id = running.unwrap_or_else(|| jobs.start(JobKind::Rebalance, object).id);
    jobs.progress(id, total.saturating_sub(left), total);
    if left == 0 {
        jobs.finish(id, Ok(format!("{total} zones moved to other drives")));
    }
}

fn said(drive: Option<&str>, event: &PoolEvent) -> Option<(Severity, String)> {
    Some(match event {
        PoolEvent::Space {
            mark_percent,
            used_bytes,
            usable_bytes,
        } => space(*mark_percent, *used_bytes, *usable_bytes),
        PoolEvent::State { state, reason } => match (state, reason) {
            (PoolState::Online, _) => (Severity::Info, "online".to_owned()),
            (PoolState::Degraded, _) => {
                let message = "degraded: redundancy is missing, all data is available";
                (Severity::Warning, message.to_owned())
            }
            (PoolState::Offline, reason) => {
                let reason = reason.map_or("it was closed", OfflineReason::as_str);
                (Severity::Error, format!("offline: {reason}"))
            }
        },
        PoolEvent::Drive { index, change, .. } => {
            let called = drive.map_or(format!("member {index}"), |drive| format!("drive {drive}"));
            drive_changed(&called, *change)
        }
        PoolEvent::RebuildStuck { left_blocks } => (Severity::Error, stuck(*left_blocks)),
        PoolEvent::RebuildWaits { left_blocks } => (Severity::Error, lacks_drives(*left_blocks)),
        PoolEvent::ScrubEnded {
            repaired_blocks,
            lost_blocks,
            lost_nodes,
        } => {
            let bad = *lost_blocks + *lost_nodes > 0;
            let message = format!(
                "scrub ended: {repaired_blocks} blocks repaired, {lost_blocks} blocks and \
                 {lost_nodes} nodes of the map lost"
            );
            (if bad { Severity::Error } else { Severity::Info }, message)
        }
        PoolEvent::BlockLost {
            lost,
            blocks,
            holders,
        } => {
            let (holders, first) = (holders.join(", "), lost.block);
            let message = match blocks {
                1 => format!("block {first} of {holders} is lost"),
                blocks => {
                    let last = first + blocks - 1;
                    format!("blocks {first} to {last} of {holders} are lost, with their map node")
                }
            };
            (Severity::Error, message)
        }
        PoolEvent::GenerationsEnd => {
            let message = "the generations of segments have come to their end, and writes are \
                           refused: move the volumes to another pool";
            (Severity::Error, message.to_owned())
        }
        PoolEvent::MoreBlocksLost { blocks } => {
            (Severity::Error, format!("{blocks} more blocks are lost"))
        }
        PoolEvent::Rebuild { .. } | PoolEvent::Balance { .. } | PoolEvent::Scrub { .. } => {
            return None;
        }
    })
}

fn space(mark_percent: u8, used_bytes: u64, usable_bytes: u64) -> (Severity, String) {
    let share = format!("{} of {} used", size(used_bytes), size(usable_bytes));
    match mark_percent {
        0 => (Severity::Info, format!("space: {share}, below 80% again")),
        100 => (
            Severity::Error,
            format!("out of space, a write was refused: {share}"),
        ),
        mark if mark >= 95 => (Severity::Error, format!("space: over {mark}%, {share}")),
        mark => (Severity::Warning, format!("space: over {mark}%, {share}")),
    }
}

fn redundancy_left(drives: usize) -> String {
    match drives {
        0 => "no redundancy left".to_owned(),
        1 => "redundancy left: 1 drive".to_owned(),
        drives => format!("redundancy left: {drives} drives"),
    }
}

fn drive_changed(called: &str, change: DriveChange) -> (Severity, String) {
    match change {
        DriveChange::Joined => (Severity::Info, format!("{called} joined")),
        DriveChange::Left { drives_to_spare } => (
            Severity::Info,
            format!("{called} left; {}", redundancy_left(drives_to_spare)),
        ),
        DriveChange::Steady => (Severity::Info, format!("{called} is no longer slow")),
        DriveChange::Silent { seconds } => (
            Severity::Warning,
            format!("{called} has not answered for {seconds} s"),
        ),
        DriveChange::Failed => (
            Severity::Error,
            format!("{called} failed, and is out of use"),
        ),
        DriveChange::Missing => (Severity::Error, format!("{called} is missing")),
        DriveChange::LabelDamaged => (
            Severity::Error,
            format!(
                "{called} is there, but its label is damaged: wipe that drive and add it to the \
                 pool to use it again"
            ),
        ),
        DriveChange::LabelMended => (
            Severity::Warning,
            format!(
                "one of the two labels of {called} was damaged or could not be read, and has been \
                 written anew: see to that drive if it happens again"
            ),
        ),
        DriveChange::Stale => (
            Severity::Warning,
            format!("{called} is back but missed writes: add it to the pool to use it again"),
        ),
        DriveChange::Slow {
            median_us,
            others_us,
        } => (
            Severity::Warning,
            format!(
                "{called} is slow: half its requests take over {median_us} us, {others_us} us \
                     on the other drives"
            ),
        ),
        DriveChange::Errors {
            read_errors,
            corrupt_blocks,
        } => (
            Severity::Warning,
            format!("{called}: {read_errors} read errors, {corrupt_blocks} checksum errors"),
        ),
    }
}

fn stuck(left_blocks: u64) -> String {
    let left = blocks(left_blocks);
    format!("rebuild ended, except for {left} that cannot be read")
}

fn lacks_drives(left_blocks: u64) -> String {
    let left = blocks(left_blocks);
    format!(
        "redundancy of {left} is missing, and the drives left are too few or too full to rebuild \
         it: add a drive"
    )
}

fn blocks(count: u64) -> api::Size {
    size(count * BLOCK_BYTES)
}

fn size(bytes: u64) -> api::Size {
    api::Size(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syslog::Syslog;
    use api::JobState;
    use std::sync::Arc;

    #[test]
    fn a_pool_that_a_panic_ended_is_told_and_its_rebuild_ends() {
        let (events, jobs) = (Events::new(Arc::new(Syslog::new().0)), Jobs::default());
        let [ours, other] = ["pool/p", "pool/q"].map(|pool| jobs.start(JobKind::Rebuild, pool).id);
        failed(&events, &jobs, "p", "a count is wrong (map.rs:7:5)");
        let said = "offline: an internal error stopped the pool: a count is wrong (map.rs:7:5)";
        let all = events.all();
        assert_eq!(all.len(), 1);
        assert_eq!((&*all[0].object, &*all[0].message), ("pool/p", said));
        assert_eq!(all[0].severity, Severity::Error);
        let states = [ours, other].map(|id| jobs.get(id).unwrap().state);
        assert_eq!(states, [JobState::Failed, JobState::Running]);
    }
}
