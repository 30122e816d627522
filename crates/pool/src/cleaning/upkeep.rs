//! Upkeep: the task that checkpoints and cleans when it is time, and refuses writes when it must.

use crate::checkpoint::Resume;
use crate::error::PoolError;
use crate::ids::{SegmentNumber, StripeId};
use crate::join::join_all;
use crate::location::BLOCK_BYTES;
use crate::segments::cleaned::Window;
use crate::segments::space::{Action, Aged, Situation, plan};
use crate::segments::zones::Zone;
use crate::segments::{Kind, SegmentState};
use crate::shard::coordinator::Coordinator;
use crate::shard::limbo::Freed;
use crate::shard::messages::Order;
use crate::shard::state::State;
use crate::stripes::class::{Class, Rules};
use block::{BlockDevice, IoError};
use std::rc::Rc;
use std::time::Duration;

/// A victim with no more than this share of live blocks is worth cleaning ahead of need.
const CHEAP_FILL: f64 = 0.9;
/// Steps of upkeep in which a writer gets the segment that it waits for, as a rule, beside the
/// windows in which as much is cleaned as is worth a checkpoint.
const PATIENCE: usize = 8;
/// Segments are freed without a checkpoint while the tables leave so much of their place.
const TABLES_SPARE_BYTES: usize = 4 * BLOCK_BYTES;
/// Zones that drives are asked to forget at once.
const DISCARDS_AT_ONCE: usize = 256;
/// Writes wait for so long for space that is on drives which are not ready.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// What failed without taking the pool offline is tried again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Runs until the pool stops.
    pub async fn keep_up(self: Rc<Self>) {
        let mut futile = 0;
        let mut acknowledged = 0;
        let mut asked_again = false;
        loop {
            if self.ends() {
                self.unbalanced.notify_one();
                self.unneeded.notify_one();
                return;
            }
            match self.keep_members().await {
                Ok(false) => {}
                Ok(true) => continue,
                // Mostly that has taken the pool offline.
                Err(_) if self.ends() => continue,
                Err(_) => {
                    reactor::sleep(AGAIN_AFTER).await;
                    continue;
                }
            }
            self.deal_room_anew().await;
            if self.waits_for_zones().await {
                continue;
            }
            self.free_replaced();
            self.discard_freed().await;
            if self.use_what_is_apart().await.is_err() && self.ends() {
                continue;
            }
            self.judge_room();
            self.watch_rebuild();
            let situation = self.situation();
            if situation.aged == Aged::Open {
                self.at_freeze.borrow_mut().seal = true;
            }
            self.be_frugal(situation.frugal());
            let written = self.host_blocks_written();
            let waits = situation.starved && written == acknowledged;
            acknowledged = written;
            if !situation.starved {
                self.retries.away_since.set(None);
            }
            futile = if waits { futile + 1 } else { 0 };
            let patience = PATIENCE + self.windows(situation.worth_freeing);
            let urgent = futile > patience;
            self.shard.state.borrow_mut().victims.set_urgent(urgent);
            let segments = self.shard.state.borrow().segments.table().len();
            let planned = plan(situation);
            // Every segment has been cleaned twice over and the writer still waits, be it not for
            // what there is by now, or will be when it has been read.
            let in_vain = futile > patience + 2 * segments * (1 + self.windows(1))
                && situation.read == 0
                && planned != Action::Announce;
            let action = if in_vain { Action::Refuse } else { planned };
            let asks = action == Action::Refuse && !in_vain && !asked_again;
            let is_away = action == Action::Refuse && self.space_is_away();
            asked_again = asks || asked_again && (action == Action::Rest || is_away);
            match action {
                // Who waits may not have looked since there is what they wait for.
                Action::Refuse if asks => self.have_writers_look(),
                // Writers that have looked are not asked again: they would say so at once.
                Action::Refuse if is_away => {
                    futile = 0;
                    self.wait_for_drives().await;
                }
                action => self.carry_out(action, situation).await,
            }
        }
    }

    /// Rests while zones are held back, as after a crash: without them nothing can be decided, and
    /// who waits for space gets it soon, or at once of what was set apart. True if it has.
    async fn waits_for_zones(&self) -> bool {
        if !self.shard.state.borrow().segments.zones().are_held() {
            return false;
        }
        if self.a_writer_waits() && self.free_segments(&self.shard.state.borrow()).spare > 0 {
            // As below.
            let _ = self.announce().await;
        }
        let left = self.late_until - reactor::now();
        // Something else may be told meanwhile.
        let _ = reactor::timeout(left, self.shard.upkeep.notified()).await;
        if self.let_zones_go() {
            // Writers wait for a segment, and a merge that is due may take long. A failure has
            // taken the pool offline.
            let _ = self.announce().await;
        }
        true
    }

    async fn carry_out(self: &Rc<Self>, action: Action, situation: Situation) {
        let best = || self.shard.victim().map(|(number, _)| number);
        let lacking = || self.degraded_victim();
        let oldest = || match self.aged() {
            Aged::Victim(number) => Some(number),
            Aged::No | Aged::Open => None,
        };
        match action {
            Action::Rest => self.rest_until_told(situation.uneven).await,
            Action::Checkpoint => {
                // A failure has taken the pool offline, which ends the loop.
                let _ = self.checkpoint_with(Resume::AtFreeze, |_| Ok(())).await;
            }
            Action::Announce => {
                // As above.
                let _ = self.announce().await;
            }
            Action::Clean => self.move_out_of(situation.wanted(), best).await,
            Action::Rebuild => self.move_out_of(usize::MAX, lacking).await,
            Action::Renew => self.move_out_of(1, oldest).await,
            Action::Refuse => {
                self.refused();
                self.refuse_writes(IoError::CapacityExceeded);
            }
        }
    }

    /// Segments could not be emptied as drives were not ready: that there is no space is not known.
    fn space_is_away(&self) -> bool {
        self.shard.state.borrow().attempts.has_away()
    }

    /// Has writes wait for drives that are not ready, for so long as hosts can wait.
    async fn wait_for_drives(&self) {
        let now = reactor::now();
        let since = self.retries.away_since.get().unwrap_or(now);
        self.retries.away_since.set(Some(since));
        if now - since >= AWAY_MAX {
            self.refuse_writes(IoError::NotReady);
        }
        // The next look has it tried again.
        self.shard.upkeep.notified().await;
    }

    /// Moves a window's blocks out of victims, and does what that makes due.
    async fn move_out_of(
        self: &Rc<Self>,
        wanted: usize,
        choose: impl Fn() -> Option<SegmentNumber>,
    ) {
        let _alone = self.upkeep_lock.lock().await;
        let window = self.clean_window(wanted, choose).await;
        self.after_window(window).await;
    }

    /// Has the membership know of drives that failed, and lets members go that nothing is on. True
    /// if one went.
    async fn keep_members(&self) -> Result<bool, PoolError> {
        if !self.shard.array.newly_failed.borrow().is_empty() {
            self.shard.settle_membership().await?;
        }
        match self.retirable() {
            Some(_) => self.retire().await,
            None => Ok(false),
        }
    }

    /// Returns when there may be something to do; `uneven` zones are seen to meanwhile.
    async fn rest_until_told(&self, uneven: bool) {
        if uneven {
            self.unbalanced.notify_one();
        }
        self.shard.upkeep.notified().await;
    }

    /// Windows in which so many segments are emptied.
    fn windows(&self, segments: usize) -> usize {
        let blocks = segments as u64 * self.shard.size().segment_blocks;
        blocks.div_ceil(u64::from(self.shard.window_blocks())) as usize
    }

    /// Frees segments without a checkpoint: those of whose blocks the logs have replaced every one
    /// that the maps still have there. Recovery is certain to count the stripes that did so, since
    /// one behind them that is durable too says that they were; so nothing can come to look into
    /// these segments any more, whatever the tables say of them.
    fn free_replaced(self: &Rc<Self>) {
        let tables = self.published.borrow().tables.encoded.bytes().len();
        // Until the next merge the tables name them beside those that are made of their zones.
        if tables + TABLES_SPARE_BYTES > self.table_bytes_planned() {
            return;
        }
        let mut state = self.shard.state.borrow_mut();
        let state = &mut *state;
        let own = state.log.covered();
        let covers = |through: &StripeId| match self.peer(through.shard) {
            Some(peer) => peer.standing.get().covered >= through.sequence,
            None => own >= through.sequence,
        };
        let certain = state.emptied.take_certain(covers);
        if certain.is_empty() {
            return;
        }
        // Readers of this era may have looked the map up before its blocks were replaced.
        state.eras.free(certain.into_iter().map(Freed::Segment));
        self.hold_for_others(state);
        state.eras.begin_next();
        state.release_limbo();
    }

    /// Lets the drives forget what lay in zones that were freed. Only then are they free: a drive
    /// may take its time, and must not forget what is written there next.
    async fn discard_freed(&self) {
        if self
            .shard
            .state
            .borrow()
            .segments
            .zones()
            .discarding()
            .is_empty()
        {
            return;
        }
        // Who closes the pool takes the lock after saying so.
        let _alone = self.upkeep_lock.lock().await;
        loop {
            let zones = self.zones_to_discard();
            if zones.is_empty() || self.ends() || self.verify().await.is_err() {
                return;
            }
            self.discard(zones).await;
        }
    }

    /// Some of the zones whose drives may forget what is in them: all of a large volume's at once
    /// would keep others waiting.
    fn zones_to_discard(&self) -> Vec<Zone> {
        let state = self.shard.state.borrow();
        let all = state.segments.zones().discarding();
        all.iter().take(DISCARDS_AT_ONCE).copied().collect()
    }

    async fn discard(&self, zones: Vec<Zone>) {
        let discards = zones.iter().map(|zone| async move {
            if let Some(drive) = self.shard.array.drive(usize::from(zone.drive)) {
                drive.discard(zone.index).await;
            }
        });
        join_all(discards).await;
        let mut state = self.shard.state.borrow_mut();
        for zone in zones {
            state.segments.zones_mut().discarded(zone);
        }
    }

    /// Nobody waits for a segment unless it says so again.
    fn have_writers_look(&self) {
        self.shard.state.borrow_mut().queue.note_room(true);
        self.shard.work.notify_one();
        self.heard_refused();
        self.have_others_look();
    }

    /// Fails the writes that wait for a segment.
    fn refuse_writes(&self, error: IoError) {
        self.shard.fail_queue(error);
        self.shard.work.notify_one();
        self.tell_all(|| Order::Refuse(error));
        self.heard_refused();
    }

    async fn after_window(self: &Rc<Self>, window: Window) {
        if window == Window::NoRoom {
            // A failure has taken the pool offline.
            let _ = self.checkpoint_locked(Resume::AtFreeze, |_| Ok(())).await;
        }
    }

    /// A shard has found no segment for what it is to write.
    pub fn a_writer_waits(&self) -> bool {
        let state = self.shard.state.borrow();
        let mut others = self.peers().iter().map(|peer| peer.standing.get());
        state.queue.starves() || others.any(|other| other.starved)
    }

    /// Whether there is room in segments that what is moved goes to.
    fn is_open_for_moves(&self, state: &State, rules: &Rules) -> bool {
        [Class::Moved, Class::MovedAgain].iter().any(|class| {
            let open = state.open.get(*class);
            let open = open.and_then(|number| state.segments.get(number));
            open.is_some_and(|open| {
                open.rows + 2 <= self.shard.zone_rows && rules.accepts(&open.columns)
            })
        })
    }

    pub fn situation(&self) -> Situation {
        let degraded = self.degraded_victim().is_some();
        let state = self.shard.state.borrow();
        let degraded_waits = !degraded && self.lingering(&state);
        let size = self.shard.size();
        let rules = self.shard.rules();
        let ready = state
            .made_ready(Kind::Wide)
            .filter(|(_, segment)| rules.accepts(&segment.columns));
        let (mut count, mut unannounced) = (0, 0);
        for (number, _) in ready {
            count += 1;
            unannounced += usize::from(!state.ready.is_announced(number));
        }
        let (ready, free) = (count, self.free_segments(&state));
        let mut others = self.peers().iter().map(|peer| peer.standing.get());
        let others_full = others.any(|other| other.overlay_full);
        let freeable = state.segments.table().iter().filter(|(number, segment)| {
            let sealed = segment.state == SegmentState::Sealed && segment.live() == 0;
            // Those that lie ready and lack a drive are written by nobody any more.
            let dead = segment.state == SegmentState::Ready && !rules.accepts(&segment.columns);
            let free = sealed || dead && !state.ready.is_lent(**number);
            free && !state.quarantined.contains(number) && !state.in_limbo(**number)
        });
        // Until the next merge the emptied ones still count as what they held.
        let freeable = freeable.count() + state.emptied.awaiting_merge();
        let replaced = state.emptied.awaiting_logs();
        let begun = state.victims.half_way().is_some()
            || state.emptied.awaiting_merge() > 0
            || replaced > 0;
        let mut situation = Situation {
            starved: self.a_writer_waits(),
            overlay_full: others_full
                || self.merge_due.get()
                || self.shard.overlay_full()
                || self.space_may_pass_a_mark() && !state.updates.latest().is_empty(),
            freeable,
            read: state.eras.limbo().len(),
            replaced,
            worth_freeing: size.worth_freeing(self.shard.settings.checkpoint_updates as u64),
            begun,
            degraded,
            degraded_waits,
            dirty: freeable > 0
                || !state.updates.latest().is_empty()
                || self.others_dirty.get()
                || state.tables.unneeded(),
            ready,
            ready_target: size.ready_target(),
            unannounced,
            kept: rules.kept,
            spare: free.spare,
            last_resort: ready == 0 && free.last_resort > 0,
            moved_room: self.is_open_for_moves(&state, &rules) || self.has_begun_cleaning(),
            victim: false,
            victim_cheap: false,
            uneven: false,
            aged: self.aged(),
        };
        drop(state);
        // Looking for one takes time, and none is wanted where there is room.
        if situation.starved || situation.low() {
            let victim = self.shard.victim();
            situation.victim = victim.is_some();
            situation.victim_cheap = victim.is_some_and(|(_, filled)| filled <= CHEAP_FILL);
        }
        situation.uneven = situation.starved && self.is_uneven();
        situation
    }
}
