//! Upkeep: the task that checkpoints and cleans when it is time, and refuses writes when it must.

use crate::checkpoint::Resume;
use crate::coordinator::Coordinator;
use crate::segments::{Kind, State as SegmentState};
use crate::space::{Action, Situation, plan};
use block::{BlockDevice, IoError};
use std::rc::Rc;

/// A victim with no more than this share of live blocks is worth cleaning ahead of need.
const CHEAP_FILL: f64 = 0.9;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Runs until the pool stops.
    pub async fn keep_up(self: Rc<Self>) {
        let mut futile = 0;
        loop {
            if self.stopping.get() || self.offline.get().is_some() {
                return;
            }
            if !self.array.newly_failed.borrow().is_empty()
                && self.settle_membership().await.is_err()
            {
                continue;
            }
            if let Some(member) = self.retirable() {
                // A failure has taken the pool offline, or will be found again.
                let _ = self.retire(member).await;
                continue;
            }
            self.watch_rebuild();
            let situation = self.situation();
            futile = if situation.starved { futile + 1 } else { 0 };
            let segments = self.state.borrow().segments.table().len();
            let action = match plan(situation) {
                // Every segment has been cleaned twice over and the writer still waits.
                _ if futile > 8 + 4 * segments => Action::Refuse,
                action => action,
            };
            match action {
                Action::Rest => self.upkeep.notified().await,
                Action::Checkpoint => {
                    // A failure has taken the pool offline, which ends the loop.
                    let _ = self.checkpoint_with(Resume::AtFreeze, |_| Ok(())).await;
                }
                Action::Clean => {
                    let _alone = self.upkeep_lock.lock().await;
                    if let Some((victim, _)) = self.victim() {
                        self.clean_victim(victim).await;
                    }
                }
                Action::Rebuild => {
                    let _alone = self.upkeep_lock.lock().await;
                    if let Some(victim) = self.degraded_victim() {
                        self.clean_victim(victim).await;
                    }
                }
                Action::Refuse => {
                    self.refused();
                    self.fail_queue(IoError::CapacityExceeded);
                    self.work.notify_one();
                }
            }
        }
    }

    async fn clean_victim(self: &Rc<Self>, victim: u32) {
        match self.shard.clean(victim).await {
            Ok(true) => {}
            Ok(false) => {
                self.state.borrow_mut().attempts.remove(&victim);
                let _ = self.checkpoint_locked(Resume::AtFreeze, |_| Ok(())).await;
            }
            Err(error) => {
                tracing::warn!(segment = victim, %error, "segment cannot be cleaned");
                self.state.borrow_mut().stuck.insert(victim);
            }
        }
    }

    pub fn situation(&self) -> Situation {
        let victim = self.victim();
        let degraded = self.degraded_victim().is_some();
        let state = self.state.borrow();
        let degraded_waits = !degraded && self.lingering(&state);
        let size = self.size();
        let rules = self.rules();
        let ready = state
            .segments
            .numbers(Kind::Wide, SegmentState::Ready)
            .filter(|number| {
                let found = state.segments.get(*number);
                found.is_some_and(|segment| rules.accepts(&segment.columns))
            });
        let freeable = state.segments.table().iter().any(|(number, segment)| {
            let sealed = segment.state == SegmentState::Sealed && segment.live() == 0;
            sealed && !state.limbo.iter().any(|(_, limbo)| limbo == number)
        });
        Situation {
            starved: state.starved && !state.queue.is_empty(),
            overlay_full: state.overlay.len() >= self.settings.checkpoint_updates
                || self.space_wants_a_look() && !state.overlay.is_empty(),
            freeable,
            degraded,
            degraded_waits,
            dirty: freeable || !state.overlay.is_empty(),
            ready: ready.count(),
            ready_target: size.ready_target(),
            spare: self.spare_segments(&state),
            victim: victim.is_some(),
            victim_cheap: victim.is_some_and(|(_, filled)| filled <= CHEAP_FILL),
        }
    }
}
