//! [`Reservations`]: who is registered with a namespace and who holds it (NVMe 2.0 §8.19), as a
//! machine without a clock, a core or a disk.

use std::collections::BTreeMap;

use access::NqnTag;
use nvme::Status;
use nvme::reservation::{NotificationType, ReservationType};

/// HOSTID, all 128 bits.
pub type HostId = [u8; 16];

/// The identifier of a host that gave none: it is nobody's, and several hosts may have it
/// (NVMe 2.0 §5.27.1.25).
pub const NO_HOST: HostId = [0; 16];

/// Registrants that a namespace has at most: twice as many as the largest clusters have nodes.
pub const REGISTRANTS_MAX: usize = 128;

/// The registrations and the reservation of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// GEN.
    pub generation: u32,
    /// PTPL: all of this survives a power loss.
    pub persistent: bool,
    /// Keys by host.
    pub registrants: BTreeMap<HostId, u64>,
    /// Under which names they came. An identifier is whatever a host says, so while it is
    /// registered it is good under that name only. Unknown of those that an earlier version kept
    /// through a power loss, until they ask for something.
    pub names: BTreeMap<HostId, NqnTag>,
    /// The reservation, if there is one.
    pub held: Option<Held>,
}

/// A reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its type.
    pub kind: ReservationType,
    /// Who holds it; for types that all registrants hold, who acquired it.
    pub host: HostId,
}

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Register with a key; the switch changes persistence.
    Register(u64, Option<bool>),
    /// Unregister, if this is the key; none is not compared.
    Unregister(Option<u64>, Option<bool>),
    /// Take another key, if the first is the key; none is not compared, and registers a host that
    /// is not.
    Replace(Option<u64>, u64, Option<bool>),
    /// Acquire the reservation; the key is compared.
    Acquire(u64, ReservationType),
    /// Take the registrations with the second key away, and the reservation if one of them holds
    /// it; the first key is compared.
    Preempt(u64, u64, ReservationType),
    /// The same, and what the others have begun has ended when it is answered.
    PreemptAndAbort(u64, u64, ReservationType),
    /// Release the reservation; the key is compared.
    Release(u64, ReservationType),
    /// Take everything away; the key is compared.
    Clear(u64),
    /// Change persistence alone.
    Persist(bool),
}

/// What a command does to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only looks.
    Read,
    /// It makes safe what was written. To reservations it is a write.
    Flush,
    /// It may change something.
    Write,
}

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How things are now.
    pub state: Reservations,
    /// Who is to hear of what.
    pub notices: Vec<(HostId, NotificationType)>,
}

const CONFLICT: Status = Status::RESERVATION_CONFLICT.do_not_retry();

/// There is no room for one more registrant: what nvmet and SPDK answer then.
pub(crate) const NO_ROOM: Status = Status::INTERNAL_ERROR.do_not_retry();

impl Reservations {
    /// Whether a host of this name may access the data this way.
    pub fn allows(&self, host: &HostId, name: NqnTag, access: Access) -> bool {
        let Some(held) = &self.held else {
            return true;
        };
        if access == Access::Read && !held.kind.forbids_reads() {
            return true;
        }
        // What an earlier version let such hosts reserve holds for none of them.
        *host != NO_HOST
            && self.is_named(host, name)
            && (held.host == *host
                || held.kind.admits_registrants() && self.registrants.contains_key(host))
    }

    /// True when `host` is a holder.
    pub fn is_holder(&self, host: &HostId) -> bool {
        self.held.is_some_and(|held| {
            held.host == *host || held.kind.is_held_by_all() && self.registrants.contains_key(host)
        })
    }

    /// Whether an identifier is good under this name.
    fn is_named(&self, host: &HostId, name: NqnTag) -> bool {
        self.names
            .get(host)
            .is_none_or(|registered| *registered == name)
    }

    /// What becomes of the request of `host`, which came under `name`; `Err` with the status when
    /// nothing changes.
    pub fn execute(&self, host: HostId, name: NqnTag, request: Request) -> Result<Change, Status> {
        if !self.is_named(&host, name) {
            return Err(CONFLICT);
        }
        let mut change = self.changed(host, request)?;
        let Reservations {
            registrants, names, ..
        } = &mut change.state;
        names.retain(|host, _| registrants.contains_key(host));
        if registrants.contains_key(&host) && !names.contains_key(&host) {
            names.insert(host, name);
        }
        Ok(change)
    }

    fn changed(&self, host: HostId, request: Request) -> Result<Change, Status> {
        let mut change = Change {
            state: self.clone(),
            notices: Vec::new(),
        };
        match request {
            Request::Register(key, persist) => {
                change.register(host, key)?;
                change.persist(persist);
            }
            Request::Unregister(key, persist) => {
                self.compare_unless_ignored(&host, key)?;
                change.unregister(host);
                change.persist(persist);
                change.count();
            }
            Request::Replace(key, new, persist) => {
                if key.is_some() {
                    self.compare_unless_ignored(&host, key)?;
                }
                change.give_key(host, new)?;
                change.persist(persist);
                change.count();
            }
            Request::Acquire(key, kind) => {
                self.compare(&host, key)?;
                match self.held {
                    None => change.state.held = Some(Held { kind, host }),
                    Some(held) if self.is_holder(&host) && held.kind == kind => {}
                    Some(_) => return Err(CONFLICT),
                }
            }
            Request::Preempt(key, other, kind) | Request::PreemptAndAbort(key, other, kind) => {
                self.compare(&host, key)?;
                change.preempt(host, other, kind)?;
                change.count();
            }
            Request::Release(key, kind) => {
                self.compare(&host, key)?;
                if let Some(held) = self.held.filter(|_| self.is_holder(&host)) {
                    if held.kind != kind {
                        return Err(Status::INVALID_FIELD.do_not_retry());
                    }
                    change.release(host);
                }
            }
            Request::Clear(key) => {
                self.compare(&host, key)?;
                change.state.registrants.clear();
                change.state.held = None;
                let others = self.registrants.keys().filter(|other| **other != host);
                change.notices = others
                    .map(|other| (*other, NotificationType::PREEMPTED))
                    .collect();
                change.count();
            }
            Request::Persist(on) => change.state.persistent = on,
        }
        Ok(change)
    }

