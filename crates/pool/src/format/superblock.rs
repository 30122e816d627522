//! The superblock: who the pool and this drive are, and the checkpoint that follows it.

use crate::format::plausible::{self, Implausible, is_printable, printable};
use crate::ids::EpochNumber;
use crate::location::BLOCK_BYTES;
use crate::segments::zones::{ZONE_BITS, Zone};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

pub(crate) const MAGIC: [u8; 8] = *b"FLSHYARD";
/// What is written. Version 1 has no runs in its maps and folds layers in one go. Version 2 writes
/// superblocks and their tables in one go, and does not say what is new in which.
pub(crate) const VERSION: u32 = 3;
/// The first version whose superblocks say what is [new](Superblock::content) in them.
pub(crate) const TELLING_VERSION: u32 = 3;
/// What a program has to know to open a pool: there is nothing yet.
pub(crate) const FEATURES: u64 = 0;
pub(crate) const ANCESTORS: usize = 64;
pub(crate) const MEMBERS: usize = crate::level::DRIVES_MAX;
pub(crate) const NAME_BYTES: usize = 64;

/// One membership: its number, and a random word that tells two of the same number apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Epoch {
    pub number: U64,
    pub id: U64,
}

impl Epoch {
    pub fn number(self) -> EpochNumber {
        EpochNumber::new(self.number.get())
    }
}

/// One drive of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Member {
    pub id: [u8; 16],
    pub state: u8,
    pub reserved0: u8,
    /// The failure domain that it is in; 0 for none.
    pub domain: U16,
    pub reserved1: [u8; 4],
    pub blocks: U64,
    pub joined: U64,
}

/// Zones that a superblock can name as set apart.
pub(crate) const APART_MAX: usize = 256;

/// [`Member::state`]: no drive has this index.
pub(crate) const MEMBER_NONE: u8 = 0;
/// [`Member::state`]: holds everything that its columns should.
pub(crate) const MEMBER_ACTIVE: u8 = 1;
/// [`Member::state`]: missed writes; whatever it still holds is stale.
pub(crate) const MEMBER_FAILED: u8 = 2;

/// The first block of a slot; the checkpoint's tables are its neighbours.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Superblock {
    pub magic: [u8; 8],
    pub version: U32,
    pub checksum: U32,
    pub pool_id: [u8; 16],
    pub secret: [u8; 16],
    pub drive_id: [u8; 16],
    pub sequence: U64,
    pub incarnation: U64,
    pub epoch: Epoch,
    pub holder: [u8; 16],
    pub drive_blocks: U64,
    pub zone_base: U32,
    pub zone_blocks: U32,
    pub slot_blocks: U32,
    pub body_bytes: U32,
    pub body_checksum: U32,
    pub level: u8,
    pub width: u8,
    pub drive_index: u8,
    pub reserved0: u8,
    pub name: [u8; NAME_BYTES],
    pub ancestors: [Epoch; ANCESTORS],
    pub members: [Member; MEMBERS],
    pub claim: U64,
    /// The number of the next superblock, if this was written by a host that closed the pool.
    pub closed: U64,
    /// The number of the next superblock, if `apart` counts.
    pub apart_at: U64,
    pub apart: [U32; APART_MAX],
    /// The first superblock that said what this one says: see [`content`](Superblock::content).
    pub content: U64,
    /// What else a program has to know.
    pub features: U64,
    /// The host from which `holder` takes the pool by force, until it has: that one may go on for
    /// as long as its lease.
    pub taken_from: [u8; 16],
    pub reserved: [u8; 504],
}

const _: () = assert!(size_of::<Superblock>() == BLOCK_BYTES);

/// Why a block is not a superblock that this version can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotSuperblock {
    /// It does not start with the magic number.
    Foreign,
    /// A later version of the format wrote it.
    Newer(Newer),
    /// The checksum does not match.
    Damaged,
    /// The checksum matches, and no pool writes such a superblock.
    Implausible(Implausible),
}

/// What a superblock of a later version still says: these fields keep their places in all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newer {
    pub version: u32,
    /// What else a program has to know, of those that this one does not.
    pub features: u64,
    pub pool_id: [u8; 16],
    name: [u8; NAME_BYTES],
}

impl Newer {
    pub fn name(&self) -> String {
        text(&self.name)
    }
}

