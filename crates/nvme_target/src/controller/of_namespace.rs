//! Features that belong to a namespace: those of reservations (NVMe 2.0 §5.27.1.26, §5.27.1.27) and
//! its write protection (§5.27.1.28).

use std::rc::Rc;

use block::BlockDevice;
use nvme::Status;
use nvme::command::ALL_NAMESPACES;
use nvme::feature::{Feature, Features as Command, ProtectionState, Select, capability};

use super::Controller;
use crate::namespace::Namespace;
use crate::per_core::Core;
use crate::reservation::Request;
use crate::rules::Asked;
use crate::transport::Reply;

/// REGPRE, RESREL and RESPRE: what can be masked.
const MASKABLE: u32 = 0b1110;

/// True for the features of this page.
pub(super) fn is_of_namespace(feature: Feature) -> bool {
    matches!(
        feature,
        Feature::RESERVATION_MASK | Feature::RESERVATION_PERSISTENCE | Feature::WRITE_PROTECTION
    )
}

impl<D: BlockDevice + 'static> Controller<D> {
    /// Whether hosts may ask for write protection here: where it can be kept, and not of a drive,
    /// which has no rules.
    pub(super) fn offers_protection(&self, core: &Core<D>) -> bool {
        core.keeps_rules() && !self.is_discovery() && self.drive().is_none()
    }

    pub(super) fn get_namespace_feature(
        &self,
        command: &Command,
        core: &Core<D>,
    ) -> Result<Reply, Status> {
        self.check_offered(command.feature, core)?;
        let nsid = command.namespace_id.get();
        let namespace = self.namespace_of(nsid)?;
        let select = Select(command.select & 0b111);
        Ok(Reply::result(u64::from(match select {
            Select::CURRENT => match command.feature {
                Feature::RESERVATION_MASK => self.notices.borrow().mask(nsid),
                Feature::WRITE_PROTECTION => namespace.rules()?.protection.state().0,
                _ => u32::from(namespace.rules()?.reservations.persistent),
            },
            Select::DEFAULT | Select::SAVED => 0,
            Select::CAPABILITIES => {
                let is_fixed = command.feature == Feature::WRITE_PROTECTION
                    && !namespace.rules()?.protection.is_changeable();
                let change = if is_fixed { 0 } else { capability::CHANGEABLE };
                change | capability::NAMESPACE_SPECIFIC
            }
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        })))
    }

    pub(super) async fn set_namespace_feature(
        &self,
        command: &Command,
        core: &Core<D>,
    ) -> Result<Reply, Status> {
        self.check_offered(command.feature, core)?;
        if command.save & 0x80 != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry());
        }
        let (nsid, value) = (command.namespace_id.get(), command.value.get());
        let asked = match command.feature {
            Feature::RESERVATION_MASK => None,
            Feature::WRITE_PROTECTION => Some(protection(value)?),
            _ => Some(Asked::Reservation(Request::Persist(value & 1 != 0))),
        };
        let mut nsids = vec![nsid];
        if nsid == ALL_NAMESPACES
            && let Some(subsystem) = self.subsystem()
        {
            nsids = subsystem.namespaces.borrow().keys().copied().collect();
        }
        for nsid in nsids {
            self.namespace_of(nsid)?;
            let Some(asked) = asked else {
                let mut notices = self.notices.borrow_mut();
                notices.set_mask(nsid, value & MASKABLE);
                continue;
            };
            let host = (self.host_id, &self.host_nqn);
            core.ask_for(&self.subsystem_nqn, nsid, host, asked).await?;
        }
        Ok(Reply::success())
    }

    fn check_offered(&self, feature: Feature, core: &Core<D>) -> Result<(), Status> {
        match feature == Feature::WRITE_PROTECTION && !self.offers_protection(core) {
            true => Err(Status::INVALID_FIELD.do_not_retry()),
            false => Ok(()),
        }
    }

    fn namespace_of(&self, nsid: u32) -> Result<Rc<Namespace<D>>, Status> {
        let subsystem = self.subsystem();
        subsystem
            .and_then(|subsystem| subsystem.namespace(nsid))
            .ok_or(Status::INVALID_NAMESPACE.do_not_retry())
    }
}

/// What a host asks for by a value of the feature: no other state than NWPC has.
fn protection(value: u32) -> Result<Asked, Status> {
    match ProtectionState::from_value(value) {
        ProtectionState::NONE => Ok(Asked::Protection(false)),
        ProtectionState::WRITE_PROTECT => Ok(Asked::Protection(true)),
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}
