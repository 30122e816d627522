//! Fencing: a host that takes a pool by force says so first and waits; a holder looks whether
//! somebody has, and stops for good.
//!
//! What this keeps apart, and what it cannot, is in [`docs/decisions/fencing.md`].
//!
//! [`docs/decisions/fencing.md`]: ../../../docs/decisions/fencing.md

use crate::drives::drive::Drive;
use crate::drives::lease::{CHECK_EVERY, ENTRY, ENTRY_AGAIN, LATE, LEASE, TAKEOVER};
use crate::error::label::DamagedLabel;
use crate::error::{AbsentMember, PoolError};
use crate::format::plausible;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE, Superblock};
use crate::ids::hexadecimal;
use crate::join::{first_good, join_all};
use crate::labels::quorum::{self, Choice, lost_max};
use crate::labels::slots::{self, ANSWERS_WITHIN, Given, Slot, bring_up};
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::options::{MayLack, OpenOptions};
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use block::{BlockDevice, IoError};
use reactor::Instant;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// The holder of a pool that any host may open.
pub(crate) const NOBODY: [u8; 16] = [0; 16];

/// How often a pool is claimed whose holder goes on publishing, or that others claim as well.
const CLAIMS_MAX: usize = 8;
/// Drives that need not be asked are asked when the others take so long.
const SECOND_CHOICE: Duration = Duration::from_millis(500);

/// What is found on the drives of a pool before it is opened.
pub(crate) struct Survey {
    pub slots: Vec<Option<Box<Slot>>>,
    pub damaged: Vec<DamagedLabel>,
    pub choice: Choice,
    pub newest: Slot,
    /// Members that should be there and are not.
    absent: Vec<AbsentMember>,
    /// No superblock that was found has a larger number.
    pub last_sequence: u64,
    /// Positions of drives that have answered nothing for long.
    silent: BTreeSet<usize>,
}

impl Survey {
    pub async fn of<D: BlockDevice>(
        drives: &[D],
        options: &OpenOptions,
        silent: &BTreeSet<usize>,
    ) -> Result<Survey, PoolError> {
        let enough = |slots: &[Option<&Slot>], damaged: &[(usize, DamagedLabel)]| {
            quorum::choose_safely(slots, damaged, options.accept_loss).is_ok()
        };
        let given = Given::of(drives, silent, enough).await?;
        let slots: Vec<Option<&Slot>> = given.slots.iter().map(Option::as_deref).collect();
        let choice = quorum::choose_safely(&slots, &given.damaged, options.accept_loss)?;
        let newest = given.slots[choice.newest].as_deref().cloned();
        let newest = newest.ok_or(PoolError::NoPool)?;
        for (slot, index) in slots.iter().zip(&choice.current) {
            if let Some((slot, index)) = slot.zip(*index) {
                plausible::member(&newest.superblock, index, &slot.superblock)?;
            }
        }
        let absent = quorum::absent(&newest.superblock, &choice.current, &given);
        let sequences = slots.iter().flatten().map(|slot| slot.last_sequence);
        let last_sequence = sequences.max().unwrap_or(0);
        let Given {
            slots,
            damaged,
            silent,
        } = given;
        Ok(Survey {
            absent,
            damaged: damaged.into_iter().map(|(_, label)| label).collect(),
            last_sequence,
            slots,
            choice,
            newest,
            silent,
        })
    }

    /// Looks at the drives until a look was quick, for what was seen long ago may be somebody
    /// else's by now: drives that are waited for in vain are left out of the next one. Returns when
    /// it was begun as well.
    async fn timely<D: BlockDevice>(
        drives: &[D],
        options: &OpenOptions,
        mut silent: BTreeSet<usize>,
    ) -> Result<(Instant, Survey), PoolError> {
        loop {
            let looked = reactor::now();
            let survey = Survey::of(drives, options, &silent).await?;
            if survey.silent == silent {
                return Ok((looked, survey));
            }
            silent = survey.silent;
        }
    }

    /// Refuses a pool that lacks members that it may not go on without. Those that have failed it
    /// goes on without already.
    fn check_absent(&self, may_lack: &MayLack) -> Result<(), PoolError> {
        let MayLack::Only(allowed) = may_lack else {
            return Ok(());
        };
        let absent = self.absent.iter();
        let absent = absent.filter(|member| !allowed.contains(&member.id));
        let absent: Vec<AbsentMember> = absent.copied().collect();
        match absent.is_empty() {
            true => Ok(()),
            false => Err(PoolError::MembersAbsent {
                members: quorum::members(&self.newest.superblock),
                absent,
            }),
        }
    }

