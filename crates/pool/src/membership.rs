//! Which superblock counts, which drives are current, and whether they are enough. No I/O.

use crate::error::PoolError;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE, Superblock};
use crate::labels::{Slot, hexadecimal};
use crate::level::Level;
use std::collections::BTreeSet;

/// The decision: the slot to go on from, and which of the drives given may be used.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Position, among the drives given, of the one whose slot counts.
    pub newest: usize,
    /// For each drive given: its index in the member list if it is current.
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

fn members(superblock: &Superblock) -> usize {
    superblock
        .members
        .iter()
        .filter(|member| member.state != MEMBER_NONE)
        .count()
}

fn quorate(head: &Superblock, slots: &[Option<&Slot>]) -> bool {
    let present = current(head, slots).into_iter().flatten().count();
    present > 0 && present + lost_max(head) >= members(head)
}

/// Decides from the newest slot of each drive given; `None` where a drive has none.
pub(crate) fn choose(slots: &[Option<&Slot>]) -> Result<Choice, PoolError> {
    let found: Vec<(usize, &Slot)> = slots
        .iter()
        .enumerate()
        .filter_map(|(at, slot)| Some((at, (*slot)?)))
        .collect();
    let (_, first) = found.first().ok_or(PoolError::NoPool)?;
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
    let mut heads: Vec<(usize, &Slot)> = found.clone();
    heads.sort_by_key(|(_, slot)| std::cmp::Reverse(slot.rank()));
    let mut chosen: Option<(usize, &Slot)> = None;
    for (at, slot) in heads {
        if !quorate(&slot.superblock, slots) {
            continue;
        }
        match chosen {
            None => chosen = Some((at, slot)),
            Some((_, head)) if head.superblock.descends_from(slot.superblock.epoch) => {}
            Some((_, head)) => {
                return Err(PoolError::SplitBrain {
                    left: head.superblock.epoch.number.get(),
                    right: slot.superblock.epoch.number.get(),
                });
            }
        }
    }
    match chosen {
        Some((newest, slot)) => Ok(Choice {
            newest,
            current: current(&slot.superblock, slots),
        }),
        None => Err(too_few(&found, slots)),
    }
}

fn too_few(found: &[(usize, &Slot)], slots: &[Option<&Slot>]) -> PoolError {
    let Some((_, newest)) = found.iter().max_by_key(|(_, slot)| slot.rank()) else {
        return PoolError::NoPool;
    };
    let head = &newest.superblock;
    let present: BTreeSet<usize> = current(head, slots).into_iter().flatten().collect();
    let describe = |(index, member): (usize, &crate::format::superblock::Member)| {
        let state = if member.state == MEMBER_ACTIVE {
            "absent"
        } else {
            "failed"
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
                    body: Vec::new(),
                    odd: false,
                    torn_beside: false,
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
        choose(&given)
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
        assert!(matches!(
            decide(&slots, &[0, 1]),
            Err(PoolError::SplitBrain { .. })
        ));
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

    #[test]
    fn an_epoch_on_its_way_is_completed() {
        let mut slots = pool(Level::Raid6, 4);
        lose(&mut slots, &[0], 3, 100);
        let choice = decide(&slots, &[3, 2, 1, 0]).unwrap();
        assert_eq!(choice.newest, 3);
        assert_eq!(choice.current, [None, Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn drives_of_two_pools_and_copies_of_one_are_refused() {
        let slots = pool(Level::Raid1, 2);
        let mut other = pool(Level::Raid1, 2);
        other[0].superblock.pool_id = [9; 16];
        let mixed = choose(&[Some(&slots[0]), Some(&other[0])]);
        assert!(matches!(mixed, Err(PoolError::MixedPools(..))));
        let copied = choose(&[Some(&slots[0]), Some(&slots[0])]);
        assert!(matches!(copied, Err(PoolError::DuplicateDrive(0))));
        assert!(matches!(choose(&[None]), Err(PoolError::NoPool)));
    }
}
