//! [`Subsystem`]: namespaces under one name, on this core, and which hosts may see them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use access::{AllowedHosts, Nqn};
use block::BlockDevice;

use crate::administration::Administration;
use crate::controller::Controller;
use crate::errors::Errors;
use crate::guests::Guests;
use crate::home::{Account, Identifiers};
use crate::in_flight::InFlight;
use crate::namespace::Namespace;
use crate::paths::{AnaGroupId, GROUPS_MAX};
use crate::per_core::Core;
use crate::report::CloseReason;
use crate::settings::SubsystemSettings;
use crate::subsystem_reset::Resetters;
use crate::view::View;

/// A subsystem on this core.
pub(crate) struct Subsystem<D> {
    pub settings: Rc<SubsystemSettings>,
    /// Hosts that may connect and see every namespace.
    allowed: RefCell<AllowedHosts>,
    /// Hosts that may see some.
    guests: RefCell<Guests>,
    /// Every one, unless it is a drive: then each host has those that it attached.
    pub namespaces: RefCell<BTreeMap<u32, Rc<Namespace<D>>>>,
    /// What its hosts administer, where it is a drive.
    pub drive: Option<Rc<dyn Administration>>,
    /// What each host sees, as long as it is connected; of a drive also while it has attached
    /// something.
    views: RefCell<BTreeMap<Nqn, Rc<View<D>>>>,
    pub errors: Rc<Errors>,
    pub resetters: Resetters,
}

impl<D: BlockDevice> Subsystem<D> {
    pub fn new(
        settings: SubsystemSettings,
        drive: Option<Rc<dyn Administration>>,
        identifiers: Identifiers,
    ) -> Subsystem<D> {
        Subsystem {
            allowed: RefCell::new(settings.allowed.clone()),
            settings: Rc::new(settings),
            guests: RefCell::default(),
            namespaces: RefCell::default(),
            drive,
            views: RefCell::default(),
            errors: Rc::new(Errors::new(identifiers)),
            resetters: Resetters::default(),
        }
    }

    pub fn namespace(&self, nsid: u32) -> Option<Rc<Namespace<D>>> {
        self.namespaces.borrow().get(&nsid).cloned()
    }

    /// True when its hosts make room for this ANA group beside those that it has.
    pub fn has_room_for(&self, group: AnaGroupId) -> bool {
        let namespaces = self.namespaces.borrow();
        let mut groups = namespaces.values().map(|found| found.settings.group);
        groups.any(|found| found == group) || groups_of(&namespaces).len() < GROUPS_MAX
    }

    /// Every namespace; of a drive one for each host that has it.
    pub fn all_namespaces(&self) -> Vec<(u32, Rc<Namespace<D>>)> {
        let own = |namespaces: &RefCell<BTreeMap<u32, Rc<Namespace<D>>>>| {
            let namespaces = namespaces.borrow();
            let all = namespaces.iter();
            all.map(|(nsid, namespace)| (*nsid, Rc::clone(namespace)))
                .collect::<Vec<_>>()
        };
        match self.drive {
            None => own(&self.namespaces),
            Some(_) => {
                let views = self.views.borrow();
                views
                    .values()
                    .flat_map(|view| own(&view.namespaces))
                    .collect()
            }
        }
    }

    /// The commands in flight on a namespace, of all hosts that have it.
    pub fn in_flight(&self, nsid: u32) -> Option<Rc<InFlight>> {
        let views = self.views.borrow();
        let attached = || views.values().find_map(|view| view.namespace(nsid));
        let found = self.namespace(nsid).or_else(attached)?;
        Some(Rc::clone(&found.in_flight))
    }

    /// True when a host may connect.
    pub fn admits(&self, host: &Nqn) -> bool {
        self.allowed.borrow().admits(host) || self.guests.borrow().admits(host)
    }

    /// True when a host may connect whatever it is called.
    pub fn admits_anybody(&self) -> bool {
        matches!(&*self.allowed.borrow(), AllowedHosts::Any)
            || self.guests.borrow().admits_anybody()
    }

    /// True when a list names a host: it is let in as itself, not as anybody.
    pub fn names(&self, host: &Nqn) -> bool {
        let allowed = self.allowed.borrow();
        let listed = matches!(&*allowed, AllowedHosts::List(hosts) if hosts.contains(host));
        listed || self.guests.borrow().names(host)
    }

    /// True when a host may see a namespace, if there is one of that number.
    pub fn shows(&self, nsid: u32, host: &Nqn) -> bool {
        self.allowed.borrow().admits(host) || self.guests.borrow().sees(host, nsid)
    }

    /// Changes which hosts may connect and see every namespace; gives those that connected hosts
    /// have or lack now, with these hosts.
    pub fn set_allowed(&self, allowed: AllowedHosts) -> Vec<(u32, BTreeSet<Nqn>)> {
        self.allowed.replace(allowed);
        let nsids: Vec<u32> = self.namespaces.borrow().keys().copied().collect();
        let changed = nsids.into_iter().map(|nsid| (nsid, self.refresh(nsid)));
        changed.filter(|(_, hosts)| !hosts.is_empty()).collect()
    }

    /// Changes which hosts may see a namespace; gives those whose view of it changed.
    pub fn set_guests(&self, nsid: u32, allowed: AllowedHosts) -> BTreeSet<Nqn> {
        self.guests.borrow_mut().set(nsid, allowed);
        self.refresh(nsid)
    }

    /// Adds a namespace; gives the hosts that see it.
    pub fn insert(&self, namespace: Rc<Namespace<D>>) -> BTreeSet<Nqn> {
        let nsid = namespace.settings.nsid;
        self.namespaces.borrow_mut().insert(nsid, namespace);
        self.refresh(nsid)
    }

