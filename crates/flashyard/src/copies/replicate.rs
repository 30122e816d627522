//! One copy of a replication: the replica on another node becomes what the volume is now.
//!
//! A snapshot is sent and received by one process, so nothing but data goes over the network. The
//! newest snapshot that both nodes have is never deleted before both have the next one.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, SystemTime};

use api::{ErrorCode, Name, Snapshot, SnapshotSpec, Volume};
use client::{Client, ClientError, Login};
use server::replications::{Copied, Order, Reach, Watch};
use uuid::Uuid;

use super::error::CopyError;
use super::onlooker::Onlooker;
use super::receive::in_pool;
use super::{Access, PREFIX, Receive, SendSnapshot, Tls, name};

/// The longest part of the volume's name in those of snapshots: there are 28 characters behind it.
const STEM_BYTES_MAX: usize = 35;

/// Makes the copy that a node has to make; blocks.
///
/// # Errors
/// Why there is none, in words for people.
pub fn replicate(order: &Order, watch: &Watch) -> Result<Copied, String> {
    let id = order.record.volume.simple().to_string();
    let copy = OneCopy {
        aside: name(&format!("{PREFIX}{}", &id[..12])).map_err(here)?,
        own: client_of(&order.own).map_err(here)?,
        target: client_of(&order.target).map_err(|error| error.to_string())?,
        order,
        watch,
    };
    copy.make()
}

/// A copy that is being made.
struct OneCopy<'a> {
    /// What is called so on either node is there for one copy of this replication.
    aside: Name,
    own: Client,
    target: Client,
    order: &'a Order,
    watch: &'a Watch,
}

/// Snapshots of the volume here, and of its replica there.
struct Both {
    here: Vec<Snapshot>,
    there: Vec<Snapshot>,
}

impl Both {
    /// The newest snapshot that is on both nodes, as it is here.
    fn common(&self) -> Option<&Snapshot> {
        let there: BTreeSet<Uuid> = self.there.iter().map(|it| it.uuid).collect();
        let both = self.here.iter().filter(|it| there.contains(&it.uuid));
        both.max_by(|one, other| one.taken.cmp(&other.taken))
    }
}

