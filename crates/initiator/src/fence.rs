//! [`Fence`]: keeps writes back after a controller was lost, until none of its own can land any
//! more (NVMe 2.3 §9.6; TP4129, TP8028).
//!
//! Whether a command took effect that was in flight is unknown, and so is whether it yet will: the
//! controller, or a switch before it, may have it still. It is sent again by a new connection, and
//! another write to the same blocks may follow. A ghost of the first one must not land after that.
//! So the new controller ends the lost one (Cross-Controller Reset) before anything is written.
//! Where it cannot, writes wait for as long as the lost one may take to notice the loss, and then
//! to end its commands (CQT). Reads do not wait, for nobody sees theirs.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use block::Buffer;
use nvme::IoOpcode;
use nvme::command::{ALL_NAMESPACES, CrossControllerReset, cross_reset_result};
use nvme::identify::{ControllerAttributes, ControllerData};
use nvme::log::{
    CrossResetEntry, CrossResetHeader, CrossResetState, GetLogPage, LogPage, REMOVE_COMPLETED,
};
use reactor::{Instant, now, sleep};
use zerocopy::FromBytes;

use crate::LossReason;
use crate::connection::Data;
use crate::controller::Shared;
use crate::establish::{Session, command};

/// How long is waited at first, and at last, before the log is read again.
const LOOK_PERIODS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// The log of resets, as long as it may be.
const LOG_BYTES: u32 = 4096;

/// A controller that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lost {
    controller_id: u16,
    uniquifier: u8,
    random: u64,
    /// No command of it has an effect from then on, as far as it has said.
    quiet_at: Instant,
}

/// Controllers whose commands may yet have an effect.
#[derive(Default)]
pub(crate) struct Fence(RefCell<Vec<Lost>>);

impl Fence {
    /// A controller that takes I/O was lost just now.
    pub(crate) fn add(&self, session: &Session, keep_alive: Option<Duration>, reason: LossReason) {
        let data = &session.data;
        self.0.borrow_mut().push(Lost {
            controller_id: session.controller_id,
            uniquifier: data.instance_uniquifier,
            random: data.instance_random.get(),
            quiet_at: now() + quiet_after(data, keep_alive, reason),
        });
    }

    /// Whether a command has to wait.
    pub(crate) fn holds(&self, opcode: u8) -> bool {
        changes_data(opcode) && !self.0.borrow().is_empty()
    }

    /// Returns once nothing is left to wait for, with the help of the controller that is there now.
    pub(crate) async fn lift(session: Rc<Session>, shared: Rc<Shared>) {
        loop {
            let first = shared.fence.0.borrow().first().copied();
            let Some(lost) = first else { return };
            if !reset(&session, &lost).await {
                sleep(lost.quiet_at.max(now()) - now()).await;
            }
            shared.fence.0.borrow_mut().retain(|one| *one != lost);
            shared.changed.notify_all();
        }
    }
}

fn changes_data(opcode: u8) -> bool {
    !matches!(
        IoOpcode(opcode),
        IoOpcode::READ | IoOpcode::COMPARE | IoOpcode::VERIFY | IoOpcode::FLUSH
    )
}

/// How long a controller that was lost so may take until no command of it has an effect. It counts
/// the keep alive timeout from the last command that reached it; with traffic based keep alive it
/// looks at whole periods. Without any timeout nothing is known but what it says itself.
fn quiet_after(
    data: &ControllerData,
    keep_alive: Option<Duration>,
    reason: LossReason,
) -> Duration {
    let quiesce = Duration::from_millis(u64::from(data.command_quiesce_ms.get()));
    let by_traffic = data.attributes.get() & ControllerAttributes::TRAFFIC_KEEP_ALIVE != 0;
    let timeouts = if by_traffic { 3 } else { 2 };
    match is_known_to_controller(reason) {
        true => quiesce,
        false => keep_alive.unwrap_or_default() * timeouts + quiesce,
    }
}

/// Whether it was the other end that ended the connection.
fn is_known_to_controller(reason: LossReason) -> bool {
    matches!(
        reason,
        LossReason::Closed
            | LossReason::Terminated(_)
            | LossReason::Network(io::ErrorKind::ConnectionReset)
    )
}

/// Has a lost controller ended; false where that is not to be had.
async fn reset(session: &Session, lost: &Lost) -> bool {
    let is_named = lost.uniquifier != 0 || lost.random != 0;
    if session.data.cross_resets_max == 0 || !is_named {
        return false;
    }
    let entry = CrossControllerReset::new(lost.controller_id, lost.uniquifier, lost.random);
    let answer = command(&session.admin, *entry.entry(), Data::None).await;
    let Ok((_, completion)) = answer else {
        return false;
    };
    if completion.result.get() as u32 & cross_reset_result::IMMEDIATE != 0 {
        return true;
    }
    let [mut period, most] = LOOK_PERIODS;
    loop {
        sleep(period).await;
        period = (period * 2).min(most);
        match state_of(session, lost).await {
            Some(CrossResetState::IN_PROGRESS) => {}
            other => return other == Some(CrossResetState::SUCCESS),
        }
    }
}

/// How far the reset of a controller is, as the log has it.
async fn state_of(session: &Session, lost: &Lost) -> Option<CrossResetState> {
    let mut entry = GetLogPage::new(LogPage::CROSS_RESETS, ALL_NAMESPACES, 0, LOG_BYTES);
    entry.specific = REMOVE_COMPLETED;
    let data = Data::In(Buffer::zeroed(LOG_BYTES as usize));
    let (data, _) = command(&session.admin, *entry.entry(), data).await.ok()?;
    let page = data.into_buffer()?;
    let (header, entries) = CrossResetHeader::ref_from_prefix(&page).ok()?;
    let count = usize::from(header.entries.get());
    let entries = <[CrossResetEntry]>::ref_from_prefix_with_elems(entries, count);
    let (entries, _) = entries.ok()?;
    let is_it = |one: &&CrossResetEntry| {
        one.controller_id.get() == lost.controller_id && one.uniquifier == lost.uniquifier
    };
    entries.iter().rfind(is_it).map(|found| found.state)
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    /// The bounds that Linux keeps to as well: 3 timeouts with traffic based keep alive, 2 without,
    /// and CQT.
    #[test]
    fn a_controller_that_cannot_be_reset_is_given_its_time() {
        let mut data = ControllerData::new_zeroed();
        data.command_quiesce_ms = 1500.into();
        let second = Duration::from_secs(1);
        let of = |data: &ControllerData, reason| quiet_after(data, Some(4 * second), reason);
        assert_eq!(of(&data, LossReason::Silent).as_millis(), 9500);
        let network = LossReason::Network(io::ErrorKind::TimedOut);
        assert_eq!(of(&data, network).as_millis(), 9500);
        data.attributes = ControllerAttributes::TRAFFIC_KEEP_ALIVE.into();
        assert_eq!(of(&data, LossReason::Silent).as_millis(), 13_500);
        for known in [
            LossReason::Closed,
            LossReason::Network(io::ErrorKind::ConnectionReset),
        ] {
            assert_eq!(of(&data, known).as_millis(), 1500);
        }
        let silent = quiet_after(&data, None, LossReason::Silent);
        assert_eq!(silent.as_millis(), 1500);
    }
}
