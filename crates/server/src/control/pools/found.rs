//! [`Found`]: what the free drives of the node carry, and which of them make up a pool.

use std::collections::{BTreeMap, BTreeSet};

use api::{ErrorBody, ErrorCode, Name, PoolImport};
use node::{DamagedLabel, DriveLabel, Label, NewerFormat, NodeError, PoolError};

use super::looks::PATIENCE;
use super::{free_drive, pool_of};
use crate::control::drives::user;
use crate::control::words::list;
use crate::control::{Control, Objects};
use crate::state::PoolRecord;
use crate::words::hexadecimal;

/// What drives carry that work and that nothing uses.
#[derive(Default)]
pub(super) struct Found {
    /// Of pools that this program can read.
    pub labels: BTreeMap<Name, Label>,
    /// Of pools that they were of by labels that are not whole any more.
    pub damaged: BTreeMap<Name, DamagedLabel>,
    /// Of pools of a later format.
    pub newer: BTreeMap<Name, NewerFormat>,
    /// Of no pool, and not looked at further.
    pub blank: BTreeSet<Name>,
    /// Of nobody knows what, and why.
    pub unreadable: BTreeMap<Name, String>,
}

impl Control {
    /// What the drives carry that work and that nothing uses, for a change: it waits for them.
    pub(super) async fn found(&self, objects: &Objects) -> Found {
        let mut found = Found::default();
        for name in free(objects, |name| is_listed(objects, name)) {
            let label = self.node.drive_label(name.as_str()).await;
            found.enter(name, label);
        }
        found
    }

    /// The same for a question, which waits for no drive that does not answer.
    pub(super) async fn found_in_time(&self, objects: &Objects) -> Found {
        let free = free(objects, |name| is_listed(objects, name));
        self.labels_in_time(free).await
    }

    /// What these drives carry, for a question.
    pub(super) async fn labels_in_time(&self, drives: impl IntoIterator<Item = Name>) -> Found {
        let look = |drive: &Name| {
            let (node, drive) = (self.node.clone(), drive.clone());
            async move { node.drive_label(drive.as_str()).await }
        };
        let mut found = Found::default();
        for (name, seen) in self.looks.at(drives, look).await {
            match seen {
                Some(label) => found.enter(name, label),
                None => {
                    let why = format!("it has not answered within {} seconds", PATIENCE.as_secs());
                    found.unreadable.insert(name, why);
                }
            }
        }
        found
    }
}

/// Whether an open pool lists a drive among its members.
fn is_listed(objects: &Objects, drive: &Name) -> bool {
    let open = |pool: &Name| {
        let entry = objects.pools.get(pool);
        entry.is_some_and(|entry| entry.offline.is_none())
    };
    pool_of(objects, drive).is_some_and(open)
}

/// The drives that work, that no volume takes, and that are not `used`.
pub(super) fn free(objects: &Objects, used: impl Fn(&Name) -> bool) -> Vec<Name> {
    let drives = objects.drives.iter();
    let works = drives.filter(|(_, entry)| entry.offline.is_none());
    let names = works.map(|(name, _)| name);
    let free = names.filter(|name| user(objects, name).is_none() && !used(name));
    free.cloned().collect()
}

impl Found {
    fn enter(&mut self, drive: Name, label: Result<DriveLabel, NodeError>) {
        match label {
            Ok(DriveLabel::Blank) => drop(self.blank.insert(drive)),
            Ok(DriveLabel::Pool(label)) => drop(self.labels.insert(drive, label)),
            Ok(DriveLabel::Damaged(label)) => drop(self.damaged.insert(drive, label)),
            Ok(DriveLabel::Newer(newer)) => drop(self.newer.insert(drive, newer)),
            Ok(DriveLabel::Unreadable(why)) => drop(self.unreadable.insert(drive, why)),
            Err(error) => drop(self.unreadable.insert(drive, error.to_string())),
        }
    }