impl OneCopy<'_> {
    /// The other node is asked first: while it does not answer, nothing is made here.
    fn make(&self) -> Result<Copied, String> {
        let replica = self.replica().map_err(|error| self.there(error))?;
        let volume = self.own.volume(&self.order.volume).map_err(here)?;
        let both = self.snapshots(&volume, replica.as_ref())?;
        let base = both.common();
        let replica = self.checked(replica, &both, base)?;
        self.clear_own()?;
        let is_base = |name: &Name| base.is_some_and(|base| base.name == name.as_str());
        let taken = self.order.record.snapshots.iter().cloned();
        // A base that somebody else took is kept by whoever did.
        let (mut snapshots, old): (Vec<Name>, Vec<Name>) = taken.partition(is_base);
        self.delete(&both, &old)?;
        let (snapshot, at) = self.take(&volume, &both, &mut snapshots)?;
        self.transfer(&volume, replica.as_ref(), base, &snapshot)?;
        // From now on both have the new one. What cannot be deleted now is by the next copy.
        let newest = snapshots.split_off(snapshots.len() - 1);
        if self.delete(&both, &snapshots).is_ok() {
            snapshots.clear();
        }
        snapshots.extend(newest);
        Ok(Copied { snapshots, at })
    }

    /// The replica, whatever it is called by now.
    fn replica(&self) -> Result<Option<Volume>, ClientError> {
        let volumes = self.target.volumes()?.items;
        let is = |it: &Volume| it.replica_of == Some(self.order.record.volume);
        Ok(volumes.into_iter().find(is))
    }

    fn snapshots(&self, volume: &Volume, replica: Option<&Volume>) -> Result<Both, String> {
        let mut here = self.own.snapshots().map_err(here)?.items;
        here.retain(|it| it.volume.as_ref() == Some(&volume.name));
        let mut there = Vec::new();
        if let Some(replica) = replica {
            there = self
                .target
                .snapshots()
                .map_err(|error| self.there(error))?
                .items;
            there.retain(|it| it.volume.as_ref() == Some(&replica.name));
        }
        Ok(Both { here, there })
    }

    /// The replica that the copy is for; none where all of the volume is to be sent.
    fn checked(
        &self,
        replica: Option<Volume>,
        both: &Both,
        base: Option<&Snapshot>,
    ) -> Result<Option<Volume>, String> {
        let anew = "to begin anew, remove the replication, delete what is there, and set it again";
        match replica {
            Some(replica) if base.is_some() => Ok(Some(replica)),
            // The very first copy was cut short between its last two steps.
            Some(replica) if both.there.is_empty() && self.order.record.copied.is_none() => {
                self.target
                    .delete_volume(&replica.name, false)
                    .map_err(|error| self.there(error))?;
                Ok(None)
            }
            Some(replica) => Err(self.there(format_args!(
                "volume {} has no snapshot in common with volume {} here any more; {anew}",
                replica.name, self.order.volume
            ))),
            None if self.order.record.copied.is_some() => Err(self.there(format_args!(
                "there is no replica of volume {} any more: it was promoted or deleted; {anew}",
                self.order.volume
            ))),
            None => Ok(None),
        }
    }

    /// Deletes what an earlier copy has left here that was killed.
    fn clear_own(&self) -> Result<(), String> {
        unless_gone(self.own.delete_volume(&self.aside, true)).map_err(here)?;
        unless_gone(self.own.remove_host(&self.aside)).map_err(here)
    }

    /// The same there; a receive finds its volume by itself.
    fn clear_host_there(&self) -> Result<(), ClientError> {
        match self.target.remove_host(&self.aside) {
            // That volume still has it.
            Err(ClientError::Refused(body)) if body.code == ErrorCode::InUse => Ok(()),
            done => unless_gone(done),
        }
    }

    /// Deletes snapshots of these names here, and their copies there before.
    fn delete(&self, both: &Both, names: &[Name]) -> Result<(), String> {
        for old in names {
            let found = both.here.iter().find(|it| it.name == old.as_str());
            let Some(found) = found else {
                continue;
            };
            for copy in both.there.iter().filter(|it| it.uuid == found.uuid) {
                let copy = in_pool(copy).map_err(|error| self.there(error))?;
                let deleted = unless_gone(self.target.delete_snapshot(&copy));
                deleted.map_err(|error| self.there(error))?;
            }
            let own = in_pool(found).map_err(here)?;
            unless_gone(self.own.delete_snapshot(&own)).map_err(here)?;
        }
        Ok(())
    }

    /// Takes the snapshot that is sent, once it is noted behind `snapshots`; and says when.
    fn take(
        &self,
        volume: &Volume,
        both: &Both,
        snapshots: &mut Vec<Name>,
    ) -> Result<(Snapshot, u64), String> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at = since.unwrap_or_default().as_secs();
        let free = (at..).find_map(|second| {
            let name = snapshot_name(&volume.name, second).ok()?;
            let is_there = both.here.iter().any(|it| it.name == name.as_str());
            (!is_there).then_some(name)
        });
        let free = free.ok_or("no name is left for a snapshot")?;
        snapshots.push(free.clone());
        self.watch.note(snapshots)?;
        let spec = SnapshotSpec {
            volume: volume.name.clone(),
            copy_of: None,
        };
        let taken = self.own.create_snapshot(&free, &spec).map_err(here)?;
        Ok((taken, at))
    }

    /// Sends on one thread what is received on this one.
    fn transfer(
        &self,
        volume: &Volume,
        replica: Option<&Volume>,
        base: Option<&Snapshot>,
        snapshot: &Snapshot,
    ) -> Result<(), String> {
        let send = self.send(base, snapshot).map_err(here)?;
        let receive = self.receive(volume, replica).map_err(here)?;
        self.clear_host_there().map_err(|error| self.there(error))?;
        let pipe = std::io::pipe().map_err(|error| format!("this node: a pipe: {error}"))?;
        let (input, output) = (OwnedFd::from(pipe.0), OwnedFd::from(pipe.1));
        let onlooker = || Onlooker::Node(self.watch.clone());
        let (sent, received) = thread::scope(|scope| {
            let sender = thread::Builder::new().name("replication".to_owned());
            let sending = || send.send(&self.own, File::from(output), onlooker).map(drop);
            let sender = sender.spawn_scoped(scope, sending);
            let received = receive.receive(&self.target, File::from(input), onlooker);
            let sent = sender.map(|sender| sender.join());
            (sent, received.map(drop))
        });
        let sent = sent.map_err(|error| format!("starting a thread: {error}"))?;
        let sent = sent.map_err(|_| "sending ended by a fault of its own".to_owned())?;
        match (sent, received) {
            (Ok(()), Ok(())) => Ok(()),
            // Whoever reads has gone, and says why.
            (Ok(()) | Err(CopyError::Output(_)), Err(error)) => Err(self.there(error)),
            (Err(error), _) => Err(here(error)),
        }
    }

    fn send(
        &self,
        base: Option<&Snapshot>,
        snapshot: &Snapshot,
    ) -> Result<SendSnapshot, CopyError> {
        Ok(SendSnapshot {
            name: in_pool(snapshot)?,
            since: base.map(in_pool).transpose()?,
            to: None,
            overwrite: false,
            access: Access {
                called: Some(self.aside.clone()),
                ..Access::default()
            },
            plain: true,
            bandwidth: self.order.record.spec.bandwidth,
        })
    }

    fn receive(&self, volume: &Volume, replica: Option<&Volume>) -> Result<Receive, CopyError> {
        let spec = &self.order.record.spec;
        let called = replica.map(|replica| &replica.name);
        let called = called.or(spec.replica.as_ref()).unwrap_or(&volume.name);
        let is_secure = spec.to.starts_with("https:");
        Ok(Receive {
            name: called.clone(),
            pool: replica.is_none().then(|| spec.pool.clone()),
            snapshot: None,
            allow: Vec::new(),
            tenant: volume.tenant.clone(),
            restart: true,
            from: None,
            access: Access {
                called: Some(self.aside.clone()),
                tls: match is_secure && !spec.in_the_clear {
                    true => Tls::Always,
                    false => Tls::IfServed,
                },
                ..Access::default()
            },
            replica_of: Some(self.order.record.volume),
        })
    }

    fn there(&self, error: impl Display) -> String {
        format!("{}: {error}", self.order.target.url)
    }
}

