//! [`Nodes`]: the storage nodes, and where among them things are.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::{Name, Pool, PoolState, Snapshot, Volume};
use client::{Client, ClientError};
use tonic::Status;
use tracing::warn;
use uuid::Uuid;

use crate::names::{self, Taken};
use crate::refusal::{is_absent, status};

/// As many snapshots of one name as there can be before those of the next are asked for.
const NAMESAKES: u32 = 16;

/// The nodes that volumes are made on.
pub struct Nodes {
    clients: Vec<Client>,
    /// Where each volume was last: where it is looked for first, and no more.
    seen: Mutex<HashMap<Uuid, (Client, Name)>>,
}

/// Something, and the node that has it.
#[derive(Clone)]
pub struct At<T> {
    /// Speaks to the node.
    pub client: Client,
    /// What it has.
    pub found: T,
}

impl Nodes {
    /// These nodes.
    pub fn new(clients: Vec<Client>) -> Nodes {
        Nodes {
            clients,
            seen: Mutex::default(),
        }
    }

    /// Asks every node; gives what each answered.
    ///
    /// # Errors
    /// When any of them does not answer.
    pub fn all<T>(
        &self,
        ask: impl Fn(&Client) -> Result<T, ClientError>,
    ) -> Result<Vec<At<T>>, Status> {
        let answers = self.clients.iter().map(|client| {
            let found = ask(client).map_err(|error| status(&error))?;
            Ok(At {
                client: client.clone(),
                found,
            })
        });
        answers.collect()
    }

    /// Asks every node; those that do not answer are told of in the log and left out.
    ///
    /// # Errors
    /// When none of them answers.
    pub fn answering<T>(
        &self,
        ask: impl Fn(&Client) -> Result<T, ClientError>,
    ) -> Result<Vec<At<T>>, Status> {
        let mut answers = Vec::new();
        let mut lost = None;
        for client in &self.clients {
            match ask(client) {
                Ok(found) => answers.push(At {
                    client: client.clone(),
                    found,
                }),
                Err(error @ ClientError::Unreachable { .. }) => {
                    warn!(%error, "a node is left out");
                    lost = Some(error);
                }
                Err(error) => return Err(status(&error)),
            }
        }
        match lost {
            Some(error) if answers.is_empty() => Err(status(&error)),
            _ => Ok(answers),
        }
    }

    /// The volume that an identifier names.
    ///
    /// # Errors
    /// `NOT_FOUND` where every node has answered, `UNAVAILABLE` where one that may have it has not.
    pub fn volume(&self, identifier: &str) -> Result<At<Volume>, Status> {
        let absent = || Status::not_found(format!("no node has volume {identifier:?}"));
        let uuid = Uuid::try_parse(identifier).map_err(|_| absent())?;
        if uuid == Uuid::nil() {
            return Err(absent());
        }
        if let Some(found) = self.where_it_was(uuid) {
            return Ok(found);
        }
        let mut silent = None;
        for client in &self.clients {
            let volumes = match client.volumes() {
                Ok(volumes) => volumes.items,
                Err(error) => {
                    silent = Some(status(&error));
                    continue;
                }
            };
            // Whose pool cannot be read now: it may be any volume.
            let unknown = volumes.iter().find(|volume| volume.uuid == Uuid::nil());
            if let Some(unknown) = unknown {
                let why = unknown.reason.as_deref().unwrap_or_default();
                let message = format!("volume {} cannot be identified: {why}", unknown.name);
                silent = Some(Status::unavailable(message));
            }
            if let Some(found) = volumes.into_iter().find(|volume| volume.uuid == uuid) {
                let client = client.clone();
                let at = At { client, found };
                self.note(&at);
                return Ok(at);
            }
        }
        Err(silent.unwrap_or_else(absent))
    }