    /// The labels that count for a pool that the node has: not those that were left out of it, nor
    /// that of a copy beside the drive that the node knows as the member.
    pub fn of<'a>(&'a self, record: &'a PoolRecord) -> impl Iterator<Item = (&'a Name, &'a Label)> {
        let left_out = |label: &Label| record.left_out.contains(&hexadecimal(&label.drive.0));
        let of_pool = self.of_id(&record.id);
        of_pool.filter(move |(name, label)| !left_out(label) && !self.is_copy(record, name, label))
    }

    /// Whether another drive has the same label, is what the record calls that member, and knows
    /// no less of the pool: which of two copies was used since nothing else tells.
    fn is_copy(&self, record: &PoolRecord, name: &Name, label: &Label) -> bool {
        let member = record.members.get(&hexadecimal(&label.drive.0));
        let known = member.filter(|member| *member != name);
        let known = known.and_then(|member| self.labels.get(member));
        known.is_some_and(|known| {
            (known.pool, known.drive) == (label.pool, label.drive) && known.epoch >= label.epoch
        })
    }

    /// What the drive carries that is where a pool has a member, if it carries something else.
    pub fn instead_of(&self, record: &PoolRecord, member: &str) -> Option<String> {
        let name = record.members.get(member)?;
        if self.blank.contains(name) {
            return Some(format!("drive {name} is there and blank"));
        }
        let label = self.labels.get(name)?;
        let (index, pool) = (label.index, &label.pool_name);
        let is_it = hexadecimal(&label.drive.0) == member;
        (!is_it).then(|| format!("drive {name} is there and carries member {index} of pool {pool}"))
    }

    /// The same of all members that none of the drives is.
    fn instead_of_missing(&self, record: &PoolRecord) -> Vec<String> {
        let here = self.of(record);
        let here: BTreeSet<String> = here.map(|(_, label)| hexadecimal(&label.drive.0)).collect();
        let members = record.members.keys().filter(|id| !here.contains(*id));
        members
            .filter_map(|id| self.instead_of(record, id))
            .collect()
    }

    /// The labels of the pool of this identity.
    pub fn of_id<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (&'a Name, &'a Label)> {
        let labels = self.labels.iter();
        labels.filter(move |(_, label)| hexadecimal(&label.pool.0) == id)
    }

    /// Refuses a pool of which a drive has a later format: without that drive it might open, and
    /// what the later program wrote would be lost.
    pub fn check_format(&self, id: &str) -> Result<(), String> {
        let of_pool = self.newer.iter();
        let of_pool = of_pool.filter(|(_, newer)| hexadecimal(&newer.pool.0) == id);
        newer_in_words(of_pool).map_or(Ok(()), Err)
    }

    /// A refusal for want of drives of a pool that the node has, with what is where they were.
    pub fn beside_members(&self, record: &PoolRecord, reason: String) -> String {
        let instead = self.instead_of_missing(record).into_iter();
        let reason = instead.fold(reason, |reason, instead| format!("{reason}; {instead}"));
        self.beside(reason)
    }

    /// A refusal for want of drives, with what cannot be read beside it: it may be what is missing.
    pub fn beside(&self, reason: String) -> String {
        let unreadable = self.unreadable.iter();
        unreadable.fold(reason, |reason, (drive, why)| {
            format!("{reason}; drive {drive} cannot be read: {why}")
        })
    }

    /// The same, where drives are what an opening wanted.
    pub fn beside_error(&self, record: Option<&PoolRecord>, error: &NodeError) -> String {
        let wants_drives = matches!(
            error,
            NodeError::Pool {
                error: PoolError::MembersMissing { .. } | PoolError::NoPool,
                ..
            }
        );
        match (wants_drives, record) {
            (true, Some(record)) => self.beside_members(record, error.to_string()),
            (true, None) => self.beside(error.to_string()),
            (false, _) => error.to_string(),
        }
    }

    /// The identity of the pool that `name` stands for.
    pub fn choose(&self, name: &Name, id: Option<&String>) -> Result<String, ErrorBody> {
        let named = self.labels.values();
        let named = named.filter(|label| label.pool_name == name.as_str());
        let ids: BTreeSet<String> = named.map(|label| hexadecimal(&label.pool.0)).collect();
        let all = || ids.iter().cloned().collect::<Vec<String>>().join(", ");
        if let Some(id) = id {
            return match ids.contains(id) {
                true => Ok(id.clone()),
                false => {
                    let message =
                        format!("no pool named {name} has identity {id}; found: {}", all());
                    Err(ErrorBody::invalid("id", message))
                }
            };
        }
        let mut found = ids.iter();
        match (found.next(), found.next()) {
            (Some(id), None) => Ok(id.clone()),
            (None, _) => Err(self.nothing_named(name)),
            (Some(_), Some(_)) => {
                let message = format!(
                    "several pools are named {name}: say which by its identity, one of {}",
                    all()
                );
                Err(ErrorBody::invalid("id", message))
            }
        }
    }

    fn nothing_named(&self, name: &Name) -> ErrorBody {
        let newer = self.newer.iter();
        let newer = newer.filter(|(_, newer)| newer.pool_name == name.as_str());
        if let Some(message) = newer_in_words(newer) {
            return ErrorBody::new(ErrorCode::InvalidArgument, message);
        }
        let here = self.labels.values().map(|label| label.pool_name.as_str());
        let here = here.chain(self.newer.values().map(|newer| newer.pool_name.as_str()));
        let here: Vec<&str> = here.collect::<BTreeSet<&str>>().into_iter().collect();
        let here = match here.as_slice() {
            [] => "none".to_owned(),
            here => here.join(", "),
        };
        let mut message = format!("no free drive carries a pool named {name}; found: {here}");
        for (drive, label) in &self.damaged {
            let pool = &label.pool_name;
            message.push_str(&format!("; drive {drive}: a damaged label of pool {pool}"));
        }
        ErrorBody::new(ErrorCode::NotFound, self.beside(message))
    }

    /// Leaves only the drives that an import names, each of which must carry a pool of that name;
    /// all of them if it names none.
    pub fn restrict(
        &mut self,
        objects: &Objects,
        name: &Name,
        how: &PoolImport,
    ) -> Result<(), ErrorBody> {
        if how.drives.is_empty() {
            return Ok(());
        }
        for (index, drive) in how.drives.iter().enumerate() {
            let at = |error: ErrorBody| error.at(format!("drives[{index}]"));
            if how.drives[..index].contains(drive) {
                let message = format!("drive {drive} is named twice");
                return Err(at(ErrorBody::new(ErrorCode::InvalidArgument, message)));
            }
            let newer = self.newer.get_key_value(drive);
            if let Some(message) = newer_in_words(newer.into_iter()) {
                return Err(at(ErrorBody::new(ErrorCode::InvalidArgument, message)));
            }
            if let Some(label) = self.damaged.get(drive) {
                let pool = &label.pool_name;
                let message = format!("drive {drive}: its label, of pool {pool}, is damaged");
                return Err(at(ErrorBody::new(ErrorCode::InvalidArgument, message)));
            }
            let label = self.labels.get(drive);
            if label.is_none_or(|label| label.pool_name != name.as_str()) {
                // What is wrong with the drive itself comes first; a pool that is not open may
                // have it among its members.
                free_drive(objects, drive, pool_of(objects, drive)).map_err(at)?;
                let message = self.instead(objects, drive, name);
                return Err(at(ErrorBody::new(ErrorCode::InvalidArgument, message)));
            }
        }
        self.labels.retain(|drive, _| how.drives.contains(drive));
        self.damaged.clear();
        Ok(())
    }

    /// What a drive carries that is not of a pool of this name.
    fn instead(&self, objects: &Objects, drive: &Name, name: &Name) -> String {
        let label = self.labels.get(drive);
        let mut pools = objects.pools.iter();
        let open = pools.find(|(pool, entry)| {
            let carried = label.is_some_and(|it| hexadecimal(&it.pool.0) == entry.record.id);
            entry.offline.is_none() && (carried || pool_of(objects, drive) == Some(*pool))
        });
        match (open, label) {
            (Some((pool, _)), _) => {
                format!("drive {drive} carries pool {pool}, which is open here")
            }
            (None, Some(label)) => {
                let pool = &label.pool_name;
                format!("drive {drive} carries pool {pool} and no pool named {name}")
            }
            (None, None) => self.beside(format!("drive {drive} carries no pool named {name}")),
        }
    }

    /// The drives of which the pool `id` is to be opened: those of `labels`, which are of that
    /// pool, and those with damaged labels of it. What that means is for the pool to say.
    pub fn carriers<'a>(
        &self,
        id: &str,
        labels: impl Iterator<Item = (&'a Name, &'a Label)>,
    ) -> Result<Vec<Name>, String> {
        let mut drives = different(labels)?;
        let damaged = self.damaged.iter();
        let damaged = damaged.filter(|(_, label)| hexadecimal(&label.pool.0) == id);
        drives.extend(damaged.map(|(name, _)| name.clone()));
        Ok(drives)
    }
}

/// The drives of these labels, which are of one pool; never a drive and its copy.
fn different<'a>(labels: impl Iterator<Item = (&'a Name, &'a Label)>) -> Result<Vec<Name>, String> {
    let mut by_member: BTreeMap<_, &Name> = BTreeMap::new();
    for (name, label) in labels {
        if let Some(other) = by_member.insert(label.drive, name) {
            return Err(format!(
                "drives {other} and {name} are copies of one another, both member {}: remove the \
                 copy from the node, or wipe it",
                label.index
            ));
        }
    }
    Ok(by_member.into_values().cloned().collect())
}

/// What is wrong with drives of a pool of a later format, if there are any.
fn newer_in_words<'a>(newer: impl Iterator<Item = (&'a Name, &'a NewerFormat)>) -> Option<String> {
    let (drives, newer): (Vec<Name>, Vec<&NewerFormat>) =
        newer.map(|(drive, newer)| (drive.clone(), newer)).unzip();
    let latest = newer.iter().max_by_key(|newer| newer.version)?;
    Some(format!("drives {}: {latest}", list(&drives)))
}