    /// What was later than what is gone on from, by labels that have decayed.
    fn lost(&self) -> Option<u64> {
        let slots = self.slots.iter().flatten();
        let later = slots.filter_map(|slot| slot.later_beside).max();
        later.filter(|later| *later > self.newest.superblock.content())
    }

    /// Members with one label where there should be two. A pool that is being made has no second
    /// one yet, and who died while writing one leaves it torn.
    fn halved(&self) -> Vec<(usize, [u8; 16])> {
        let current = self.slots.iter().zip(&self.choice.current);
        let current = current.filter_map(|(slot, index)| slot.as_deref().zip(*index));
        let halved = current.filter(|(slot, _)| {
            let alone = slot.alone && !slot.torn_beside && slot.superblock.sequence.get() > 0;
            alone || slot.by_copy
        });
        let placed = halved.map(|(slot, index)| (index, slot.superblock.drive_id));
        placed.collect()
    }
}

fn held(newest: &Slot) -> PoolError {
    PoolError::Held {
        holder: hexadecimal(&newest.superblock.holder),
    }
}

/// What was seen so long ago may be somebody else's by now.
pub(crate) fn check_fresh(newest: &Slot, looked: Instant) -> Result<(), PoolError> {
    match reactor::now() < looked + LEASE {
        true => Ok(()),
        false => Err(held(newest)),
    }
}

/// How a host found the pool that it opens.
pub(crate) struct Entered {
    pub survey: Survey,
    /// No superblock had a larger number before this host wrote one.
    pub found_at: u64,
    /// What the last opening wrote that had a claim, unless it was another host's that was not
    /// asked.
    pub former_claim: Option<u64>,
    /// Another host has held it.
    pub forced: bool,
    /// Until then requests of a former holder may still reach the drives.
    pub late_until: Instant,
    /// When the drives were looked at.
    pub looked: Instant,
    /// A later superblock that a label told of which has decayed: that loss is accepted.
    pub lost: Option<u64>,
    /// Members, and their identifiers, of which one of the two labels was not there or not whole:
    /// by now it is.
    pub halved: Vec<(usize, [u8; 16])>,
}

/// Looks at the drives, and takes the pool where nobody else has it, or from another host if that
/// is asked for: by writing so, and looking again after a while whether that stands.
pub(crate) async fn enter<D: BlockDevice>(
    drives: &[D],
    options: &OpenOptions,
    claim: u64,
) -> Result<Entered, PoolError> {
    let mut entry = enter_once(drives, options, claim).await?;
    if let Entry::Late(_) = entry {
        entry = enter_once(drives, options, claim).await?;
    }
    match entry {
        Entry::Mine(entered) => Ok(*entered),
        Entry::Late(other) => Err(held(&other)),
    }
}

/// Does so by one look at who had the pool before.
async fn enter_once<D: BlockDevice>(
    drives: &[D],
    options: &OpenOptions,
    claim: u64,
) -> Result<Entry, PoolError> {
    let (looked, survey) = Survey::timely(drives, options, BTreeSet::new()).await?;
    let former = survey.newest.superblock.clone();
    let own = former.holder == options.host.0;
    if former.holder != NOBODY && !own && !options.force {
        return Err(held(&survey.newest));
    }
    let taken_from = taken_from(&former, own);
    let forced = taken_from != NOBODY;
    survey.check_absent(&options.may_lack)?;
    // Nothing is written to drives whose tables cannot be used.
    survey.newest.tables().await?;
    let wait = claim_stands_for(forced, own, looked);
    let mut found = Entered {
        found_at: survey.last_sequence,
        former_claim: (!forced).then_some(former.claim.get()),
        forced,
        late_until: late_until(&former, looked),
        looked,
        lost: survey.lost(),
        halved: survey.halved(),
        survey,
    };
    let mut yielded = false;
    for _ in 0..CLAIMS_MAX {
        if forced || options.accept_loss {
            // Who had the pool, or drives that tell nothing, may know better.
            found.survey.newest.superblock.set_apart(&[]);
        }
        let number = found.survey.last_sequence + 1;
        // As long again is left for what is written to reach the drives.
        let until = found.looked + wait / 2;
        let mut silent = found.survey.silent.clone();
        let claim_of = ClaimOf {
            host: options.host.0,
            taken_from,
            claim,
        };
        let claimed = write_claim(drives, &found.survey, until, claim_of, &mut silent).await?;
        if claimed {
            reactor::sleep(wait).await;
        }
        (found.looked, found.survey) = Survey::timely(drives, options, silent).await?;
        match found.survey.standing(claim, number, &former) {
            Standing::Alone if claimed => return Ok(Entry::Mine(Box::new(found))),
            Standing::Lost(other) if yielded || other.superblock.holder != options.host.0 => {
                return Err(held(&other));
            }
            Standing::Lost(other) => {
                yielded = true;
                let had_opened = other.superblock.incarnation != former.incarnation;
                let after = if had_opened { LEASE } else { wait.max(ENTRY) };
                let look = found.survey.unless_gone_on(drives, options, &other, after);
                (found.looked, found.survey) = look.await?;
                if had_opened {
                    return Ok(Entry::Late(other));
                }
            }
            Standing::Alone | Standing::Contested => {}
        }
    }
    Err(PoolError::StillInUse {
        holder: hexadecimal(&found.survey.newest.superblock.holder),
    })
}

