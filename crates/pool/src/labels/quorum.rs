//! Which superblock counts, which drives are current, and whether they are enough. No I/O.

use crate::error::label::DamagedLabel;
use crate::error::{AbsentMember, PoolError};
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE, Superblock};
use crate::ids::{DriveId, hexadecimal};
use crate::labels::slots::{Given, Slot};
use crate::level::Level;
use crate::location::BLOCK_BYTES;
use std::collections::BTreeSet;

/// The decision: the slot to go on from, and which of the drives given may be used.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Position, among the drives given, of the one whose slot counts.
    pub newest: usize,
    /// For each drive given: its index in the member list if it is current, or as good as that.
    pub current: Vec<Option<usize>>,
}

/// Drives that a pool may be short of.
pub(crate) fn lost_max(superblock: &Superblock) -> usize {
    Level::from_code(superblock.level).map_or(0, |level| {
        level.drives_lost_max(usize::from(superblock.width))
    })
}

fn index_of(superblock: &Superblock, drive: &[u8; 16], state: u8) -> Option<usize> {
    superblock
        .members
        .iter()
        .position(|member| member.id == *drive && member.state == state)
}

/// Member index of each drive that is current by `head`.
fn current(head: &Superblock, slots: &[Option<&Slot>]) -> Vec<Option<usize>> {
    slots
        .iter()
        .map(|slot| {
            let superblock = &slot.as_ref()?.superblock;
            // A drive that got further than `head` is not behind it, whatever its membership: one
            // that was about to join knew of the next membership, and the others went on without.
            if !head.descends_from(superblock.epoch) || superblock.progress() > head.progress() {
                return None;
            }
            index_of(head, &superblock.drive_id, MEMBER_ACTIVE)
        })
        .collect()
}

/// Member index of each drive that is used with `head`: the current ones. Where those are too few,
/// drives are used as well whose label is of a membership that was never complete. A request of a
/// dead process that lands late brings such a label. Nothing was acknowledged under it, so a drive
/// that `head` lists lacks nothing.
fn usable(head: &Superblock, slots: &[Option<&Slot>]) -> Vec<Option<usize>> {
    let current = current(head, slots);
    if suffice(head, &current) {
        return current;
    }
    let strayed = |slot: &Slot| {
        let superblock = &slot.superblock;
        let further = superblock.progress() > head.progress();
        let stray = !head.descends_from(superblock.epoch) && !further;
        let listed = index_of(head, &superblock.drive_id, MEMBER_ACTIVE);
        listed.filter(|_| stray && never_complete(superblock, head, slots))
    };
    let drives = current.into_iter().zip(slots);
    drives
        .map(|(index, slot)| index.or_else(|| strayed(slot.as_ref()?)))
        .collect()
}

/// A pool can be opened with these drives.
fn suffice(head: &Superblock, drives: &[Option<usize>]) -> bool {
    let present = drives.iter().flatten().count();
    present > 0 && present + lost_max(head) >= members(head)
}

/// Drives that a superblock lists, be it as failed.
pub(crate) fn members(superblock: &Superblock) -> usize {
    superblock
        .members
        .iter()
        .filter(|member| member.state != MEMBER_NONE)
        .count()
}

fn quorate(head: &Superblock, slots: &[Option<&Slot>]) -> bool {
    suffice(head, &usable(head, slots))
}

/// Decides as [`choose`] does, where drives would not read one of their slots, or have it damaged:
/// what that one says, or said, may be the pool's latest state. Such a drive counts where that
/// cannot be, or is taken for absent: nothing is written to it then. Where the pool cannot do
/// without, it is opened only if what is lost is to be `accepted`.
pub(crate) fn choose_safely(
    slots: &[Option<&Slot>],
    damaged: &[(usize, DamagedLabel)],
    accepted: bool,
) -> Result<Choice, PoolError> {
    let choice = choose(slots, damaged)?;
    let doubtful = doubtful(&choice, slots);
    let Some(index) = doubtful.first().copied().filter(|_| !accepted) else {
        return Ok(choice);
    };
    let mut certain = slots.to_vec();
    for position in doubtful {
        certain[position] = None;
    }
    choose(&certain, damaged).map_err(|_| {
        let slot = slots.get(index).copied().flatten();
        match slot.and_then(|slot| Some((slot.superblock.content(), slot.later_beside?))) {
            Some((older, lost)) => PoolError::LatestLabelDamaged { index, older, lost },
            None => PoolError::LabelUnreadable { index },
        }
    })
}

