//! Drives whose hosts manage their namespaces: who may, and what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use access::{AllowedHosts, Nqn};
use drive::NamespaceState;
use nvme::command::ALL_NAMESPACES;
use nvme_target::NamespaceChange;
use ssd::{NamespaceError, NamespaceRequest};

use super::{Layout, Places};
use crate::core::Core;
use crate::error::NodeError;
use crate::layout::administrator::{Administrator, identity};
use crate::volume::remote::VolumeId;

/// A drive that hosts administer.
pub(super) struct Administered {
    nqn: Nqn,
    hosts: BTreeSet<Nqn>,
    /// Namespaces that are attached to anyone: what serves them, and whom.
    attached: BTreeMap<u32, (VolumeId, BTreeSet<Nqn>)>,
}

impl Layout {
    /// Lets these hosts, and no others, administer a drive as the subsystem `nqn`. What a host
    /// attached is detached when it is not among them any more, and attached again at the first
    /// call after a start when it is.
    pub async fn set_administrators(
        &self,
        drive: String,
        nqn: Nqn,
        hosts: BTreeSet<Nqn>,
    ) -> Result<(), NodeError> {
        let mut places = self.places.lock().await;
        places.running()?;
        let home = places.drive_core(&drive)?;
        let before = places.administered.contains_key(&drive);
        self.show_drive(&places, home, &drive, &nqn, &hosts).await?;
        if hosts.is_empty() && !before {
            return Ok(());
        }
        let entry = places.administered.entry(drive.clone());
        let entry = entry.or_insert_with(|| Administered {
            nqn: nqn.clone(),
            hosts: BTreeSet::new(),
            attached: BTreeMap::new(),
        });
        let earlier = std::mem::replace(&mut entry.hosts, hosts.clone());
        for namespace in self.namespaces(home, &drive).await? {
            for host in &namespace.hosts {
                let known = host.parse::<Nqn>().ok().filter(|host| hosts.contains(host));
                match known {
                    Some(host) if earlier.contains(&host) => {}
                    Some(host) => {
                        self.publish(&mut places, &drive, &namespace, &host).await?;
                    }
                    None => self.forget_host(&mut places, &drive, host).await?,
                }
            }
        }
        if hosts.is_empty() {
            places.administered.remove(&drive);
            for index in 0..self.cores.len() {
                let nqn = nqn.clone();
                self.on(index, |core| async move {
                    core.remove_administration(&nqn).await
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Shows the drive on every core, or changes who sees it.
    async fn show_drive(
        &self,
        places: &Places,
        home: usize,
        drive: &str,
        nqn: &Nqn,
        hosts: &BTreeSet<Nqn>,
    ) -> Result<(), NodeError> {
        let shown = places.administered.contains_key(drive);
        let name = drive.to_owned();
        let facts = self.on(home, |core| async move { core.managed_facts(&name) });
        let model = facts.await?.model;
        for index in 0..self.cores.len() {
            let (node, first) = (self.node, self.cores.first().cloned());
            let (nqn, name, model) = (nqn.clone(), drive.to_owned(), model.clone());
            let allowed = AllowedHosts::List(hosts.iter().cloned().collect());
            let empty = hosts.is_empty();
            self.on(index, move |core| async move {
                if shown {
                    return Ok(core.target().set_allowed_hosts(&nqn, allowed)?);
                }
                if empty {
                    return Ok(());
                }
                let administrator = Rc::new(Administrator {
                    node,
                    first: first.ok_or(NodeError::Stopped)?,
                    name,
                    nqn: nqn.clone(),
                });
                core.add_administration(nqn, &model, allowed, administrator)
            })
            .await?;
        }
        Ok(())
    }

    /// Does what a host asks of a drive; gives the namespace concerned.
    pub async fn change_namespaces(
        &self,
        drive: String,
        host: Nqn,
        change: NamespaceChange,
    ) -> Result<u32, NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        let home = places.drive_core(&drive)?;
        let administered = places.administered.get(&drive);
        if administered.is_none_or(|entry| !entry.hosts.contains(&host)) {
            return Err(NodeError::NotAdministrator {
                drive,
                host: host.to_string(),
            });
        }
        let namespaces = self.namespaces(home, &drive).await?;
        let nsid = match change {
            NamespaceChange::Create { .. } => {
                self.create(&places, home, &drive, &namespaces, change)
                    .await?
            }
            NamespaceChange::Delete(ALL_NAMESPACES) => {
                for namespace in &namespaces {
                    places.unserved(&drive, &namespaces, namespace.nsid)?;
                }
                for namespace in &namespaces {
                    self.delete(&mut places, home, &drive, namespace).await?;
                }
                ALL_NAMESPACES
            }
            NamespaceChange::Delete(nsid) => {
                let namespace = find(&namespaces, nsid)?;
                places.unserved(&drive, &namespaces, nsid)?;
                self.delete(&mut places, home, &drive, namespace).await?;
                nsid
            }
            NamespaceChange::Attach(nsid) => {
                let namespace = find(&namespaces, nsid)?;
                places.unserved(&drive, &namespaces, nsid)?;
                self.attach(&mut places, home, &drive, namespace, &host)
                    .await?;
                nsid
            }
            NamespaceChange::Detach(nsid) => {
                find(&namespaces, nsid)?;
                let (name, from) = (drive.clone(), host.clone());
                let work =
                    move |core: Rc<Core>| async move { core.book_detachment(&name, nsid, &from) };
                self.on(home, work).await?;
                self.withdraw(&mut places, home, &drive, nsid, &host)
                    .await?;
                nsid
            }
        };
        let told = self.on(home, move |core| async move {
            core.tell_change(drive, &host, change, nsid);
            Ok(())
        });
        told.await?;
        Ok(nsid)
    }

    /// Creates a namespace. A volume is the lowest namespace of its drive: none may come below it.
    async fn create(
        &self,
        places: &Places,
        home: usize,
        drive: &str,
        namespaces: &[NamespaceState],
        change: NamespaceChange,
    ) -> Result<u32, NodeError> {
        let NamespaceChange::Create {
            size_blocks,
            capacity_blocks,
            format,
            shared,
        } = change
        else {
            return Err(NamespaceError::Empty.into());
        };
        if let Some(user) = places.user(drive)
            && namespaces.first().is_none_or(|first| first.nsid > 1)
        {
            let drive = drive.to_owned();
            return Err(NodeError::DriveInUse { drive, user });
        }
        let request = NamespaceRequest {
            size_blocks,
            capacity_blocks,
            format,
            shared,
        };
        let name = drive.to_owned();
        let work = move |core: Rc<Core>| async move { core.create_namespace(&name, request).await };
        Ok(self.on(home, work).await?.0)
    }

    /// Deletes a namespace after taking it from every host.
    async fn delete(
        &self,
        places: &mut Places,
        home: usize,
        drive: &str,
        namespace: &NamespaceState,
    ) -> Result<(), NodeError> {
        let nsid = namespace.nsid;
        for host in &namespace.hosts {
            if let Ok(host) = host.parse::<Nqn>() {
                self.withdraw(places, home, drive, nsid, &host).await?;
            }
        }
        let name = drive.to_owned();
        let work = move |core: Rc<Core>| async move { core.delete_namespace(&name, nsid).await };
        self.on(home, work).await?;
        Ok(())
    }

    async fn attach(
        &self,
        places: &mut Places,
        home: usize,
        drive: &str,
        namespace: &NamespaceState,
        host: &Nqn,
    ) -> Result<(), NodeError> {
        let (name, to, nsid) = (drive.to_owned(), host.clone(), namespace.nsid);
        let work = move |core: Rc<Core>| async move { core.book_attachment(&name, nsid, &to) };
        self.on(home, work).await?;
        let published = self.publish(places, drive, namespace, host).await;
        if published.is_err() {
            let (name, to) = (drive.to_owned(), host.clone());
            let work = move |core: Rc<Core>| async move { core.book_detachment(&name, nsid, &to) };
            self.on(home, work).await?;
        }
        published
    }

    /// Serves a namespace to a host, from every core.
    async fn publish(
        &self,
        places: &mut Places,
        drive: &str,
        namespace: &NamespaceState,
        host: &Nqn,
    ) -> Result<(), NodeError> {
        let (home, nsid) = (places.drive_core(drive)?, namespace.nsid);
        let next = places.next_volume;
        let entry = places.administered_mut(drive)?;
        let nqn = entry.nqn.clone();
        let id = entry.attached.get(&nsid).map_or(next, |(id, _)| *id);
        if id == next {
            let name = drive.to_owned();
            let work = move |core: Rc<Core>| async move { core.open_namespace(id, &name, nsid) };
            let geometry = self.on(home, work).await?;
            for other in self.others(home) {
                self.make_proxy(other, id, home, geometry).await?;
            }
            entry.attached.insert(nsid, (id, BTreeSet::new()));
            places.next_volume += 1;
        }
        let identity = identity(&nqn, nsid, namespace.ordinal);
        for index in 0..self.cores.len() {
            let (nqn, host) = (nqn.clone(), host.clone());
            let work = move |core: Rc<Core>| async move {
                core.attach_namespace(id, (&nqn, &host), nsid, identity)
            };
            self.on(index, work).await?;
        }
        let entry = places.administered_mut(drive)?;
        if let Some((_, hosts)) = entry.attached.get_mut(&nsid) {
            hosts.insert(host.clone());
        }
        Ok(())
    }

    /// Stops serving a namespace to a host; closes it with the last.
    async fn withdraw(
        &self,
        places: &mut Places,
        home: usize,
        drive: &str,
        nsid: u32,
        host: &Nqn,
    ) -> Result<(), NodeError> {
        let entry = places.administered_mut(drive)?;
        let Some((id, hosts)) = entry.attached.get_mut(&nsid) else {
            return Ok(());
        };
        if !hosts.remove(host) {
            return Ok(());
        }
        let (id, last, nqn) = (*id, hosts.is_empty(), entry.nqn.clone());
        for index in 0..self.cores.len() {
            let (nqn, host) = (nqn.clone(), host.clone());
            let work =
                move |core: Rc<Core>| async move { core.detach_namespace(&nqn, &host, nsid).await };
            self.on(index, work).await?;
        }
        if last {
            entry.attached.remove(&nsid);
            let name = drive.to_owned();
            let work = move |core: Rc<Core>| async move { core.close_namespace(id, &name).await };
            self.on(home, work).await?;
            self.drop_volume(id).await?;
        }
        Ok(())
    }

    /// Takes everything of a drive from a host that administers it no longer.
    async fn forget_host(
        &self,
        places: &mut Places,
        drive: &str,
        host: &str,
    ) -> Result<(), NodeError> {
        let home = places.drive_core(drive)?;
        if let Ok(host) = host.parse::<Nqn>() {
            let attached: Vec<u32> = places
                .administered_mut(drive)?
                .attached
                .keys()
                .copied()
                .collect();
            for nsid in attached {
                self.withdraw(places, home, drive, nsid, &host).await?;
            }
        }
        let (name, host) = (drive.to_owned(), host.to_owned());
        let work = move |core: Rc<Core>| async move { core.forget_host(&name, &host) };
        self.on(home, work).await
    }

    async fn namespaces(&self, home: usize, drive: &str) -> Result<Vec<NamespaceState>, NodeError> {
        let name = drive.to_owned();
        let facts = self.on(home, |core| async move { core.managed_facts(&name) });
        Ok(facts.await?.namespaces)
    }

    /// Refuses a drive as a volume's when its lowest namespace is attached to a host.
    pub(super) async fn check_unattached(
        &self,
        places: &Places,
        drive: &str,
    ) -> Result<(), NodeError> {
        if !places.administered.contains_key(drive) {
            return Ok(());
        }
        let home = places.drive_core(drive)?;
        match self.namespaces(home, drive).await?.first() {
            Some(first) => places.unattached(drive, first.nsid),
            None => Ok(()),
        }
    }
}

impl Places {
    fn administered_mut(&mut self, drive: &str) -> Result<&mut Administered, NodeError> {
        let found = self.administered.get_mut(drive);
        found.ok_or_else(|| NodeError::UnknownDrive(drive.to_owned()))
    }

    /// Refuses a namespace that is attached to a host.
    pub(super) fn unattached(&self, drive: &str, nsid: u32) -> Result<(), NodeError> {
        let entry = self.administered.get(drive);
        let attached = entry.and_then(|entry| entry.attached.get(&nsid));
        match attached.and_then(|(_, hosts)| hosts.first()) {
            None => Ok(()),
            Some(host) => Err(NodeError::NamespaceAttached {
                drive: drive.to_owned(),
                nsid,
                host: host.to_string(),
            }),
        }
    }

    /// Refuses the namespace that a volume uses as the drive.
    fn unserved(
        &self,
        drive: &str,
        namespaces: &[NamespaceState],
        nsid: u32,
    ) -> Result<(), NodeError> {
        let first = namespaces.first().map(|first| first.nsid);
        match self.user(drive) {
            Some(user) if first == Some(nsid) => Err(NodeError::NamespaceServed {
                drive: drive.to_owned(),
                nsid,
                user,
            }),
            _ => Ok(()),
        }
    }
}

fn find(namespaces: &[NamespaceState], nsid: u32) -> Result<&NamespaceState, NodeError> {
    let found = namespaces.iter().find(|namespace| namespace.nsid == nsid);
    found.ok_or_else(|| NamespaceError::Unknown(nsid).into())
}