    /// Takes a namespace out; gives the hosts that saw it.
    pub fn remove(&self, nsid: u32) -> Option<(Rc<Namespace<D>>, BTreeSet<Nqn>)> {
        let namespace = self.namespaces.borrow_mut().remove(&nsid)?;
        self.guests.borrow_mut().remove(nsid);
        self.errors.forget(nsid);
        Some((namespace, self.refresh(nsid)))
    }

    /// Takes all namespaces out, those that hosts have attached included.
    pub fn remove_all(&self) -> Vec<(u32, Rc<Namespace<D>>)> {
        let all = self.all_namespaces();
        self.namespaces.take();
        for view in self.views.take().into_values() {
            view.namespaces.take();
        }
        all
    }

    /// Hosts that see a namespace now.
    pub fn viewers(&self, nsid: u32) -> BTreeSet<Nqn> {
        let views = self.views.borrow();
        let viewers = views.values().filter(|view| view.namespace(nsid).is_some());
        viewers.map(|view| view.host.clone()).collect()
    }

    /// Brings what connected hosts see of a namespace up to date; gives those for which it changed.
    fn refresh(&self, nsid: u32) -> BTreeSet<Nqn> {
        let namespace = self.namespace(nsid);
        let mut changed = BTreeSet::new();
        for (host, view) in self.views.borrow().iter() {
            let seen = namespace.clone().filter(|_| self.shows(nsid, host));
            if view.put(nsid, seen) {
                changed.insert(host.clone());
            }
        }
        changed
    }

    /// What `host`, which has been admitted, sees of it. Views that nobody uses are given up by the
    /// way.
    pub fn of_host(&self, host: &Nqn) -> Rc<View<D>> {
        let mut views = self.views.borrow_mut();
        if let Some(view) = views.get(host) {
            return Rc::clone(view);
        }
        views.retain(|_, view| {
            let has_attached = self.drive.is_some() && !view.namespaces.borrow().is_empty();
            has_attached || Rc::strong_count(view) > 1
        });
        let (settings, errors) = (Rc::clone(&self.settings), Rc::clone(&self.errors));
        let view = Rc::new(View::new(
            settings,
            host.clone(),
            self.drive.clone(),
            errors,
            self.seen_by(host),
        ));
        views.insert(host.clone(), Rc::clone(&view));
        view
    }

    fn seen_by(&self, host: &Nqn) -> BTreeMap<u32, Rc<Namespace<D>>> {
        let all = self.namespaces.borrow();
        if self.allowed.borrow().admits(host) {
            return all.clone();
        }
        let guests = self.guests.borrow();
        let found = |nsid| Some((nsid, Rc::clone(all.get(&nsid)?)));
        guests.of(host).filter_map(found).collect()
    }

    /// What hosts did on this core to what `host` sees; `nsid` asks for one namespace. A drive is
    /// one thing, whichever host did it.
    pub fn account(&self, host: &Nqn, nsid: Option<u32>) -> Account {
        let namespaces: Vec<_> = match (&self.drive, nsid) {
            (Some(_), _) => self.all_namespaces(),
            (None, None) => self.seen_by(host).into_iter().collect(),
            (None, Some(nsid)) => {
                let found = self.namespace(nsid).filter(|_| self.shows(nsid, host));
                found.into_iter().map(|found| (nsid, found)).collect()
            }
        };
        let view = self.views.borrow().get(host).cloned();
        let has_attached = |nsid| {
            view.as_ref()
                .is_some_and(|view| view.namespace(nsid).is_some())
        };
        let is_seen = |nsid| match self.drive {
            Some(_) => has_attached(nsid),
            None => self.shows(nsid, host),
        };
        let mut account = Account {
            errors: self.errors.of(is_seen),
            ..Account::default()
        };
        for (_, namespace) in namespaces {
            let counters = &namespace.counters;
            account.reads += counters.read_latency.read().count();
            account.read_bytes += counters.read_bytes.get();
            account.writes += counters.write_latency.read().count();
            account.write_bytes += counters.write_bytes.get();
            account.error_count += counters.device_errors.get();
        }
        account
    }
}

fn groups_of<D>(namespaces: &BTreeMap<u32, Rc<Namespace<D>>>) -> BTreeSet<AnaGroupId> {
    let groups = namespaces.values().map(|found| found.settings.group);
    groups.collect()
}

/// What changes of a subsystem mean for the hosts that are connected.
impl<D: BlockDevice + 'static> Core<D> {
    /// A namespace of a subsystem was added, removed or resized, as far as these hosts see it.
    /// Hosts that may see nothing there any more are disconnected.
    pub fn namespace_changed(&self, subsystem: &Subsystem<D>, nsid: u32, hosts: &BTreeSet<Nqn>) {
        self.end_strangers(subsystem);
        for controller in self.controllers_of(&subsystem.settings.nqn) {
            if hosts.contains(&controller.host_nqn) {
                controller.namespace_changed(nsid);
            }
        }
    }

    /// Disconnects hosts that may see nothing of a subsystem.
    pub fn end_strangers(&self, subsystem: &Subsystem<D>) {
        for controller in self.controllers_of(&subsystem.settings.nqn) {
            if !subsystem.admits(&controller.host_nqn) {
                self.end_controller(&controller, CloseReason::Controller);
            }
        }
    }

    /// The controllers of one subsystem.
    pub fn controllers_of(&self, nqn: &Nqn) -> Vec<Rc<Controller<D>>> {
        let controllers = self.controllers.borrow();
        let of_it = |controller: &&Rc<Controller<D>>| {
            let view = controller.subsystem();
            view.is_some_and(|view| view.settings.nqn == *nqn)
        };
        controllers.values().filter(of_it).cloned().collect()
    }
}