/// Positions of drives that may hold a later state than the chosen one, where they would not read,
/// or that had one.
///
/// Slots take turns, so that state is the very next one, and no drive holds one of the same number
/// or a later one. And it counts only if every drive has it but for as many as may be lost: not
/// where more than those have been read whole, and do not have it.
fn doubtful(choice: &Choice, slots: &[Option<&Slot>]) -> Vec<usize> {
    let Some(newest) = slots[choice.newest].map(|slot| &slot.superblock) else {
        return Vec::new();
    };
    let later = |slot: &Slot| slot.later_beside.is_some_and(|it| it > newest.content());
    let unread =
        |slot: &Slot| slot.unread_beside.is_some() && slot.superblock.sequence >= newest.sequence;
    let hides = |slot: &Slot| slot.unread_beside.is_some() || slot.later_beside.is_some();
    let current = slots.iter().zip(&choice.current);
    let certain =
        current.filter(|(slot, index)| index.is_some() && slot.is_some_and(|slot| !hides(slot)));
    if certain.count() > lost_max(newest) {
        return Vec::new();
    }
    let slots = slots.iter().enumerate();
    let doubtful = slots.filter(|(_, slot)| slot.is_some_and(|slot| unread(slot) || later(slot)));
    doubtful.map(|(position, _)| position).collect()
}

/// Decides from the newest slot of each drive given; `None` where a drive has none, be it that its
/// label is `damaged`.
pub(crate) fn choose(
    slots: &[Option<&Slot>],
    damaged: &[(usize, DamagedLabel)],
) -> Result<Choice, PoolError> {
    let found: Vec<(usize, &Slot)> = slots
        .iter()
        .enumerate()
        .filter_map(|(at, slot)| Some((at, (*slot)?)))
        .collect();
    let Some((_, first)) = found.first() else {
        return Err(match damaged.first().cloned() {
            Some((index, label)) => PoolError::LabelDamaged { index, label },
            None => PoolError::NoPool,
        });
    };
    let mut seen = BTreeSet::new();
    for (_, slot) in &found {
        let superblock = &slot.superblock;
        if superblock.pool_id != first.superblock.pool_id {
            return Err(PoolError::MixedPools(
                first.superblock.name(),
                superblock.name(),
            ));
        }
        if !seen.insert(superblock.drive_id) {
            return Err(PoolError::DuplicateDrive(usize::from(
                superblock.drive_index,
            )));
        }
    }
    let mut heads = found.clone();
    heads.retain(|(_, slot)| quorate(&slot.superblock, slots));
    heads.sort_by_key(|(_, slot)| {
        let superblock = &slot.superblock;
        std::cmp::Reverse((superblock.incarnation.get(), superblock.rank()))
    });
    let rival = |of: &Slot| {
        let others = heads.iter().map(|(_, other)| &other.superblock);
        let mut others = others.filter(|other| !supersedes(&of.superblock, other, slots));
        others.next()
    };
    let Some((_, latest)) = heads.first() else {
        return Err(too_few(&found, slots, damaged));
    };
    match heads.iter().find(|(_, slot)| rival(slot).is_none()) {
        Some((newest, slot)) => Ok(Choice {
            newest: *newest,
            current: usable(&slot.superblock, slots),
        }),
        None => {
            let (left, right) = (&latest.superblock, rival(latest));
            let drives = |head: &Superblock| {
                let of_head = current(head, slots).into_iter().enumerate();
                of_head
                    .filter_map(|(at, index)| index.map(|_| at))
                    .collect()
            };
            Err(PoolError::SplitBrain {
                left: left.epoch.number.get(),
                left_drives: drives(left),
                right: right.map_or(0, |other| other.epoch.number.get()),
                right_drives: right.map(drives).unwrap_or_default(),
            })
        }
    }
}