/// Until when requests of a former holder may still reach the drives.
fn late_until(former: &Superblock, looked: Instant) -> Instant {
    match former.is_closed() || Mutation::UsesZonesAfterCrash.is_planted() {
        true => looked,
        false => looked + LATE,
    }
}

/// The host from which a pool is taken by force. Of one that died, or gave up, before it had what
/// it took only the claim is there, in its own name.
fn taken_from(former: &Superblock, own: bool) -> [u8; 16] {
    match own {
        true => former.taken_from,
        false => former.holder,
    }
}

/// How long a claim has to stand before the pool is this host's.
fn claim_stands_for(forced: bool, own: bool, looked: Instant) -> Duration {
    // Where drives are slow others take as long to see a claim, or to write theirs.
    let least = (reactor::now() - looked) * 4;
    match (forced, own) {
        (true, _) => TAKEOVER,
        (false, true) => ENTRY_AGAIN.max(least).min(TAKEOVER),
        (false, false) => ENTRY.max(least).min(TAKEOVER),
    }
}

/// What comes of an attempt to take a pool.
enum Entry {
    Mine(Box<Entered>),
    /// A process of this very host had opened the pool. Its last label came after a look at the
    /// drives, so all is to be looked at anew.
    Late(Box<Slot>),
}

/// What has become of a claim.
enum Standing {
    /// Nobody else has written anything since.
    Alone,
    /// Another host has the pool, or goes before in opening it.
    Lost(Box<Slot>),
    /// Others have written too, and give way.
    Contested,
}

impl Survey {
    /// Looks again after a while, unless the process that has written `other` has written anything
    /// since. One of this host may have died before. One that lives says more when it has the pool,
    /// and once more when it sees a claim of somebody else. Nothing comes of one that has died.
    async fn unless_gone_on<D: BlockDevice>(
        &self,
        drives: &[D],
        options: &OpenOptions,
        other: &Slot,
        after: Duration,
    ) -> Result<(Instant, Survey), PoolError> {
        reactor::sleep(after).await;
        let (looked, survey) = Survey::timely(drives, options, self.silent.clone()).await?;
        let mut slots = survey.slots.iter().flatten();
        let gone_on = slots.any(|slot| {
            slot.superblock.claim == other.superblock.claim && slot.rank() > other.rank()
        });
        match gone_on {
            true => Err(held(other)),
            false => Ok((looked, survey)),
        }
    }

    /// What has become of `claim`, which was to be the superblock of this `number`, since the
    /// newest one was `former`. Who had the pool before may have written once more: what that says
    /// is gone on from.
    fn standing(&mut self, claim: u64, number: u64, former: &Superblock) -> Standing {
        // Drives that told nothing have their place here too.
        let current = self.slots.iter().zip(&self.choice.current);
        let current = current.filter_map(|(slot, index)| slot.as_ref().filter(|_| index.is_some()));
        let others = current.filter(|slot| slot.superblock.claim.get() != claim);
        let mut standing = match self.newest.superblock.claim.get() == claim {
            true => Standing::Alone,
            false => Standing::Contested,
        };
        for slot in others {
            let theirs = &slot.superblock;
            let of_former = theirs.claim == former.claim;
            let since = theirs.sequence.get() >= number;
            // Who has opened it goes before, be it that its last superblock was there already when
            // this host, which stood still, claimed the pool. Of hosts that only say that they open
            // it the one with the largest claim goes on.
            let has_opened = theirs.incarnation > former.incarnation;
            if !of_former && (has_opened || since && theirs.claim.get() > claim) {
                return Standing::Lost(slot.clone());
            }
            if !since {
                continue;
            }
            if of_former && slot.rank() >= self.newest.rank() {
                self.newest = (**slot).clone();
            }
            standing = Standing::Contested;
        }
        standing
    }
}

/// Who claims a pool, and from whom by force.
#[derive(Clone, Copy)]
struct ClaimOf {
    host: [u8; 16],
    taken_from: [u8; 16],
    claim: u64,
}

