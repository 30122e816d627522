//! Cross-Controller Reset (NVMe 2.3 §5.4.3, §5.2.12.3.1): a host that has lost one controller has
//! it ended by another of its controllers, and learns when it may send its commands again.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use nvme::Status;
use nvme::command::{CrossControllerReset, cross_reset_result};
use nvme::event::AsyncEvent;
use nvme::log::{
    CROSS_RESETS_LOGGED_MAX, CrossResetEntry, CrossResetHeader, CrossResetState, cross_reset_flags,
};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::Controller;
use crate::home::Done;
use crate::instance::{Impacted, Instance};
use crate::session::{Role, Session};
use crate::transport::Reply;

/// CCRL: as many as Linux's target has.
pub(super) const CROSS_RESETS_MAX: u8 = 4;

/// How long the answer waits for the end of the reset. Writes that are under way take less, unless
/// their drive is in trouble.
const AT_ONCE: Duration = Duration::from_secs(1);

/// ACID of an entry: we name no other controller for another try. No controller has this number.
const NO_ALTERNATE: u16 = 0xffff;

/// Resets that the host of a controller asked it for, in order.
#[derive(Debug, Default)]
pub(crate) struct CrossResets(Vec<CrossReset>);

#[derive(Debug)]
struct CrossReset {
    instance: Instance,
    /// The controller was there, and was ended.
    validated: bool,
    state: CrossResetState,
    /// The answer to the command is out and did not tell the end: the log does.
    is_logged: bool,
}

impl CrossResets {
    /// Begins one. `Err` while one of the same controller is in progress, or too many are.
    fn begin(&mut self, instance: Instance) -> Result<(), Status> {
        let in_progress = |one: &&CrossReset| one.state == CrossResetState::IN_PROGRESS;
        let mut running = self.0.iter().filter(in_progress);
        if running.any(|one| one.instance == instance) {
            return Err(Status::CROSS_RESET_IN_PROGRESS);
        }
        if self.0.iter().filter(in_progress).count() >= usize::from(CROSS_RESETS_MAX) {
            return Err(Status::CROSS_RESET_LIMIT_EXCEEDED);
        }
        if self.0.len() >= CROSS_RESETS_LOGGED_MAX {
            return Err(Status::CROSS_RESET_LOG_FULL);
        }
        self.0.push(CrossReset {
            instance,
            validated: false,
            state: CrossResetState::IN_PROGRESS,
            is_logged: false,
        });
        Ok(())
    }

    fn in_progress(&mut self, instance: Instance) -> Option<&mut CrossReset> {
        let mut all = self.0.iter_mut();
        all.find(|one| one.instance == instance && one.state == CrossResetState::IN_PROGRESS)
    }

    /// The host was told what came of it, by the answer.
    fn forget(&mut self, instance: Instance) {
        let is_it = |one: &CrossReset| {
            one.instance == instance && one.state == CrossResetState::IN_PROGRESS
        };
        self.0.retain(|one| !is_it(one));
    }

    /// The log tells of it from now on.
    fn log(&mut self, instance: Instance, validated: bool) {
        if let Some(found) = self.in_progress(instance) {
            found.validated = validated;
            found.is_logged = true;
        }
    }

    /// It has come to its end; true when it was in progress, and nothing has cleared the log.
    fn complete(&mut self, instance: Instance, outcome: Done) -> bool {
        let Some(found) = self.in_progress(instance) else {
            return false;
        };
        found.state = match outcome {
            Ok(()) => CrossResetState::SUCCESS,
            Err(_) => CrossResetState::FAILED,
        };
        true
    }

    /// The log page.
    pub fn page(&self) -> Vec<u8> {
        let logged = self.0.iter().filter(|one| one.is_logged);
        let entries: Vec<_> = logged.map(CrossReset::entry).collect();
        let header = CrossResetHeader {
            entries: U16::new(entries.len() as u16),
            reserved: [0; 6],
        };
        [header.as_bytes(), entries.as_bytes()].concat()
    }

    /// Entries in this part of the page go where they are complete.
    pub fn remove_completed(&mut self, read: Range<u64>) {
        let entry_bytes = size_of::<CrossResetEntry>() as u64;
        let mut at = size_of::<CrossResetHeader>() as u64;
        self.0.retain(|one| {
            if !one.is_logged {
                return true;
            }
            let whole = at..at + entry_bytes;
            at = whole.end;
            let is_read = read.start <= whole.start && whole.end <= read.end;
            !is_read || one.state == CrossResetState::IN_PROGRESS
        });
    }
}

impl CrossReset {
    fn entry(&self) -> CrossResetEntry {
        CrossResetEntry {
            controller_id: U16::new(self.instance.controller_id),
            uniquifier: self.instance.uniquifier,
            reserved: 0,
            alternate_id: U16::new(NO_ALTERNATE),
            state: self.state,
            flags: match self.validated {
                true => cross_reset_flags::VALIDATED | cross_reset_flags::INITIATED,
                false => 0,
            },
        }
    }
}

