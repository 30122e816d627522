//! Fencing: a holder looks whether somebody has taken the pool by force, and stops for good.
//!
//! What this keeps apart, and what it cannot, is in [`docs/decisions/fencing.md`].
//!
//! [`docs/decisions/fencing.md`]: ../../../docs/decisions/fencing.md

use crate::drives::drive::Drive;
use crate::drives::lease::{CHECK_EVERY, LEASE};
use crate::error::PoolError;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE, Superblock};
use crate::ids::EpochNumber;
use crate::join::first_good;
use crate::labels::quorum::lost_max;
use crate::labels::slots;
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use block::{BlockDevice, IoError};
use reactor::Instant;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// The holder of a pool that any host may open.
pub(crate) const NOBODY: [u8; 16] = [0; 16];

/// Drives that need not be asked are asked when the others take so long, or fail.
const SECOND_CHOICE: Duration = Duration::from_millis(500);

/// A member, and its place.
type Placed<D> = (usize, Rc<Drive<D>>);

/// What a look at the drives has shown.
struct Look<D> {
    asked: usize,
    /// Drives that told.
    told: usize,
    /// So many have to, to be sure of meeting one that another host has claimed.
    needed: usize,
    /// Drives that would not tell.
    silent: Vec<(Placed<D>, IoError)>,
    taken: bool,
    /// The epoch of a superblock that a former holder has left after it was deposed.
    intruder: Option<EpochNumber>,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Returns once it is certain that nobody had taken the pool when this was called; fails when
    /// that is no longer so, and once the pool is closed.
    pub async fn verify(&self) -> Result<(), PoolError> {
        loop {
            // Nothing that is seen from now on makes the pool this host's again.
            if self.shard.array.lease.has_ended() {
                return Err(PoolError::Offline(
                    self.shard.offline.get().unwrap_or(OfflineReason::Closed),
                ));
            }
            let begun = reactor::now();
            let look = self.look_around().await;
            if let Some(number) = look.intruder {
                self.intruder.set(Some(number));
            }
            if look.taken && !Mutation::GoesOnUnfenced.is_planted() {
                self.shard.array.lease.end();
                self.shard.go_offline(OfflineReason::TakenOver);
                return Err(PoolError::Offline(OfflineReason::TakenOver));
            }
            if look.asked == 0 {
                self.shard.array.lease.end();
                self.shard.go_offline(OfflineReason::TooManyDrivesFailed);
                return Err(PoolError::Offline(OfflineReason::TooManyDrivesFailed));
            }
            if look.told >= look.needed {
                self.extend_lease(begun + LEASE);
                // What was seen before this host stood still says nothing.
                if self.shard.array.lease.runs() {
                    return Ok(());
                }
                continue;
            }
            for ((index, drive), error) in look.silent {
                // While the lease runs it may be asked again.
                if error == IoError::DeviceGone || !self.shard.array.lease.runs() {
                    self.shard.array.fail(index, &drive);
                    self.shard.upkeep.notify_one();
                }
            }
            if self.shard.array.lease.runs() {
                return Ok(());
            }
        }
    }

    fn extend_lease(&self, until: Instant) {
        self.shard.array.lease.extend(until);
        self.tell_lease();
    }

    pub fn tell_lease(&self) {
        self.tell_all(|| Order::Lease(self.shard.array.lease.until()));
    }

    async fn look_around(&self) -> Look<D> {
        let mut live = self.shard.array.live();
        // Those that answer first: mostly no others are asked.
        live.sort_by_key(|(_, drive)| drive.owed.silent_for() >= SECOND_CHOICE);
        let needed = {
            let published = self.published.borrow();
            let members = published.superblock.members.iter();
            let failed = members.filter(|it| ![MEMBER_NONE, MEMBER_ACTIVE].contains(&it.state));
            let lost_max = lost_max(&published.superblock);
            (1 + lost_max.saturating_sub(failed.count())).min(live.len().max(1))
        };
        let pool = self.published.borrow().superblock.pool_id;
        let is_ours = |head: &Superblock| head.pool_id == pool;
        let asks = live.iter().map(|member| async move {
            match slots::heads(member.1.device(), member.1.layout).await {
                // One that was wiped by who has the pool now tells nothing.
                Ok(heads) if !heads.iter().flatten().any(is_ours) => {
                    Err((member.clone(), IoError::NotReady))
                }
                heads => heads.map_err(|error| (member.clone(), error)),
            }
        });
        let (heads, silent) = first_good(asks, needed, SECOND_CHOICE).await;
        let mut look = Look {
            asked: live.len(),
            told: heads.len(),
            needed,
            silent,
            taken: false,
            intruder: None,
        };
        for theirs in heads.iter().flatten().flatten() {
            self.judge(theirs, &mut look);
        }
        look
    }

    /// A superblock that somebody else wrote since this pool was opened is a claim to it, or what
    /// came late from a host that had lost it by then, or that had wanted to open it as well.
    fn judge(&self, theirs: &Superblock, look: &mut Look<D>) {
        let published = self.published.borrow();
        let ours = &published.superblock;
        if theirs.pool_id != ours.pool_id || theirs.claim == ours.claim {
            return;
        }
        let number = theirs.sequence.get();
        let of_former = Some(theirs.claim.get()) == self.former_claim;
        let since = number > self.opened_at || theirs.rank() > ours.rank();
        if since && !of_former && theirs.incarnation >= ours.incarnation {
            look.taken = true;
            return;
        }
        let all_ours = self.has_both_slots(ours);
        if since && !of_former || all_ours || number > self.found_at {
            look.intruder = look.intruder.max(Some(theirs.epoch.number()));
        }
    }

    /// Writes to both slots of every drive, as far as that has not been done. What comes late of a
    /// host that stood still while it opened the pool replaces one superblock of a drive: by the
    /// other one it finds that the pool is somebody else's.
    pub async fn fill_both_slots(&self) -> Result<(), PoolError> {
        while !self.has_both_slots(&self.published.borrow().superblock) {
            self.publish(Some(|_: &mut Superblock| ()), None).await?;
        }
        Ok(())
    }

    /// Whether this host has written to both slots of every drive since it opened the pool.
    fn has_both_slots(&self, newest: &Superblock) -> bool {
        newest.sequence.get() >= self.opened_at + 2
    }

    /// Starts to look; what the lease is extended by from now on comes from there.
    pub fn hold_pool(self: &Rc<Self>) {
        drop(reactor::spawn(keep_lease(Rc::downgrade(self))));
    }

    /// Zones to which stripes of the last holder might have come are like any others after a time.
    fn end_quarantine(&self) {
        let over = self.quarantine_until.get() <= reactor::now();
        let mut state = self.shard.state.borrow_mut();
        if over && !state.quarantined.is_empty() {
            state.quarantined.clear();
            self.shard.upkeep.notify_one();
        }
    }
}

/// Looks at the drives regularly while the pool is open.
pub(crate) async fn keep_lease<D: BlockDevice + 'static>(coordinator: Weak<Coordinator<D>>) {
    loop {
        reactor::sleep(CHECK_EVERY).await;
        let Some(coordinator) = coordinator.upgrade() else {
            return;
        };
        if coordinator.shard.array.lease.has_ended() || coordinator.verify().await.is_err() {
            return;
        }
        coordinator.end_quarantine();
        coordinator.merge_when_idle();
        coordinator.look_for_stuck();
        if coordinator.intruder.get().is_some() {
            // Ours again, everywhere; a failure has taken the pool offline.
            let _ = coordinator
                .publish(Some(|_: &mut Superblock| ()), None)
                .await;
        }
    }
}