/// Writes the newest superblock once more, with another holder, to every current drive. False when
/// that took so long that what was seen before may be somebody else's: some may have it.
async fn write_claim<D: BlockDevice>(
    drives: &[D],
    survey: &Survey,
    until: Instant,
    claim_of: ClaimOf,
    silent: &mut BTreeSet<usize>,
) -> Result<bool, PoolError> {
    let mut claimed = survey.newest.clone();
    let superblock = &mut claimed.superblock;
    let apart = superblock.apart();
    superblock.sequence = (survey.last_sequence + 1).into();
    superblock.set_apart(&apart);
    superblock.holder = claim_of.host;
    superblock.taken_from = claim_of.taken_from;
    superblock.claim = claim_of.claim.into();
    let listed = quorum::members(&claimed.superblock);
    let given = drives.iter().zip(&survey.slots).zip(&survey.choice.current);
    let writes = given
        .enumerate()
        .map(|(position, ((device, slot), index))| {
            let claimed = &claimed;
            async move {
                let (slot, index) = (slot.as_ref()?, (*index)?);
                if reactor::now() >= until {
                    return Some(Ok(false));
                }
                let write = bring_up(device, index, slot, claimed);
                match reactor::timeout(ANSWERS_WITHIN, write).await {
                    Ok(written) => written.is_ok().then_some(Ok(true)),
                    Err(_) => Some(Err(position)),
                }
            }
        });
    let mut written = Vec::new();
    for end in join_all(writes).await.into_iter().flatten() {
        match end {
            Ok(in_time) => written.push(in_time),
            Err(position) => {
                silent.insert(position);
            }
        }
    }
    if written.contains(&false) {
        return Ok(false);
    }
    match written.len() + lost_max(&claimed.superblock) >= listed {
        true => Ok(true),
        false => Err(PoolError::Offline(OfflineReason::TooManyDrivesFailed)),
    }
}

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
    intruder: Option<u64>,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Returns once it is certain that nobody had taken the pool when this was called; fails when
    /// that is no longer so, and once the pool is closed.
    pub async fn verify(&self) -> Result<(), PoolError> {
        loop {
            // Nothing that is seen from now on makes the pool this host's again.
            if self.array.lease.has_ended() {
                return Err(PoolError::Offline(
                    self.offline.get().unwrap_or(OfflineReason::Closed),
                ));
            }
            let begun = reactor::now();
            let look = self.look_around().await;
            if let Some(number) = look.intruder {
                self.intruder.set(Some(number));
            }
            if look.taken && !Mutation::GoesOnUnfenced.is_planted() {
                self.array.lease.end();
                self.go_offline(OfflineReason::TakenOver);
                return Err(PoolError::Offline(OfflineReason::TakenOver));
            }
            if look.asked == 0 {
                self.array.lease.end();
                self.go_offline(OfflineReason::TooManyDrivesFailed);
                return Err(PoolError::Offline(OfflineReason::TooManyDrivesFailed));
            }
            if look.told >= look.needed {
                self.extend_lease(begun + LEASE);
                // What was seen before this host stood still says nothing.
                if self.array.lease.runs() {
                    return Ok(());
                }
                continue;
            }
            for ((index, drive), error) in look.silent {
                // While the lease runs it may be asked again.
                if error == IoError::DeviceGone || !self.array.lease.runs() {
                    self.array.fail(index, &drive);
                    self.upkeep.notify_one();
                }
            }
            if self.array.lease.runs() {
                return Ok(());
            }
        }
    }

    fn extend_lease(&self, until: Instant) {
        self.array.lease.extend(until);
        self.tell_lease();
    }

    pub fn tell_lease(&self) {
        self.tell_all(|| Order::Lease(self.array.lease.until()));
    }

    async fn look_around(&self) -> Look<D> {
        let mut live = self.array.live();
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
        let asks = live.iter().enumerate().map(|(place, member)| async move {
            if place >= needed {
                reactor::sleep(SECOND_CHOICE).await;
            }
            match slots::heads(member.1.device(), member.1.layout).await {
                // One that was wiped by who has the pool now tells nothing.
                Ok(heads) if !heads.iter().flatten().any(is_ours) => {
                    Err((member.clone(), IoError::NotReady))
                }
                heads => heads.map_err(|error| (member.clone(), error)),
            }
        });
        let (heads, silent) = first_good(asks, needed).await;
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
            look.intruder = look.intruder.max(Some(theirs.epoch.number.get()));
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
        if coordinator.array.lease.has_ended() || coordinator.verify().await.is_err() {
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

impl<D: BlockDevice + 'static> Coordinator<D> {
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
        let mut state = self.state.borrow_mut();
        if over && !state.quarantined.is_empty() {
            state.quarantined.clear();
            self.upkeep.notify_one();
        }
    }
}
