//! [`Administrator`]: what the target asks of a drive whose hosts manage its namespaces. Every
//! question goes to the layout, so that hosts and the control interface change a drive one after
//! the other.

use access::Nqn;
use drive::EmulatedError;
use nvme::Status;
use nvme_target::{Administration, Answer, DriveNamespace, DriveReport, NamespaceChange, Wear};
use reactor::cores::CoreHandle;

use crate::error::NodeError;
use crate::layout::Layout;
use crate::spec::ManagedFacts;

/// Where the drive `name` of a node is asked, from any core.
pub struct Administrator {
    pub node: u64,
    pub first: CoreHandle,
    pub name: String,
    pub nqn: Nqn,
}

impl Administrator {
    fn ask<T, W, F>(&self, work: W) -> Answer<T>
    where
        T: Send + 'static,
        W: FnOnce(std::rc::Rc<Layout>) -> F + Send + 'static,
        F: Future<Output = Result<T, NodeError>> + 'static,
    {
        let node = self.node;
        let submitted = self
            .first
            .submit(move || async move { work(Layout::of(node)?).await });
        Box::pin(async move {
            let answer = submitted.await.map_err(NodeError::from);
            answer.flatten().map_err(|error| status(&error))
        })
    }
}

impl Administration for Administrator {
    fn report(&self) -> Answer<DriveReport> {
        let (name, nqn) = (self.name.clone(), self.nqn.clone());
        self.ask(|layout| async move { Ok(report(&layout.managed_facts(name).await?, &nqn)) })
    }

    fn change(&self, host: &Nqn, change: NamespaceChange) -> Answer<u32> {
        let (name, host) = (self.name.clone(), host.clone());
        self.ask(move |layout| async move { layout.change_namespaces(name, host, change).await })
    }
}

/// What a host is told when a change is refused.
fn status(error: &NodeError) -> Status {
    let status = match error {
        NodeError::Emulated(EmulatedError::Namespace(error)) => {
            let (kind, code) = error.status();
            Status(u16::from(kind) << 8 | u16::from(code))
        }
        // The volume is one more user of the namespace, and the first.
        NodeError::NamespaceServed { .. } => Status::NAMESPACE_IS_PRIVATE,
        NodeError::DriveInUse { .. } | NodeError::NotAdministrator { .. } => {
            Status::OPERATION_DENIED
        }
        _ => Status::INTERNAL_ERROR,
    };
    status.do_not_retry()
}

fn report(facts: &ManagedFacts, nqn: &Nqn) -> DriveReport {
    let namespaces = facts.namespaces.iter().map(|namespace| DriveNamespace {
        nsid: namespace.nsid,
        blocks: namespace.bytes / u64::from(namespace.block_bytes),
        block_bytes: namespace.block_bytes,
        shared: namespace.shared,
        identity: identity(nqn, namespace.nsid, namespace.ordinal),
    });
    let (health, endurance) = (&facts.health, &facts.endurance);
    DriveReport {
        total_bytes: facts.capacity.total_bytes,
        unallocated_bytes: facts.capacity.unallocated_bytes,
        granularity_bytes: facts.capacity.granularity_bytes,
        namespace_id_max: ssd::NAMESPACES_MAX,
        namespaces: namespaces.collect(),
        wear: Wear {
            available_spare_percent: health.available_spare_percent,
            percentage_used: health.percentage_used,
            data_units_read: health.data_units_read,
            data_units_written: health.data_units_written,
            read_commands: health.host_read_commands,
            write_commands: health.host_write_commands,
            endurance_estimate_billions: endurance.endurance_estimate_billions,
            data_read_billions: endurance.data_read_billions,
            data_written_billions: endurance.data_written_billions,
            media_written_billions: endurance.media_written_billions,
        },
    }
}

/// NGUID and UUID of a namespace of the drive `nqn`: the same for its life, and no other's (FNV-1a
/// over 128 bits, in the form of a UUID of version 8).
pub fn identity(nqn: &Nqn, nsid: u32, ordinal: u64) -> [u8; 16] {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let numbers = nsid.to_le_bytes().into_iter().chain(ordinal.to_le_bytes());
    let bytes = nqn.as_str().bytes().chain([0]).chain(numbers);
    let hash = bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    });
    uuid::Builder::from_custom_bytes(hash.to_be_bytes())
        .into_uuid()
        .into_bytes()
}