fn here(error: impl Display) -> String {
    format!("this node: {error}")
}

fn client_of(reach: &Reach) -> Result<Client, ClientError> {
    let certificate = reach.certificate.as_deref().map(str::parse);
    let wrong = |reason| ClientError::Address {
        url: reach.url.clone(),
        reason,
    };
    Client::with(&Login {
        url: reach.url.clone(),
        token: Some(reach.token.clone()),
        certificate: certificate.transpose().map_err(wrong)?,
    })
}

/// What is to be deleted may be gone already.
fn unless_gone(done: Result<(), ClientError>) -> Result<(), ClientError> {
    match done {
        Err(ClientError::Refused(body)) if body.code == ErrorCode::NotFound => Ok(()),
        done => done,
    }
}

/// What the snapshot is called that is taken at `seconds` since 1970.
fn snapshot_name(volume: &Name, seconds: u64) -> Result<Name, CopyError> {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let time = time.unwrap_or(SystemTime::UNIX_EPOCH);
    // 2026-11-28T14:00:00Z, in what names may consist of.
    let time = humantime::format_rfc3339_seconds(time).to_string();
    let time: String = time.chars().filter(char::is_ascii_alphanumeric).collect();
    let stem: String = volume.as_str().chars().take(STEM_BYTES_MAX).collect();
    name(&format!("{stem}.replicated-{}", time.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(called: &str, number: u128, taken: &str) -> Snapshot {
        Snapshot {
            name: called.to_owned(),
            pool: "p".parse().unwrap(),
            volume: None,
            bytes: 4096,
            taken: Some(taken.to_owned()),
            uuid: Uuid::from_u128(number),
        }
    }

    #[test]
    fn the_newest_that_both_have_is_the_base() {
        let times = ["2026-11-28T14:00:00Z", "2026-11-28T14:05:00Z"];
        let here = vec![
            snapshot("z", 1, times[0]),
            snapshot("a", 2, times[1]),
            snapshot("only-here", 3, "2026-11-28T14:10:00Z"),
        ];
        let copies = [1, 2].map(|number| snapshot("copy", number, times[0]));
        let mut both = Both {
            here,
            there: copies.to_vec(),
        };
        assert_eq!(both.common().map(|it| it.name.as_str()), Some("a"));
        both.there.pop();
        assert_eq!(both.common().map(|it| it.name.as_str()), Some("z"));
        both.there.clear();
        assert!(both.common().is_none());
    }

    #[test]
    fn names_of_snapshots_tell_the_second_and_fit() {
        let name = snapshot_name(&"data".parse().unwrap(), 1_795_716_450).unwrap();
        assert_eq!(name.as_str(), "data.replicated-20261126t180730z");
        let longest: Name = "x".repeat(63).parse().unwrap();
        assert_eq!(snapshot_name(&longest, 0).unwrap().as_str().len(), 63);
    }
}
