//! Rules of a namespace: what every core asks before a command begins. There are reservations, by
//! which hosts decide among themselves, and write protection, which holds for all of them. One core
//! decides on them and has the others know ([`shared`]).

mod protection;
pub(crate) mod shared;

use std::pin::Pin;
use std::sync::Arc;

use access::{Nqn, NqnTag};
use block::IoError;
use nvme::Status;
use nvme::reservation::NotificationType;

pub use self::protection::Protection;
use crate::io::GONE;
use crate::namespace::By;
use crate::reservation::{Access, HostId, NO_ROOM, Request, Reservations};

/// What holds for a namespace on all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Who is registered, and who holds it.
    pub reservations: Reservations,
    /// Whether hosts may write.
    pub protection: Protection,
}

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A change of reservations.
    Reservation(Request),
    /// That nobody writes, or that everybody may again.
    Protection(bool),
}

/// What has become of the rules.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    pub rules: Rules,
    /// Who is to hear of what.
    pub notices: Vec<(HostId, NotificationType)>,
    /// Commands that began earlier have to end first.
    pub drain: bool,
    /// What caches of the device hold is made safe.
    pub flush: bool,
}

impl Rules {
    /// True when every command may begin.
    pub fn are_none(&self) -> bool {
        self.reservations.held.is_none() && self.protection == Protection::None
    }

    /// `Err` with the status of a command that is not to begin.
    pub(crate) fn check(&self, by: By<'_>) -> Result<(), Status> {
        if !self.reservations.allows(&by.host, *by.name, by.access) {
            return Err(Status::RESERVATION_CONFLICT.do_not_retry());
        }
        if by.access == Access::Write && self.protection != Protection::None {
            return Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
        }
        Ok(())
    }

    /// What of them survives a power loss, if anything.
    pub fn lasting(&self) -> Option<Rules> {
        let kept = Rules {
            reservations: match self.reservations.persistent {
                true => self.reservations.clone(),
                false => Reservations::default(),
            },
            protection: self.protection,
        };
        (kept != Rules::default()).then_some(kept)
    }

    /// What becomes of what a host asks for, by its identifier and its name.
    pub(crate) fn asked(
        &self,
        host: HostId,
        name: NqnTag,
        asked: Asked,
    ) -> Result<Changed, Status> {
        match asked {
            Asked::Reservation(request) => {
                let change = self.reservations.execute(host, name, request)?;
                let aborts = matches!(request, Request::PreemptAndAbort(..));
                let drain = aborts && change.state != self.reservations;
                Ok(Changed {
                    rules: Rules {
                        reservations: change.state,
                        protection: self.protection,
                    },
                    notices: change.notices,
                    drain,
                    flush: false,
                })
            }
            Asked::Protection(on) => {
                // Whom a reservation keeps from writing decides for nobody whether others may.
                if !self.reservations.allows(&host, name, Access::Write) {
                    return Err(Status::RESERVATION_CONFLICT.do_not_retry());
                }
                Ok(self.protected(self.protection.by_host(on)?))
            }
        }
    }

    /// The same with this protection. Whoever asks for it waits for writes that began earlier, be
    /// it that another one asked before.
    pub(crate) fn protected(&self, protection: Protection) -> Changed {
        let on = protection != Protection::None;
        Changed {
            rules: Rules {
                reservations: self.reservations.clone(),
                protection,
            },
            notices: Vec::new(),
            drain: on,
            flush: on,
        }
    }
}

/// Keeps what [survives](Rules::lasting) a power loss of a namespace's rules, durably before the
/// future ends; nothing is to be forgotten. Called, and awaited, on the first core.
pub type RulesKeeper = Arc<dyn Fn(&Nqn, u32, Option<Arc<Rules>>) -> Keeping + Send + Sync>;

/// What a [`RulesKeeper`] does.
pub type Keeping = Pin<Box<dyn Future<Output = Result<(), Unkept>>>>;

/// Why rules are not kept. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// So many registrants do not fit.
    #[error("there is no room for so many registrants")]
    NoRoom,
    /// What keeps them cannot be written.
    #[error("{0}")]
    Failed(String),
}

/// Why rules are not in force that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInForce {
    /// No such namespace is served.
    #[error("the volume is not served")]
    Unserved,
    /// A command that asks for them ends with this status.
    #[error("{}", in_words(*.0))]
    Refused(Status),
    /// They would not survive a power loss; nothing has changed.
    #[error("it cannot be kept: {0}")]
    Unkept(#[from] Unkept),
    /// A core has not said in time that it goes by them and that earlier commands have ended.
    #[error("commands that began earlier are still under way on a drive that is slow to answer")]
    Late,
    /// They hold, but what was written before may not be safe from a power loss.
    #[error("what was written before could not be made durable: {0}")]
    Unflushed(IoError),
}

fn in_words(status: Status) -> &'static str {
    match status.code() {
        Status::NAMESPACE_NOT_READY => "the volume is not ready",
        _ => "it is refused",
    }
}

impl From<Status> for NotInForce {
    fn from(status: Status) -> NotInForce {
        NotInForce::Refused(status)
    }
}

impl From<NotInForce> for Status {
    fn from(reason: NotInForce) -> Status {
        match reason {
            NotInForce::Unserved => GONE,
            NotInForce::Refused(status) => status,
            NotInForce::Unkept(Unkept::NoRoom) => NO_ROOM,
            NotInForce::Unkept(Unkept::Failed(_)) | NotInForce::Late => Status::INTERNAL_ERROR,
            NotInForce::Unflushed(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests;
