//! Which volumes share a subsystem, and what it is called. Each of them has its own list of hosts.

use api::{ErrorBody, ErrorCode, Name, VolumeSpec};
use node::{NAMESPACE_ID_MAX, NQN_PREFIX};

use crate::control::tenants::grants::{Asker, is_hidden};
use crate::control::words::in_use;

use crate::control::{Control, Objects, VolumeEntry};
use crate::state::VolumeRecord;

impl Control {
    /// A volume that has a subsystem to itself and a group must not share one: neither a name nor
    /// an NQN, which a volume that was renamed keeps. Nor are there groups of several tenants.
    pub(in crate::control) fn clash(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        name: &Name,
        spec: &VolumeSpec,
    ) -> Result<(), ErrorBody> {
        let group = spec.subsystem.as_ref().map(|group| self.nqn(group));
        let clashes = |(other, volume): &(&Name, &VolumeEntry)| {
            let record = &volume.record;
            match (&spec.subsystem, &record.subsystem) {
                (Some(wanted), None) => *other == wanted || group.as_ref() == Some(&record.nqn),
                (None, Some(existing)) => name == existing,
                (Some(wanted), Some(existing)) => {
                    wanted == existing && is_hidden(asker, record.tenant.as_ref())
                }
                (None, None) => false,
            }
        };
        let Some((other, volume)) = objects.volumes.iter().find(clashes) else {
            return Ok(());
        };
        let hidden = is_hidden(asker, volume.record.tenant.as_ref());
        let (field, message) = match &spec.subsystem {
            Some(group) if hidden => ("subsystem", format!("subsystem {group} is taken")),
            None if hidden => ("name", format!("{name} is taken: choose another name")),
            Some(group) => {
                let message = format!("volume {other} has subsystem {group} to itself");
                ("subsystem", message)
            }
            None => {
                let message =
                    format!("{name} is the subsystem of volume {other}: choose another name");
                ("name", message)
            }
        };
        Err(in_use(message).at(field.to_owned()))
    }

    /// Refuses one volume more than a subsystem can have.
    pub(in crate::control) fn room_in_subsystem(
        &self,
        objects: &Objects,
        spec: &VolumeSpec,
    ) -> Result<(), ErrorBody> {
        match &spec.subsystem {
            Some(group) => room_for_one(group, members(objects, &self.nqn(group)).count()),
            None => Ok(()),
        }
    }

    /// The NQN of a subsystem of this node.
    pub(in crate::control) fn nqn(&self, subsystem: &Name) -> String {
        format!("{NQN_PREFIX}:{}:{subsystem}", self.identity.name)
    }
}

/// Refuses one volume more in a subsystem that has `found`.
fn room_for_one(group: &Name, found: usize) -> Result<(), ErrorBody> {
    if found < NAMESPACE_ID_MAX as usize {
        return Ok(());
    }
    let message = format!("subsystem {group} has {found} volumes; allowed: {NAMESPACE_ID_MAX}");
    Err(ErrorBody::new(ErrorCode::OutOfSpace, message).at("subsystem".to_owned()))
}

/// Volumes of one subsystem share its queues and its number of namespaces, so they have one tenant.
pub(in crate::control) fn group_agrees(
    objects: &Objects,
    spec: &VolumeSpec,
) -> Result<(), ErrorBody> {
    let Some(group) = &spec.subsystem else {
        return Ok(());
    };
    let mut volumes = objects.volumes.iter();
    let member = volumes.find(|(_, volume)| volume.record.subsystem.as_ref() == Some(group));
    match member {
        Some((name, member)) if member.record.tenant != spec.tenant => {
            let message = format!(
                "volumes of one subsystem belong to the same tenant; {name} of subsystem {group} \
                 belongs to: {}",
                member.record.tenant.as_ref().map_or("none", Name::as_str)
            );
            Err(ErrorBody::invalid("tenant", message))
        }
        _ => Ok(()),
    }
}

/// The volumes of a subsystem.
pub(in crate::control) fn members<'a>(
    objects: &'a Objects,
    nqn: &str,
) -> impl Iterator<Item = &'a VolumeRecord> {
    let volumes = objects.volumes.values().map(|volume| &volume.record);
    volumes.filter(move |record| record.nqn == nqn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subsystem_has_so_many_volumes_and_no_more() {
        let group: Name = "group".parse().unwrap();
        assert_eq!(NAMESPACE_ID_MAX, 8192, "as the manual says");
        assert!(room_for_one(&group, 8191).is_ok());
        let refused = room_for_one(&group, 8192).unwrap_err();
        assert_eq!(refused.code, ErrorCode::OutOfSpace);
        assert_eq!(refused.field.as_deref(), Some("subsystem"));
        assert!(refused.message.ends_with("has 8192 volumes; allowed: 8192"));
    }
}