/// Says that `kept` knows of everything that was acknowledged under `other`.
fn supersedes(kept: &Superblock, other: &Superblock, slots: &[Option<&Slot>]) -> bool {
    let later = other.incarnation.get() <= kept.incarnation.get();
    later && (kept.descends_from(other.epoch) || never_complete(other, kept, slots))
}

/// Says that since the memberships of `head` and `kept` parted, none of `head`'s was ever complete.
///
/// A membership is complete when every drive that it lists as active has it. Before that, nothing
/// that needs it is acknowledged, and no zone is freed and no drive wiped under it; who opens the
/// pool brings the drives up to it or lists them as failed. A listed drive does not become active
/// again under the same identifier. So if `head` still lists a drive as active that went on under
/// `kept` without ever having had `head`'s membership, then that drive has been missing since they
/// parted. A drive that is only behind proves nothing: it may have lost its latest superblock.
fn never_complete(head: &Superblock, kept: &Superblock, slots: &[Option<&Slot>]) -> bool {
    let went_on = current(kept, slots).into_iter().zip(current(head, slots));
    let mut drives = slots.iter().zip(went_on);
    drives.any(|(slot, (by_kept, by_head))| {
        let Some(slot) = slot else {
            return false;
        };
        let drive = &slot.superblock;
        by_kept.is_some()
            && by_head.is_none()
            && index_of(head, &drive.drive_id, MEMBER_ACTIVE).is_some()
            && !drive.descends_from(head.epoch)
    })
}

/// True when a damaged label is that of the member at `index`, as far as can be told.
pub(crate) fn is_damaged(head: &Superblock, index: usize, damaged: &DamagedLabel) -> bool {
    let named = damaged.drive.0 == head.members[index].id;
    // Its identifier may be what is damaged.
    let placed = damaged.pool.0 == head.pool_id && damaged.index == index;
    let another = head.members.iter().any(|it| damaged.drive.0 == it.id);
    named || placed && !another
}

/// The members that should be there by `head` and that none of the current drives is.
pub(crate) fn absent(
    head: &Superblock,
    current: &[Option<usize>],
    given: &Given,
) -> Vec<AbsentMember> {
    let listed = head.members.iter().enumerate();
    let active = listed.filter(|(_, member)| member.state == MEMBER_ACTIVE);
    let absent = active.filter(|(index, _)| !current.contains(&Some(*index)));
    let position = |index: usize, id: [u8; 16]| {
        let hurt = given.damaged.iter();
        let mut hurt = hurt.filter(|(_, label)| is_damaged(head, index, label));
        let mut slots = given.slots.iter().map(Option::as_deref);
        let whole = slots.position(|slot| slot.is_some_and(|it| it.superblock.drive_id == id));
        hurt.next().map(|(position, _)| *position).or(whole)
    };
    absent
        .map(|(index, member)| AbsentMember {
            id: DriveId(member.id),
            index,
            bytes: member.blocks.get() * BLOCK_BYTES as u64,
            given: position(index, member.id),
        })
        .collect()
}