fn text(padded: &[u8; NAME_BYTES]) -> String {
    let end = padded.iter().position(|byte| *byte == 0);
    printable(&String::from_utf8_lossy(
        &padded[..end.unwrap_or(NAME_BYTES)],
    ))
}

impl Superblock {
    pub fn zeroed() -> Superblock {
        Superblock::new_zeroed()
    }

    /// The block as it goes to disk, its checksum filled in.
    pub fn seal(&self) -> [u8; BLOCK_BYTES] {
        let mut sealed = self.clone();
        sealed.checksum = U32::ZERO;
        sealed.checksum = crc_fast::crc32_iscsi(sealed.as_bytes()).into();
        let mut bytes = [0; BLOCK_BYTES];
        bytes.copy_from_slice(sealed.as_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Result<Superblock, NotSuperblock> {
        let found = Superblock::read_from_bytes(bytes).map_err(|_| NotSuperblock::Foreign)?;
        if found.magic != MAGIC {
            return Err(NotSuperblock::Foreign);
        }
        let mut unsealed = found.clone();
        unsealed.checksum = U32::ZERO;
        if found.checksum.get() != crc_fast::crc32_iscsi(unsealed.as_bytes()) {
            return Err(NotSuperblock::Damaged);
        }
        let known = (1..=VERSION).contains(&found.version.get());
        let features = match known {
            true => found.features.get() & !FEATURES,
            false => 0,
        };
        if !known || features != 0 {
            return Err(NotSuperblock::Newer(Newer {
                version: found.version.get(),
                features,
                pool_id: found.pool_id,
                name: found.name,
            }));
        }
        plausible::label(&found).map_err(NotSuperblock::Implausible)?;
        Ok(found)
    }

    /// How far the pool had come when this was written, whatever its members.
    pub fn progress(&self) -> (u64, u64) {
        (self.incarnation.get(), self.sequence.get())
    }

    /// Orders superblocks of one lineage: the later one is greater.
    pub fn rank(&self) -> (u64, u64, u64) {
        (
            self.epoch.number.get(),
            self.incarnation.get(),
            self.sequence.get(),
        )
    }

    /// The number of the first superblock that said what this one says, tables included. Claims,
    /// and others that are written once more, are numbered on and say nothing new. Before there
    /// was such a number every superblock counted as new.
    pub fn content(&self) -> u64 {
        match self.version.get() < TELLING_VERSION {
            true => self.sequence.get(),
            false => self.content.get(),
        }
    }

    /// Whether it says the same as another one of the same drive's, but for its number.
    pub fn says_as(&self, other: &Superblock) -> bool {
        let bare = |superblock: &Superblock| Superblock {
            checksum: U32::ZERO,
            sequence: U64::ZERO,
            content: U64::ZERO,
            closed: U64::ZERO,
            apart_at: U64::ZERO,
            ..superblock.clone()
        };
        bare(self).as_bytes() == bare(other).as_bytes()
    }

    /// Numbers it, and what comes after it, behind a number that was found. Slots go on in turn.
    pub fn go_beyond(&mut self, number: u64) {
        let ahead = number.saturating_sub(self.sequence.get());
        self.sequence = (self.sequence.get() + ahead.next_multiple_of(2)).into();
    }

    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// Calls the pool otherwise, or says why it cannot be called so.
    pub fn set_name(&mut self, name: &str) -> Result<(), &'static str> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > NAME_BYTES {
            return Err("a pool's name has 1 to 64 bytes");
        }
        if !is_printable(name) {
            return Err("names have no control characters");
        }
        self.name = [0; NAME_BYTES];
        self.name[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// True when `epoch` is this superblock's or one that it grew from.
    pub fn descends_from(&self, epoch: Epoch) -> bool {
        self.epoch == epoch
            || self
                .ancestors
                .iter()
                .any(|ancestor| *ancestor == epoch && epoch.number.get() != 0)
    }

    /// Says that a host closed the pool: nothing was under way when it wrote this. Whatever is
    /// written after it has another number, and does not say so, be it a copy by a program that
    /// does not know of this.
    pub fn close(&mut self) {
        self.closed = (self.sequence.get() + 1).into();
    }

    /// Whether the pool was closed, and not opened since.
    pub fn is_closed(&self) -> bool {
        self.closed.get() == self.sequence.get() + 1
    }

    /// Says which free zones the host leaves as they are until a later superblock says otherwise.
    /// The number and the members of this one are to be set before; as above, it ends with the
    /// next. Of a drive that is out of use no zone is named: its place may be another's soon.
    pub fn set_apart(&mut self, zones: &[Zone]) {
        let members = &self.members;
        let works = |zone: &&Zone| {
            let member = members.get(usize::from(zone.drive));
            member.is_some_and(|member| member.state == MEMBER_ACTIVE)
        };
        self.apart = [U32::ZERO; APART_MAX];
        for (place, zone) in self.apart.iter_mut().zip(zones.iter().filter(works)) {
            *place = ((u32::from(zone.drive) + 1) << ZONE_BITS | zone.index).into();
        }
        self.apart_at = (self.sequence.get() + 1).into();
    }

    /// Those zones.
    pub fn apart(&self) -> Vec<Zone> {
        let counts = self.apart_at.get() == self.sequence.get() + 1;
        let named = self.apart.iter().map(|place| place.get());
        let zone = |named: u32| {
            let drive = (named >> ZONE_BITS).checked_sub(1)?;
            let index = named & ((1 << ZONE_BITS) - 1);
            (counts && drive < MEMBERS as u32).then_some(Zone {
                drive: drive as u8,
                index,
            })
        };
        named.filter_map(zone).collect()
    }

    /// Enters a new membership whose random word is `id`.
    pub fn raise_epoch(&mut self, id: u64) {
        self.ancestors.copy_within(0..ANCESTORS - 1, 1);
        self.ancestors[0] = self.epoch;
        self.epoch = Epoch {
            number: self.epoch.number().next().get().into(),
            id: id.into(),
        };
    }

    /// The same, with a number that is also beyond that of another epoch.
    pub fn raise_epoch_beyond(&mut self, other: EpochNumber, id: u64) {
        self.raise_epoch(id);
        let number = self.epoch.number().max(other.next());
        self.epoch.number = number.get().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::drive_layout::DriveLayout;

    /// Of a pool on one drive.
    fn sample() -> Superblock {
        let (blocks, zone, slot) = (2000, 32, 16);
        let layout = DriveLayout::new(blocks, zone, slot);
        let mut superblock = Superblock::zeroed();
        superblock.magic = MAGIC;
        superblock.version = VERSION.into();
        superblock.name[..4].copy_from_slice(b"tank");
        superblock.width = 1;
        superblock.drive_id = [3; 16];
        superblock.drive_blocks = blocks.into();
        superblock.zone_base = layout.zone_base.into();
        superblock.zone_blocks = zone.into();
        superblock.slot_blocks = slot.into();
        superblock.body_bytes = 50.into();
        superblock.members[0].id = [3; 16];
        superblock.members[0].state = MEMBER_ACTIVE;
        superblock.members[0].blocks = blocks.into();
        superblock
    }

    #[test]
    fn a_superblock_that_no_pool_writes_is_refused_in_words_that_can_be_printed() {
        type Craft = fn(&mut Superblock);
        let crafts: [(Craft, &str); 16] = [
            (
                |it| it.zone_blocks = 0.into(),
                "zone_blocks is 0; allowed: 32 to",
            ),
            (
                |it| it.slot_blocks = u32::MAX.into(),
                "slot_blocks is 4294967295",
            ),
            (|it| it.zone_base = 0.into(), "zone_base is 0; allowed: 32"),
            (
                |it| it.body_bytes = (16 << 12).into(),
                "body_bytes is 65536; allowed: 1 to 61440",
            ),
            (|it| it.level = 2, "level is 2; allowed: 0, 1, 5, 6 and 10"),
            (|it| it.width = 0, "width is 0; allowed: 1 to 32"),
            (|it| it.width = 255, "width is 255"),
            (
                |it| it.drive_index = 32,
                "drive_index is 32; allowed: 0 to 31",
            ),
            (|it| it.drive_index = 1, "id of member 1 is another's"),
            (
                |it| it.members[0].blocks = u64::MAX.into(),
                "blocks of member 0 is 1844674407",
            ),
            (
                |it| it.members[0].blocks = 1999.into(),
                "blocks of member 0 is 1999; allowed: 2000",
            ),
            (
                |it| it.members[9] = it.members[0],
                "id of member 9 is another's",
            ),
            (|it| it.sequence = u64::MAX.into(), "sequence is 1844674407"),
            (|it| it.content = 1.into(), "content is 1; allowed: 0 to 0"),
            (
                |it| it.members[0].domain = 1.into(),
                "domain of member 0 is 1; allowed: 0 to 0",
            ),
            (|it| it.name[1] = 0x1b, "name is \"t\\u{1b}nk\""),
        ];
        assert_eq!(
            Superblock::parse(&sample().seal()).map(|it| it.name()),
            Ok("tank".into())
        );
        for (craft, words) in crafts {
            let mut crafted = sample();
            craft(&mut crafted);
            let Err(NotSuperblock::Implausible(why)) = Superblock::parse(&crafted.seal()) else {
                panic!("{words}");
            };
            assert!(why.to_string().contains(words), "{why}");
            assert!(!crafted.name().contains('\x1b'));
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let sealed = sample().seal();
        assert_eq!(Superblock::parse(&sealed).unwrap().name(), "tank");
        for bit in (0..BLOCK_BYTES * 8).step_by(37) {
            let mut flipped = sealed;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::parse(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn zones_are_set_apart_until_the_next_superblock_and_on_members_that_work() {
        let zone = |drive, index| Zone { drive, index };
        let mut superblock = sample();
        superblock.members[0].state = MEMBER_ACTIVE;
        superblock.members[1].state = MEMBER_FAILED;
        superblock.members[MEMBERS - 1].state = MEMBER_ACTIVE;
        superblock.sequence = 7.into();
        let last = zone(MEMBERS as u8 - 1, (1 << ZONE_BITS) - 1);
        superblock.set_apart(&[zone(0, 0), zone(1, 2), zone(2, 3), last, zone(200, 4)]);
        assert_eq!(superblock.apart(), [zone(0, 0), last]);
        superblock.sequence = 8.into();
        assert_eq!(
            superblock.apart(),
            [],
            "who wrote this one knows nothing of them"
        );
        superblock.set_apart(&[zone(0, 9); APART_MAX + 1]);
        assert_eq!(superblock.apart().len(), APART_MAX);
        assert_eq!(sample().apart(), [], "a superblock that never named any");
    }

    #[test]
    fn a_newer_version_is_named_not_called_damage() {
        let mut newer = sample();
        newer.version = (VERSION + 1).into();
        newer.pool_id = [7; 16];
        let Err(NotSuperblock::Newer(found)) = Superblock::parse(&newer.seal()) else {
            panic!("it is of a later version");
        };
        assert_eq!((found.version, found.pool_id), (VERSION + 1, [7; 16]));
        assert_eq!((found.name(), found.features), ("tank".into(), 0));
        newer.version = VERSION.into();
        newer.features = 6.into();
        let Err(NotSuperblock::Newer(found)) = Superblock::parse(&newer.seal()) else {
            panic!("it has features");
        };
        assert_eq!((found.version, found.features), (VERSION, 6));
    }

    #[test]
    fn what_is_written_once_more_says_nothing_new() {
        let mut first = sample();
        first.sequence = 7.into();
        first.content = 7.into();
        let mut again = first.clone();
        again.sequence = 8.into();
        again.set_apart(&[]);
        assert!(again.says_as(&first));
        assert_eq!(again.content(), 7);
        again.holder = [1; 16];
        assert!(!again.says_as(&first));
        again.version = 2.into();
        assert_eq!(again.content(), 8, "it did not say yet");
        for (number, sequence) in [(3, 8), (8, 8), (9, 10), (10, 10), (11, 12)] {
            let mut beyond = again.clone();
            beyond.go_beyond(number);
            assert_eq!(beyond.sequence.get(), sequence);
        }
    }

    #[test]
    fn two_halves_that_reach_one_number_are_strangers() {
        let mut left = sample();
        left.raise_epoch(1);
        let common = left.epoch;
        let mut right = left.clone();
        left.raise_epoch(2);
        right.raise_epoch(3);
        assert_eq!(left.epoch.number, right.epoch.number);
        assert!(left.descends_from(common) && right.descends_from(common));
        assert!(!left.descends_from(right.epoch) && !right.descends_from(left.epoch));
    }
}