    /// Only registrants may ask, with the key they registered.
    fn compare(&self, host: &HostId, key: u64) -> Result<(), Status> {
        self.compare_unless_ignored(host, Some(key))
    }

    fn compare_unless_ignored(&self, host: &HostId, key: Option<u64>) -> Result<(), Status> {
        let registered = self.registrants.get(host).ok_or(CONFLICT)?;
        if key.is_some_and(|key| key != *registered) {
            return Err(CONFLICT);
        }
        Ok(())
    }
}

impl Change {
    fn count(&mut self) {
        self.state.generation = self.state.generation.wrapping_add(1);
    }

    fn persist(&mut self, change: Option<bool>) {
        if let Some(on) = change {
            self.state.persistent = on;
        }
    }

    /// Registering again with the same key is no error, and counts.
    fn register(&mut self, host: HostId, key: u64) -> Result<(), Status> {
        let registered = self.state.registrants.get(&host);
        if registered.is_some_and(|registered| *registered != key) {
            return Err(CONFLICT);
        }
        self.give_key(host, key)?;
        self.count();
        Ok(())
    }

    /// Makes a host a registrant, if it is not and there is room for one more.
    fn give_key(&mut self, host: HostId, key: u64) -> Result<(), Status> {
        let registrants = &mut self.state.registrants;
        if registrants.len() >= REGISTRANTS_MAX && !registrants.contains_key(&host) {
            return Err(NO_ROOM);
        }
        registrants.insert(host, key);
        Ok(())
    }

    /// A reservation goes with its holder; one of all registrants with the last of them.
    fn unregister(&mut self, host: HostId) {
        self.state.registrants.remove(&host);
        let Some(held) = self.state.held else { return };
        if held.kind.is_held_by_all() {
            match self.state.registrants.keys().next() {
                None => self.state.held = None,
                Some(heir) if held.host == host => {
                    self.state.held = Some(Held {
                        kind: held.kind,
                        host: *heir,
                    });
                }
                Some(_) => {}
            }
        } else if held.host == host {
            self.release(host);
        }
    }

    /// Types in which registrants share tell them (NVMe 2.0 §8.19.6).
    fn release(&mut self, host: HostId) {
        let shared = self
            .state
            .held
            .take()
            .is_some_and(|held| held.kind.admits_registrants());
        if shared {
            self.tell_registrants(host, NotificationType::RELEASED);
        }
    }

    fn tell_registrants(&mut self, except: HostId, what: NotificationType) {
        let others = self
            .state
            .registrants
            .keys()
            .filter(|other| **other != except);
        self.notices.extend(others.map(|other| (*other, what)));
    }

    /// NVMe 2.0 §8.19.7: the key names whose registrations go, and with them perhaps the
    /// reservation, which the host then gets; zero names everybody where all hold it.
    fn preempt(&mut self, host: HostId, key: u64, kind: ReservationType) -> Result<(), Status> {
        let held = self.state.held;
        let all = held.is_some_and(|held| held.kind.is_held_by_all());
        let of_holder =
            held.is_some_and(|held| !all && self.state.registrants.get(&held.host) == Some(&key));
        if all && key == 0 {
            self.drop_registrants(host, |_| true);
            self.take_over(host, kind, held);
        } else if of_holder {
            self.drop_registrants(host, |registered| registered == key);
            self.take_over(host, kind, held);
        } else if held.is_some() && !all && key == 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        } else if !self.state.registrants.values().any(|found| *found == key) {
            return Err(CONFLICT);
        } else {
            let own = self.state.registrants.get(&host) == Some(&key);
            self.drop_registrants(host, |registered| registered == key);
            if own {
                self.unregister(host);
            }
        }
        Ok(())
    }

    /// Takes away the registrations of others whose key is picked.
    fn drop_registrants(&mut self, host: HostId, picked: impl Fn(u64) -> bool) {
        let registrants = self.state.registrants.iter();
        let gone: Vec<HostId> = registrants
            .filter(|(other, key)| **other != host && picked(**key))
            .map(|(other, _)| *other)
            .collect();
        for other in gone {
            self.unregister(other);
            self.notices.retain(|(told, _)| *told != other);
            self.notices
                .push((other, NotificationType::REGISTRATION_PREEMPTED));
        }
    }

    /// The host gets the reservation; registrants that are left hear of another type.
    fn take_over(&mut self, host: HostId, kind: ReservationType, before: Option<Held>) {
        self.notices
            .retain(|(_, what)| *what != NotificationType::RELEASED);
        self.state.held = Some(Held { kind, host });
        if before.is_some_and(|before| before.kind != kind) {
            self.tell_registrants(host, NotificationType::RELEASED);
        }
    }
}