fn too_few(
    found: &[(usize, &Slot)],
    slots: &[Option<&Slot>],
    damaged: &[(usize, DamagedLabel)],
) -> PoolError {
    let Some((_, newest)) = found.iter().max_by_key(|(_, slot)| slot.rank()) else {
        return PoolError::NoPool;
    };
    let head = &newest.superblock;
    let present: BTreeSet<usize> = usable(head, slots).into_iter().flatten().collect();
    let describe = |(index, member): (usize, &crate::format::superblock::Member)| {
        let is_there = damaged
            .iter()
            .any(|(_, label)| is_damaged(head, index, label));
        let state = match member.state {
            MEMBER_ACTIVE if is_there => "there with a damaged label",
            MEMBER_ACTIVE => "absent",
            _ => "failed",
        };
        format!("member {index} ({}) is {state}", hexadecimal(&member.id))
    };
    let listed = head.members.iter().enumerate();
    let missing: Vec<String> = listed
        .filter(|(index, member)| member.state != MEMBER_NONE && !present.contains(index))
        .map(describe)
        .collect();
    PoolError::MembersMissing {
        present: present.len(),
        members: members(head),
        needed: members(head).saturating_sub(lost_max(head)),
        missing: missing.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::MEMBER_FAILED;

    /// Slots of a fresh pool on `drives` drives.
    fn pool(level: Level, drives: usize) -> Vec<Slot> {
        let mut superblock = Superblock::zeroed();
        superblock.level = level.code();
        superblock.width = drives as u8;
        superblock.raise_epoch(7);
        for index in 0..drives {
            superblock.members[index].id = [index as u8 + 1; 16];
            superblock.members[index].state = MEMBER_ACTIVE;
        }
        (0..drives)
            .map(|index| {
                let mut superblock = superblock.clone();
                superblock.drive_id = [index as u8 + 1; 16];
                superblock.drive_index = index as u8;
                Slot {
                    superblock,
                    body: Default::default(),
                    odd: false,
                    by_copy: false,
                    torn_beside: false,
                    alone: false,
                    unread_beside: None,
                    later_beside: None,
                    last_sequence: 0,
                }
            })
            .collect()
    }

    fn lose(slots: &mut [Slot], keepers: &[usize], lost: usize, id: u64) {
        for keeper in keepers {
            slots[*keeper].superblock.members[lost].state = MEMBER_FAILED;
            slots[*keeper].superblock.raise_epoch(id);
        }
    }

    fn decide(slots: &[Slot], present: &[usize]) -> Result<Choice, PoolError> {
        let given: Vec<Option<&Slot>> = present.iter().map(|index| Some(&slots[*index])).collect();
        choose(&given, &[])
    }

    #[test]
    fn drives_are_known_by_label_in_any_order() {
        let slots = pool(Level::Raid5, 3);
        let choice = decide(&slots, &[2, 0, 1]).unwrap();
        assert_eq!(choice.current, [Some(2), Some(0), Some(1)]);
    }

    #[test]
    fn two_halves_of_a_mirror_used_apart_are_refused_together() {
        let mut slots = pool(Level::Raid1, 2);
        lose(&mut slots, &[0], 1, 100);
        lose(&mut slots, &[1], 0, 200);
        let refused = PoolError::SplitBrain {
            left: 2,
            left_drives: vec![0],
            right: 2,
            right_drives: vec![1],
        };
        assert_eq!(decide(&slots, &[0, 1]).unwrap_err(), refused);
        assert!(decide(&slots, &[0]).is_ok());
        assert!(decide(&slots, &[1]).is_ok());
    }

    #[test]
    fn a_returning_drive_is_stale_and_does_not_vote() {
        let mut slots = pool(Level::Raid5, 3);
        lose(&mut slots, &[0, 1], 2, 100);
        let choice = decide(&slots, &[2, 1, 0]).unwrap();
        assert_eq!(choice.current, [None, Some(1), Some(0)]);
        let refused = decide(&slots, &[2, 1]);
        assert!(matches!(
            refused,
            Err(PoolError::MembersMissing { present: 1, .. })
        ));
    }

    #[test]
    fn an_epoch_that_reached_a_minority_gives_way() {
        let mut slots = pool(Level::Raid5, 3);
        lose(&mut slots, &[0], 2, 100);
        lose(&mut slots, &[1, 2], 0, 200);
        let choice = decide(&slots, &[0, 1, 2]).unwrap();
        assert_eq!(choice.current, [None, Some(1), Some(2)]);
    }

    #[test]
    fn a_newcomer_that_the_others_went_on_without_does_not_bring_back_the_past() {
        let mut slots = pool(Level::Raid5, 3);
        let mut newcomer = slots[0].clone();
        newcomer.superblock.raise_epoch(100);
        newcomer.superblock.members[3].id = [4; 16];
        newcomer.superblock.members[3].state = MEMBER_ACTIVE;
        newcomer.superblock.drive_id = [4; 16];
        slots.push(newcomer);
        let joining = decide(&slots, &[0, 1, 2, 3]).unwrap();
        assert_eq!(joining.newest, 3, "nothing has happened since");
        for slot in &mut slots[..3] {
            slot.superblock.sequence = 1.into();
        }
        let choice = decide(&slots, &[0, 1, 2, 3]).unwrap();
        assert_eq!(choice.newest, 0);
        assert_eq!(choice.current, [Some(0), Some(1), Some(2), None]);
    }

    /// The one that opens the pool next loses the same drive, and publishes that on two others.
    #[test]
    fn a_drive_with_a_late_label_of_a_dead_process_counts() {
        let mut slots = pool(Level::Raid5, 4);
        lose(&mut slots, &[0], 3, 100);
        lose(&mut slots, &[1, 2], 3, 200);
        for slot in &mut slots[1..3] {
            slot.superblock.sequence = 1.into();
        }
        let choice = decide(&slots, &[0, 1, 2, 3]).unwrap();
        assert_ne!(choice.newest, 0);
        assert_eq!(choice.current, [Some(0), Some(1), Some(2), None]);
        // Drives that are only behind tell nothing of that membership.
        let refused = decide(&slots, &[0, 3]);
        assert!(matches!(refused, Err(PoolError::MembersMissing { .. })));
    }

    #[test]
    fn an_epoch_on_its_way_is_completed() {
        let mut slots = pool(Level::Raid6, 4);
        lose(&mut slots, &[0], 3, 100);
        let choice = decide(&slots, &[3, 2, 1, 0]).unwrap();
        assert_eq!(choice.newest, 3);
        assert_eq!(choice.current, [None, Some(2), Some(1), Some(0)]);
    }

    /// `drives` are opened by themselves, the others being away: a later incarnation and epoch,
    /// of which only `takers` hear.
    fn go_on(slots: &mut [Slot], drives: &[usize], takers: &[usize], id: u64) {
        let given: Vec<Option<&Slot>> = (0..slots.len())
            .map(|index| drives.contains(&index).then(|| &slots[index]))
            .collect();
        let choice = choose(&given, &[]).unwrap();
        let mut next = slots[choice.newest].superblock.clone();
        next.incarnation = (next.incarnation.get() + 1).into();
        next.sequence = (next.sequence.get() + 1).into();
        next.raise_epoch(id);
        for (index, place) in choice.current.iter().enumerate() {
            if place.is_none() && next.members[index].state == MEMBER_ACTIVE {
                next.members[index].state = MEMBER_FAILED;
            }
        }
        for taker in takers {
            let own = slots[*taker].superblock.clone();
            slots[*taker].superblock = next.clone();
            slots[*taker].superblock.drive_id = own.drive_id;
            slots[*taker].superblock.drive_index = own.drive_index;
        }
    }

    const ALL: [usize; 4] = [0, 1, 2, 3];

    #[test]
    fn an_epoch_that_never_was_complete_yields_to_one_that_was() {
        let mut slots = pool(Level::Raid6, 4);
        // Drive 3 is failing, and power is lost before drive 2 hears of it.
        lose(&mut slots, &[0, 1], 3, 100);
        go_on(&mut slots, &[2, 3], &[2, 3], 200);
        let choice = decide(&slots, &ALL).unwrap();
        assert_eq!(choice.current, [None, None, Some(2), Some(3)]);
        // As often as that host tried again, and whatever number it came to.
        lose(&mut slots, &[0, 1], 3, 101);
        lose(&mut slots, &[1], 3, 102);
        let choice = decide(&slots, &ALL).unwrap();
        assert_eq!(choice.current, [None, None, Some(2), Some(3)]);
        // Without drive 2 nothing tells that the others' was not complete.
        assert!(decide(&slots, &[0, 1]).is_ok() && decide(&slots, &[2, 3]).is_ok());
    }

    #[test]
    fn of_three_the_complete_one_counts() {
        let mut slots = pool(Level::Raid6, 4);
        lose(&mut slots, &[0], 3, 100);
        go_on(&mut slots, &[1, 2, 3], &[1], 200);
        assert_eq!(decide(&slots, &ALL).unwrap().newest, 1, "none is complete");
        go_on(&mut slots, &[2, 3], &[2, 3], 300);
        let choice = decide(&slots, &ALL).unwrap();
        assert_eq!(choice.current, [None, None, Some(2), Some(3)]);
    }

    #[test]
    fn of_two_that_never_were_complete_the_later_opening_counts() {
        let mut slots = pool(Level::Raid6, 4);
        lose(&mut slots, &[0, 1], 3, 100);
        lose(&mut slots, &[0, 1], 3, 101);
        go_on(&mut slots, &[2, 3], &[2], 200);
        let choice = decide(&slots, &ALL).unwrap();
        assert_eq!(choice.current, [None, None, Some(2), Some(3)]);
    }

    #[test]
    fn two_halves_that_both_went_on_are_refused_even_if_one_did_not_finish_its_next_epoch() {
        let mut slots = pool(Level::Raid6, 4);
        go_on(&mut slots, &[0, 1], &[0, 1], 100);
        go_on(&mut slots, &[2, 3], &[2, 3], 200);
        let refused =
            |slots: &[Slot]| matches!(decide(slots, &ALL), Err(PoolError::SplitBrain { .. }));
        assert!(refused(&slots));
        // Drive 1 has yet to hear of the next one: that says nothing about the one before.
        go_on(&mut slots, &[0, 1], &[0], 300);
        assert!(refused(&slots));
    }

    #[test]
    fn what_a_former_holder_left_late_does_not_take_back_an_incarnation() {
        let mut slots = pool(Level::Raid6, 4);
        // A later opening, with every drive there.
        for slot in &mut slots[2..] {
            slot.superblock.incarnation = 1.into();
        }
        // The former holder still raises the epoch, without two drives or with them.
        lose(&mut slots, &[0, 1], 3, 100);
        let choice = decide(&slots, &ALL).unwrap();
        assert_eq!(choice.current, [None, None, Some(2), Some(3)]);
        lose(&mut slots, &[0, 1], 2, 101);
        assert!(matches!(
            decide(&slots, &ALL),
            Err(PoolError::SplitBrain { .. })
        ));
    }

    /// What a decayed label said is nothing later where others tell of it, or enough would.
    #[test]
    fn a_later_label_that_has_decayed_is_missed_where_no_other_drive_has_it() {
        let mut slots = pool(Level::Raid1, 2);
        for slot in &mut slots {
            slot.superblock.version = 3.into();
            slot.superblock.content = 4.into();
            slot.superblock.sequence = 5.into();
        }
        slots[0].later_beside = Some(6);
        let decide = |slots: &[Option<&Slot>]| choose_safely(slots, &[], false);
        let both = decide(&[Some(&slots[0]), Some(&slots[1])]).unwrap();
        assert_eq!(both.current, [None, Some(1)], "the other one may be behind");
        let refused = PoolError::LatestLabelDamaged {
            index: 0,
            older: 4,
            lost: 6,
        };
        assert_eq!(decide(&[Some(&slots[0]), None]).unwrap_err(), refused);
        assert!(choose_safely(&[Some(&slots[0]), None], &[], true).is_ok());
        slots[1].superblock.content = 6.into();
        slots[1].superblock.sequence = 6.into();
        let both = decide(&[Some(&slots[0]), Some(&slots[1])]).unwrap();
        assert_eq!((both.newest, both.current), (1, vec![Some(0), Some(1)]));
    }

    #[test]
    fn drives_of_two_pools_and_copies_of_one_are_refused() {
        let slots = pool(Level::Raid1, 2);
        let mut other = pool(Level::Raid1, 2);
        other[0].superblock.pool_id = [9; 16];
        let mixed = choose(&[Some(&slots[0]), Some(&other[0])], &[]);
        assert!(matches!(mixed, Err(PoolError::MixedPools(..))));
        let copied = choose(&[Some(&slots[0]), Some(&slots[0])], &[]);
        assert!(matches!(copied, Err(PoolError::DuplicateDrive(0))));
        assert!(matches!(choose(&[None], &[]), Err(PoolError::NoPool)));
    }
}