impl<D: BlockDevice + 'static> Controller<D> {
    /// Ends another controller of the same host and subsystem. One that is not there any more has
    /// ended before: what its commands still do is waited for all the same.
    pub(super) async fn cross_reset(
        &self,
        command: &CrossControllerReset,
        session: &Session<D>,
    ) -> Result<Reply, Status> {
        let instance = Instance {
            controller_id: command.controller_id.get(),
            uniquifier: command.uniquifier,
            random: command.random.get(),
        };
        let Some(Role::Admin(this)) = session.role.get() else {
            return Err(Status::INVALID_FIELD.do_not_retry());
        };
        if instance == self.instance.get() {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        self.cross_resets.borrow_mut().begin(instance)?;
        let impacted = Impacted {
            instance,
            host_nqn: self.host_nqn.clone(),
            subsystem_nqn: self.subsystem_nqn.clone(),
        };
        let validated = match session.core.reset(impacted).await {
            Ok(()) => true,
            Err(Status::INVALID_CONTROLLER_ID) => false,
            Err(status) => {
                self.cross_resets.borrow_mut().forget(instance);
                return Err(status);
            }
        };
        let core = Rc::clone(&session.core);
        let mut ending = reactor::spawn(async move { core.quiesce(instance).await });
        if let Ok(outcome) = reactor::timeout(AT_ONCE, &mut ending).await {
            self.cross_resets.borrow_mut().forget(instance);
            return outcome.map(|()| Reply::result(u64::from(done_at_once(validated))));
        }
        self.cross_resets.borrow_mut().log(instance, validated);
        let this = Rc::clone(this);
        drop(reactor::spawn(async move {
            let outcome = ending.await;
            if this.cross_resets.borrow_mut().complete(instance, outcome) {
                this.raise(AsyncEvent::CROSS_RESET_COMPLETED);
            }
        }));
        Ok(Reply::result(0))
    }
}

/// Dword 0 of the answer to a reset that is done.
fn done_at_once(validated: bool) -> u32 {
    match validated {
        true => {
            cross_reset_result::IMMEDIATE
                | cross_reset_result::VALIDATED
                | cross_reset_result::INITIATED
        }
        false => cross_reset_result::IMMEDIATE,
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    fn instance(controller_id: u16) -> Instance {
        Instance {
            controller_id,
            uniquifier: 3,
            random: 5,
        }
    }

    /// Identifiers and states in the log.
    fn logged(resets: &CrossResets) -> Vec<(u16, CrossResetState)> {
        let page = resets.page();
        let (header, entries) = CrossResetHeader::ref_from_prefix(&page).unwrap();
        let entries = <[CrossResetEntry]>::ref_from_bytes(entries).unwrap();
        assert_eq!(usize::from(header.entries.get()), entries.len());
        let told = |entry: &CrossResetEntry| (entry.controller_id.get(), entry.state);
        entries.iter().map(told).collect()
    }

    /// NVMe 2.3 figure 103: the statuses of a reset that is not begun.
    #[test]
    fn resets_are_bounded_in_progress_and_in_the_log() {
        let mut resets = CrossResets::default();
        for id in 1..=u16::from(CROSS_RESETS_MAX) {
            assert_eq!(resets.begin(instance(id)), Ok(()));
        }
        let again = resets.begin(instance(1));
        assert_eq!(again, Err(Status::CROSS_RESET_IN_PROGRESS));
        let more = resets.begin(instance(9));
        assert_eq!(more, Err(Status::CROSS_RESET_LIMIT_EXCEEDED));
        resets.forget(instance(1));
        assert_eq!(resets.begin(instance(9)), Ok(()));

        let mut resets = CrossResets::default();
        for id in 0..CROSS_RESETS_LOGGED_MAX as u16 {
            assert_eq!(resets.begin(instance(id)), Ok(()));
            resets.log(instance(id), true);
            assert!(resets.complete(instance(id), Ok(())));
        }
        assert_eq!(resets.page().len(), 4096);
        let full = resets.begin(instance(600));
        assert_eq!(full, Err(Status::CROSS_RESET_LOG_FULL));
        resets.remove_completed(0..4096);
        assert_eq!(resets.begin(instance(600)), Ok(()));
    }

    /// Nothing goes from the log that its host has not read, or that is in progress.
    #[test]
    fn entries_go_once_they_are_read_and_complete() {
        let mut resets = CrossResets::default();
        for id in 1..=4 {
            resets.begin(instance(id)).unwrap();
            if id > 1 {
                resets.log(instance(id), id == 2);
            }
        }
        let [running, success] = [CrossResetState::IN_PROGRESS, CrossResetState::SUCCESS];
        assert_eq!(logged(&resets), [(2, running), (3, running), (4, running)]);
        assert!(resets.complete(instance(2), Ok(())));
        assert!(resets.complete(instance(4), Err(Status::INTERNAL_ERROR)));
        assert!(!resets.complete(instance(4), Ok(())), "it is complete");
        let flags = |at: usize| resets.page()[at + 7];
        assert_eq!((flags(8), flags(16)), (0b11, 0));
        for unread in [0..8, 0..15, 9..24, 16..24] {
            resets.remove_completed(unread);
            let failed = (4, CrossResetState::FAILED);
            assert_eq!(logged(&resets), [(2, success), (3, running), failed]);
        }
        resets.remove_completed(8..16);
        assert_eq!(logged(&resets).len(), 2);
        resets.remove_completed(0..4096);
        assert_eq!(logged(&resets), [(3, running)]);
        assert!(resets.complete(instance(1), Ok(())), "the answer waits");
    }
}
