//! Entry: how a host takes a pool that it opens. It writes that it does, waits, and looks whether
//! that stands; where another host has the pool that takes force.
//!
//! What this keeps apart, and what it cannot, is in [`docs/decisions/fencing.md`].
//!
//! [`docs/decisions/fencing.md`]: ../../../docs/decisions/fencing.md

use crate::drives::lease::{ENTRY, ENTRY_AGAIN, LATE, LEASE, TAKEOVER};
use crate::error::PoolError;
use crate::format::superblock::Superblock;
use crate::ids::hexadecimal;
use crate::join::join_all;
use crate::labels::quorum::{self, lost_max};
use crate::labels::slots::{ANSWERS_WITHIN, Slot, bring_up};
use crate::membership::fence::NOBODY;
use crate::membership::survey::{Standing, Survey, held};
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::options::OpenOptions;
use block::BlockDevice;
use reactor::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often a pool is claimed whose holder goes on publishing, or that others claim as well.
const CLAIMS_MAX: usize = 8;

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
    let look = Survey::timely(drives, options, BTreeSet::new()).await?;
    let mut entry = enter_once(drives, options, claim, look).await?;
    if let Entry::Late { look, .. } = entry {
        entry = enter_once(drives, options, claim, *look).await?;
    }
    match entry {
        Entry::Mine(entered) => Ok(*entered),
        Entry::Late { other, .. } => Err(held(&other)),
    }
}

/// Does so by one look at who had the pool before.
async fn enter_once<D: BlockDevice>(
    drives: &[D],
    options: &OpenOptions,
    claim: u64,
    (looked, survey): (Instant, Survey),
) -> Result<Entry, PoolError> {
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
                let look = Box::new(look.await?);
                if had_opened {
                    return Ok(Entry::Late { other, look });
                }
                (found.looked, found.survey) = *look;
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
    /// A process of this very host had opened the pool. Its last label, `other`, came after the
    /// look at the drives, so an entry begins again with a later one.
    Late {
        other: Box<Slot>,
        look: Box<(Instant, Survey)>,
    },
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

/// What was seen so long ago may be somebody else's by now.
pub(crate) fn check_fresh(newest: &Slot, looked: Instant) -> Result<(), PoolError> {
    match reactor::now() < looked + LEASE {
        true => Ok(()),
        false => Err(held(newest)),
    }
}