    fn where_it_was(&self, uuid: Uuid) -> Option<At<Volume>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (client, name) = seen.get(&uuid)?.clone();
        drop(seen);
        let found = client.volume(&name).ok();
        let found = found.filter(|volume| volume.uuid == uuid)?;
        Some(At { client, found })
    }

    /// Notes where a volume is.
    pub fn note(&self, at: &At<Volume>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (at.client.clone(), at.found.name.clone());
        seen.insert(at.found.uuid, place);
    }

    /// Forgets where a volume was that is no more.
    pub fn forget(&self, uuid: Uuid) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(&uuid);
    }

    /// The volume called `name`, on whichever node that answers.
    pub fn volume_called(&self, name: &Name) -> Result<Option<At<Volume>>, Status> {
        let asked = self.answering(|client| optional(client.volume(name)))?;
        Ok(first(asked))
    }

    /// The snapshot that an identifier names.
    ///
    /// # Errors
    /// As of [`Nodes::volume`]; and where several nodes have one of that name.
    pub fn snapshot(&self, identifier: &str) -> Result<At<Snapshot>, Status> {
        let absent = || Status::not_found(format!("no node has snapshot {identifier:?}"));
        let name = names::snapshot_of(identifier).ok_or_else(absent)?;
        let asked = self.all(|client| optional(client.snapshot(&name)))?;
        let mut found = asked.into_iter().filter_map(present);
        let one = found.next().ok_or_else(absent)?;
        match found.next() {
            None => Ok(one),
            Some(other) => Err(Status::failed_precondition(format!(
                "snapshot {identifier:?} is on {} and on {}: rename a pool",
                one.client.url(),
                other.client.url()
            ))),
        }
    }

    /// Snapshots whose names begin with `prefix`, the oldest first.
    pub fn snapshots_of(&self, prefix: &str) -> Result<Vec<At<Snapshot>>, Status> {
        let asked = self.answering(|client| {
            let mut matching = Vec::new();
            let mut after = prefix.to_owned();
            loop {
                let page = client.snapshots_after(&after, NAMESAKES)?;
                let begun = |snapshot: &Snapshot| snapshot.name.starts_with(prefix);
                let goes_on = page.items.last().is_some_and(begun);
                matching.extend(page.items.into_iter().filter(begun));
                match page.next.filter(|_| goes_on) {
                    Some(next) => after = next,
                    None => return Ok(matching),
                }
            }
        })?;
        let mut found: Vec<At<Snapshot>> = asked.into_iter().flat_map(each).collect();
        found.sort_by_key(|at| Taken::of(&at.found.name).map(|taken| taken.seconds));
        Ok(found)
    }

    /// Pools that can be written to, and of this name where one is asked for.
    pub fn pools(&self, name: Option<&Name>) -> Result<Vec<At<Pool>>, Status> {
        let asked = self.answering(Client::pools)?;
        let pools = asked.into_iter().flat_map(|at| {
            each(At {
                client: at.client,
                found: at.found.items,
            })
        });
        let usable = pools.filter(|at| {
            at.found.state != PoolState::Offline && name.is_none_or(|name| at.found.name == *name)
        });
        Ok(usable.collect())
    }
}

/// What a pool still has room for.
pub fn room(pool: &Pool) -> u64 {
    let taken = pool.used_bytes.saturating_add(pool.reserved_bytes);
    pool.usable_bytes.saturating_sub(taken)
}

fn each<T>(at: At<Vec<T>>) -> impl Iterator<Item = At<T>> {
    let At { client, found } = at;
    found.into_iter().map(move |found| At {
        client: client.clone(),
        found,
    })
}

fn present<T>(at: At<Option<T>>) -> Option<At<T>> {
    let At { client, found } = at;
    found.map(|found| At { client, found })
}

fn first<T>(asked: Vec<At<Option<T>>>) -> Option<At<T>> {
    asked.into_iter().find_map(present)
}

/// What a node has or has not.
pub fn optional<T>(asked: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
