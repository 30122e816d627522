//! [`Survey`]: what the drives of a pool say, before it is opened and while it is being taken.

use crate::error::label::DamagedLabel;
use crate::error::{AbsentMember, PoolError};
use crate::format::plausible;
use crate::format::superblock::Superblock;
use crate::ids::hexadecimal;
use crate::labels::quorum::{self, Choice};
use crate::labels::slots::{Given, Slot};
use crate::options::{MayLack, OpenOptions};
use block::BlockDevice;
use reactor::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

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
    pub(super) silent: BTreeSet<usize>,
}

impl Survey {
    async fn of<D: BlockDevice>(
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
    pub(super) async fn timely<D: BlockDevice>(
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
    pub(super) fn check_absent(&self, may_lack: &MayLack) -> Result<(), PoolError> {
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
    pub(super) fn lost(&self) -> Option<u64> {
        let slots = self.slots.iter().flatten();
        let later = slots.filter_map(|slot| slot.later_beside).max();
        later.filter(|later| *later > self.newest.superblock.content())
    }

    /// Members with one label where there should be two. A pool that is being made has no second
    /// one yet, and who died while writing one leaves it torn.
    pub(super) fn halved(&self) -> Vec<(usize, [u8; 16])> {
        let current = self.slots.iter().zip(&self.choice.current);
        let current = current.filter_map(|(slot, index)| slot.as_deref().zip(*index));
        let halved = current.filter(|(slot, _)| {
            let alone = slot.alone && !slot.torn_beside && slot.superblock.sequence.get() > 0;
            alone || slot.by_copy
        });
        let placed = halved.map(|(slot, index)| (index, slot.superblock.drive_id));
        placed.collect()
    }

    /// Looks again after a while, unless the process that has written `other` has written anything
    /// since. One of this host may have died before. One that lives says more when it has the pool,
    /// and once more when it sees a claim of somebody else. Nothing comes of one that has died.
    pub(super) async fn unless_gone_on<D: BlockDevice>(
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
    pub(super) fn standing(&mut self, claim: u64, number: u64, former: &Superblock) -> Standing {
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

/// What has become of a claim.
pub(super) enum Standing {
    /// Nobody else has written anything since.
    Alone,
    /// Another host has the pool, or goes before in opening it.
    Lost(Box<Slot>),
    /// Others have written too, and give way.
    Contested,
}

/// The refusal of a pool that another host has.
pub(super) fn held(newest: &Slot) -> PoolError {
    PoolError::Held {
        holder: hexadecimal(&newest.superblock.holder),
    }
}
