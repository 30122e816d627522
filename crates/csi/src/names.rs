//! What objects are called on nodes, and what the orchestrator calls them.
//!
//! A volume's identifier is its UUID, which stays when it is renamed or its pool moves to another
//! node. A snapshot that was taken here carries in its name all that nodes do not keep: a hash of
//! what the orchestrator called it, the volume it was taken of, and when.

use api::{Name, Snapshot, SnapshotName};
use prost_types::Timestamp;
use sha2::{Digest, Sha256};
use tonic::Status;
use uuid::Uuid;

/// Names of snapshots that were taken one by one.
const SINGLE: &str = "csi-";

/// Names of snapshots that are members of a group.
const MEMBER: &str = "csg-";

/// Bytes of a hash in a name: a collision within a million names is as likely as one in a
/// hundred thousand thousand.
const HASH_BYTES: usize = 8;

/// What a volume is called on its node: as the orchestrator calls it, if a node takes that.
pub fn volume_name(asked: &str) -> Result<Name, Status> {
    match asked.parse() {
        Ok(name) => Ok(name),
        Err(_) => name(&format!("{SINGLE}{}", hash(asked, 2 * HASH_BYTES))),
    }
}

/// The snapshot that a volume is cloned by, while that lasts.
pub fn clone_name(target: &Name) -> Result<Name, Status> {
    name(&format!("csc-{}", hash(target.as_str(), 2 * HASH_BYTES)))
}

/// The name of the host object of the host called `nqn`.
pub fn host_name(nqn: &str) -> Result<Name, Status> {
    let uuid = nqn.rsplit_once(":uuid:").map(|(_, uuid)| uuid);
    match uuid.and_then(|uuid| Uuid::try_parse(uuid).ok()) {
        Some(uuid) => name(&format!("{SINGLE}{uuid}")),
        None => name(&format!("{SINGLE}{}", hash(nqn, 2 * HASH_BYTES))),
    }
}

fn name(text: &str) -> Result<Name, Status> {
    text.parse()
        .map_err(|error: api::NameError| Status::internal(error.to_string()))
}

fn hash(text: &str, bytes: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digits = digest.iter().take(bytes);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// What a snapshot that was taken here says of itself by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// It is one of a group.
    pub member: bool,
    /// The hash of what the orchestrator called it, or its group.
    pub hash: String,
    /// The volume that it was taken of.
    pub volume: Uuid,
    /// When, in seconds since 1970.
    pub seconds: u32,
}

impl Taken {
    /// What all snapshots begin with that the orchestrator calls `asked`, or whose group it does.
    pub fn prefix(asked: &str, member: bool) -> String {
        let kind = if member { MEMBER } else { SINGLE };
        format!("{kind}{}.", hash(asked, HASH_BYTES))
    }

    /// The name of a snapshot of `volume` that the orchestrator calls `asked`.
    pub fn name(asked: &str, member: bool, volume: Uuid, seconds: u32) -> Result<Name, Status> {
        let prefix = Taken::prefix(asked, member);
        name(&format!("{prefix}{}.{seconds:08x}", volume.simple()))
    }

    /// What `name` says; none of a snapshot that was taken in another way.
    pub fn of(name: &str) -> Option<Taken> {
        let (kind, rest) = name.split_at_checked(SINGLE.len())?;
        let member = match kind {
            SINGLE => false,
            MEMBER => true,
            _ => return None,
        };
        let mut parts = rest.split('.');
        let (hash, volume, seconds) = (parts.next()?, parts.next()?, parts.next()?);
        if hash.len() != 2 * HASH_BYTES || seconds.len() != 8 || parts.next().is_some() {
            return None;
        }
        Some(Taken {
            member,
            hash: hash.to_owned(),
            volume: Uuid::try_parse(volume).ok()?,
            seconds: u32::from_str_radix(seconds, 16).ok()?,
        })
    }

    /// When it was taken.
    pub fn time(&self) -> Timestamp {
        Timestamp {
            seconds: self.seconds.into(),
            nanos: 0,
        }
    }

    /// The identifier of its group, if it is one of a group.
    pub fn group(&self) -> Option<String> {
        let Taken { hash, seconds, .. } = self;
        self.member.then(|| format!("{MEMBER}{hash}.{seconds:08x}"))
    }
}

/// What all members of the group with this identifier begin with, and when they were taken.
pub fn group_prefix(identifier: &str) -> Option<(String, u32)> {
    let (prefix, seconds) = identifier.rsplit_once('.')?;
    let hash = prefix.strip_prefix(MEMBER)?;
    let seconds = u32::from_str_radix(seconds, 16).ok()?;
    let is_hash = hash.len() == 2 * HASH_BYTES && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| (format!("{prefix}."), seconds))
}

/// The identifier of a snapshot: its name, where that is unique by itself, else with its pool's.
pub fn snapshot_id(snapshot: &Snapshot) -> String {
    match Taken::of(&snapshot.name) {
        Some(_) => snapshot.name.clone(),
        None => format!("{}/{}", snapshot.pool, snapshot.name),
    }
}

/// The snapshot that an identifier names; none if it cannot be one.
pub fn snapshot_of(identifier: &str) -> Option<SnapshotName> {
    let parsed: SnapshotName = identifier.parse().ok()?;
    let complete = parsed.pool.is_some() || Taken::of(identifier).is_some();
    complete.then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_keeps_its_name_where_a_node_takes_it() {
        let kept = "pvc-0b5cf1e8-8f23-4b0c-9a3b-7d1c6e8d9f10";
        assert_eq!(volume_name(kept).unwrap().as_str(), kept);
        let long = "Volume ".repeat(20);
        let made = volume_name(&long).unwrap();
        assert_eq!(made, volume_name(&long).unwrap());
        assert_ne!(made, volume_name("Volume").unwrap());
    }

    #[test]
    fn a_snapshot_says_by_its_name_what_nodes_do_not_keep() {
        let volume = Uuid::from_u128(7);
        let name = Taken::name("snapshot-1", true, volume, 0x6500_0001).unwrap();
        let taken = Taken::of(name.as_str()).unwrap();
        assert_eq!((taken.volume, taken.seconds), (volume, 0x6500_0001));
        assert!(
            name.as_str()
                .starts_with(&Taken::prefix("snapshot-1", true))
        );
        let group = taken.group().unwrap();
        let (prefix, seconds) = group_prefix(&group).unwrap();
        assert!(name.as_str().starts_with(&prefix));
        assert_eq!(seconds, taken.seconds);
        for other in ["monday", "csi-1", "csi-0011223344556677.x.00000000", ""] {
            assert_eq!(Taken::of(other), None, "{other}");
            assert_eq!(group_prefix(other), None, "{other}");
        }
    }

    #[test]
    fn a_snapshot_of_another_origin_is_named_with_its_pool() {
        assert!(snapshot_of("fast/monday").is_some());
        assert!(snapshot_of("monday").is_none());
        assert!(snapshot_of("non existing").is_none());
    }

    #[test]
    fn a_host_is_called_after_its_uuid() {
        let uuid = "5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
        let name = host_name(&format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}")).unwrap();
        assert_eq!(name.as_str(), format!("csi-{uuid}"));
        assert!(host_name("nqn.2026-11.example:h").is_ok());
    }
}
