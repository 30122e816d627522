//! The features of reservations (NVMe 2.0 §5.27.1.27, §5.27.1.28), which belong to a namespace.

use std::rc::Rc;

use block::BlockDevice;
use nvme::Status;
use nvme::command::ALL_NAMESPACES;
use nvme::feature::{Feature, Features as Command, Select, capability};

use super::Controller;
use crate::namespace::Namespace;
use crate::per_core::Core;
use crate::reservation::Request;
use crate::transport::Reply;

/// REGPRE, RESREL and RESPRE: what can be masked.
const MASKABLE: u32 = 0b1110;

/// True for the features of this page.
pub(super) fn is_of_reservations(feature: Feature) -> bool {
    matches!(
        feature,
        Feature::RESERVATION_MASK | Feature::RESERVATION_PERSISTENCE
    )
}

impl<D: BlockDevice + 'static> Controller<D> {
    pub(super) fn get_reservation_feature(&self, command: &Command) -> Result<Reply, Status> {
        let nsid = command.namespace_id.get();
        let namespace = self.namespace_of(nsid)?;
        Ok(Reply::result(match Select(command.select & 0b111) {
            Select::CURRENT if command.feature == Feature::RESERVATION_MASK => {
                u64::from(self.notices.borrow().mask(nsid))
            }
            Select::CURRENT => u64::from(namespace.reservations()?.persistent),
            Select::DEFAULT | Select::SAVED => 0,
            Select::CAPABILITIES => {
                u64::from(capability::CHANGEABLE | capability::NAMESPACE_SPECIFIC)
            }
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        }))
    }

    pub(super) async fn set_reservation_feature(
        &self,
        command: &Command,
        core: &Core<D>,
    ) -> Result<Reply, Status> {
        if command.save & 0x80 != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry());
        }
        let (nsid, value) = (command.namespace_id.get(), command.value.get());
        let mut nsids = vec![nsid];
        if nsid == ALL_NAMESPACES
            && let Some(subsystem) = self.subsystem()
        {
            nsids = subsystem.namespaces.borrow().keys().copied().collect();
        }
        for nsid in nsids {
            self.namespace_of(nsid)?;
            if command.feature == Feature::RESERVATION_MASK {
                let mut notices = self.notices.borrow_mut();
                notices.set_mask(nsid, value & MASKABLE);
            } else {
                let request = Request::Persist(value & 1 != 0);
                let host = (self.host_id, &self.host_nqn);
                core.reserve(&self.subsystem_nqn, nsid, host, request)
                    .await?;
            }
        }
        Ok(Reply::success())
    }

    fn namespace_of(&self, nsid: u32) -> Result<Rc<Namespace<D>>, Status> {
        let subsystem = self.subsystem();
        subsystem
            .and_then(|subsystem| subsystem.namespace(nsid))
            .ok_or(Status::INVALID_NAMESPACE.do_not_retry())
    }
}
