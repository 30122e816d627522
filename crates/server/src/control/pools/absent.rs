//! What an import says of members that are absent.

use api::{Name, Size};
use node::{AbsentMember, NodeError, PoolError};

use crate::control::Objects;
use crate::control::drives::specs::description;
use crate::state::PoolRecord;
use crate::words::hexadecimal;

/// Why an opening with the drives `used` was refused, if that is for want of members: each of them
/// by what it is known as, and what can be done.
pub(super) fn in_words(
    objects: &Objects,
    (pool, record): (&Name, Option<&PoolRecord>),
    used: &[Name],
    error: &NodeError,
) -> Option<String> {
    let NodeError::Pool {
        error: PoolError::MembersAbsent { members, absent },
        ..
    } = error
    else {
        return None;
    };
    let described: Vec<String> = absent
        .iter()
        .map(|member| {
            let known = match member.given.and_then(|position| used.get(position)) {
                Some(drive) => Some(format!(
                    "drive {drive}, whose label is damaged, unreadable or of another past"
                )),
                None => last_known(objects, record, member),
            };
            let known = known.map(|known| format!("{known}; ")).unwrap_or_default();
            let (size, id) = (Size(member.bytes), hexadecimal(&member.id.0));
            format!("member {} ({known}{size}, identity {id})", member.index)
        })
        .collect();
    let them = if absent.len() == 1 { "it" } else { "them" };
    Some(format!(
        "pool {pool} lacks {} of its {members} members: {}; connect {them} and import again, or \
         import the pool without {them} with --degraded: what is on {them} is then rebuilt on the \
         others",
        absent.len(),
        described.join(", ")
    ))
}

/// What a member was called here, and where it was.
fn last_known(
    objects: &Objects,
    record: Option<&PoolRecord>,
    member: &AbsentMember,
) -> Option<String> {
    let name = record?.members.get(&hexadecimal(&member.id.0))?;
    let entry = objects.drives.get(name);
    Some(match entry {
        Some(entry) => format!("drive {name}, {}", description(&entry.record.spec)),
        None => format!("drive {name}"),
    })
}
