//! NVM Subsystem Reset (NVMe 2.0 §3.7.1), as far as a host may have one: hosts share a subsystem,
//! and none is to end another's sessions. So it ends every controller of the host that asks for it,
//! on whichever core, and no other (`docs/decisions/subsystem-reset.md`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use access::{Nqn, NqnTag};
use block::BlockDevice;

use crate::controller::Controller;
use crate::home::Message;
use crate::per_core::Core;
use crate::report::CloseReason;
use crate::reservation::HostId;

/// How long the controller that was asked stays, reset, with its admin queue alone. Linux disables
/// it there before it connects anew, and would wait for a minute where nobody answers.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

/// Hosts of a subsystem that are known to have reset it; of more the latest.
const RESETTERS_MAX: usize = 64;

/// The hosts that have had a subsystem reset, the latest last: NSSRO of their controllers is set
/// from then on.
#[derive(Debug, Default)]
pub(crate) struct Resetters(RefCell<VecDeque<(HostId, NqnTag)>>);

impl Resetters {
    fn add(&self, host: (HostId, NqnTag)) {
        let mut hosts = self.0.borrow_mut();
        hosts.retain(|other| *other != host);
        hosts.push_back(host);
        if hosts.len() > RESETTERS_MAX {
            hosts.pop_front();
        }
    }

    /// Whether a host is among them.
    pub fn has(&self, host: (HostId, NqnTag)) -> bool {
        self.0.borrow().contains(&host)
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Ends every controller of the host of this one but this one, whose own end is to follow.
    pub fn reset_subsystem(&self, controller: &Controller<D>) {
        let from = self.identifiers.index;
        let subsystem_nqn = controller.subsystem_nqn.clone();
        let host = (controller.host_id, controller.host_nqn.clone());
        for core in (0..self.identifiers.cores).filter(|core| *core != from) {
            let (subsystem_nqn, host) = (subsystem_nqn.clone(), host.clone());
            self.post(
                core,
                Message::ResetSubsystem {
                    subsystem_nqn,
                    host,
                },
            );
        }
        self.reset_subsystem_here(&subsystem_nqn, &host, Some(controller.id));
    }

    /// The same for this core; `asking` is the controller to spare, if it is here.
    pub fn reset_subsystem_here(
        &self,
        subsystem_nqn: &Nqn,
        (id, name): &(HostId, Nqn),
        asking: Option<u16>,
    ) {
        let Some(subsystem) = self.subsystem(subsystem_nqn) else {
            return;
        };
        subsystem.resetters.add((*id, name.tag()));
        for controller in self.controllers_of(subsystem_nqn) {
            let is_own = controller.host_id == *id && controller.host_nqn == *name;
            if is_own && Some(controller.id) != asking {
                self.end_controller(&controller, CloseReason::Controller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_that_reset_a_subsystem_are_remembered_up_to_a_number() {
        let host = |number: u16| {
            let name: Nqn = format!("nqn.2024-01.io.example:{number}").parse().unwrap();
            ([number as u8; 16], name.tag())
        };
        let resetters = Resetters::default();
        for number in 0..1000 {
            assert!(!resetters.has(host(number)));
            resetters.add(host(number));
            resetters.add(host(0));
            assert!(resetters.has(host(number)) && resetters.has(host(0)));
        }
        assert_eq!(resetters.0.borrow().len(), RESETTERS_MAX);
        assert!(resetters.has(host(999 - 62)) && !resetters.has(host(999 - 63)));
    }
}
