//! A drive whose namespaces hosts manage over NVMe/TCP, on two simulated cores, with the library
//! initiator as the hosts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Data, discover};
use node::{
    AllowedHosts, Backing, DriveSpec, EmulatedSpec, Node, NodeError, NodeEvent, NodeSpec, Nqn,
    PortSpec, VolumeSpec,
};
use nvme::event::AsyncEvent;
use nvme::identify::{
    Attachment, Cns, ControllerList, GranularityList, IndependentNamespaceData,
    NamespaceAttachment, NamespaceData, NamespaceManagement, nmic, oacs,
};
use nvme::log::{EnduranceGroup, GetLogPage, LogPage, SmartHealth};
use nvme::{Status, SubmissionEntry};
use reactor::Reactor;
use reactor::cores::Cores;
use uuid::Uuid;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const DRIVE: &str = "nqn.2026-11.example.flashyard:n:drive:d0";
const ENGINEER: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
const COLLEAGUE: &str = "nqn.2014-08.org.nvmexpress:uuid:0a1d4fae-7dec-11d0-a765-00a0c91e6bf6";
const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:1b1d4fae-7dec-11d0-a765-00a0c91e6bf6";
const MIB: u64 = 1 << 20;
/// No namespaces.
const NONE: [u32; 0] = [];

struct Lab {
    node: Node,
    address: SocketAddr,
    events: Arc<Mutex<Vec<NodeEvent>>>,
}

fn nqn(text: &str) -> Nqn {
    text.parse().unwrap()
}

/// Runs `test` with a node of two cores and one small emulated drive, in virtual time.
fn with_drive<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Lab) -> F) {
    Reactor::simulated(seed).run(async move {
        let spec = NodeSpec {
            uuid: Uuid::nil(),
            cores: Vec::new(),
            ports: vec![PortSpec {
                listen: "127.0.0.1:4420".parse().unwrap(),
                advertise: None,
                path: node::PathState::Optimized,
                tls: false,
                transport: node::Transport::Tcp,
            }],
            map_cache_bytes: node::MAP_CACHE_BYTES,
            controller_ids: node::ControllerIds::ALL,
        };
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let sink: node::EventSink = Arc::new(move |event| sink.lock().unwrap().push(event));
        let node = Node::start_on(Cores::on_current(2), &spec, sink)
            .await
            .unwrap();
        node.listen().await.unwrap();
        let drive = DriveSpec::Emulated(EmulatedSpec {
            profile: "cm7-r-7.68".to_owned(),
            scale_ppm: 20,
            dilation_percent: 100,
            directory: None,
        });
        node.open_drive("d0", drive).await.unwrap();
        let lab = Lab {
            address: node.addresses()[0],
            node: node.clone(),
            events,
        };
        reactor::timeout(Duration::from_secs(600), test(lab))
            .await
            .expect("the scenario hangs");
        node.shutdown(Duration::from_secs(1)).await.unwrap();
    });
}

impl Lab {
    async fn administrators(&self, hosts: &[&str]) {
        let hosts: BTreeSet<Nqn> = hosts.iter().map(|host| nqn(host)).collect();
        let drive = nqn(DRIVE);
        let set = self.node.set_administrators("d0", &drive, hosts);
        set.await.unwrap();
    }

    async fn connect(&self, host: &str) -> Controller {
        Controller::connect(self.address, DRIVE, ConnectOptions::new(host))
            .await
            .unwrap()
    }

    async fn create_volume(&self) -> Result<u64, NodeError> {
        let spec = VolumeSpec {
            name: "v".to_owned(),
            backing: Backing::Drive("d0".to_owned()),
            block_bytes: 4096,
            subsystem: nqn("nqn.2026-11.example.flashyard:n:v"),
            nsid: 1,
            uuid: Uuid::from_u128(1),
            group: node::AnaGroupId::POOLLESS,
            allowed: AllowedHosts::Any,
            tenant: None,
            rules: Some(Default::default()),
        };
        self.node.create_volume(spec).await
    }
}

async fn submit(host: &Controller, entry: &SubmissionEntry, data: &[u8]) -> (Status, u32) {
    let data = match data {
        [] => Data::None,
        bytes => Data::Out(Buffer::copy_of(bytes)),
    };
    let completion = host.admin(*entry, data).await.1.unwrap();
    (completion.status().code(), completion.result.get() as u32)
}

/// A namespace of this many MiB in blocks of format `format`.
fn wanted(mib: u64, format: u8, shared: bool) -> NamespaceData {
    let mut data = NamespaceData::new_zeroed();
    let blocks = mib * MIB / [4096, 512][usize::from(format & 1)];
    data.size_blocks = blocks.into();
    data.capacity_blocks = blocks.into();
    data.format = format;
    data.multipath = u8::from(shared) * nmic::SHARED;
    data
}

async fn create(host: &Controller, data: &NamespaceData) -> (Status, u32) {
    submit(host, NamespaceManagement::create().entry(), data.as_bytes()).await
}

async fn delete(host: &Controller, nsid: u32) -> Status {
    submit(host, NamespaceManagement::delete(nsid).entry(), &[])
        .await
        .0
}

async fn attachment(
    host: &Controller,
    select: Attachment,
    nsid: u32,
    controllers: &[u16],
) -> Status {
    let mut list = ControllerList::new_zeroed();
    list.count = (controllers.len() as u16).into();
    for (into, id) in list.controllers.iter_mut().zip(controllers) {
        *into = (*id).into();
    }
    let command = NamespaceAttachment::new(select, nsid);
    submit(host, command.entry(), list.as_bytes()).await.0
}

async fn attach(host: &Controller, nsid: u32) -> Status {
    let own = host.controller_id().unwrap();
    attachment(host, Attachment::ATTACH, nsid, &[own]).await
}

async fn detach(host: &Controller, nsid: u32) -> Status {
    let own = host.controller_id().unwrap();
    attachment(host, Attachment::DETACH, nsid, &[own]).await
}

async fn list(host: &Controller, cns: Cns) -> Vec<u32> {
    let page = host.identify_structure(cns, 0).await.unwrap();
    let (entries, _) = page.as_chunks::<4>();
    let entries = entries.iter().map(|entry| u32::from_le_bytes(*entry));
    entries.take_while(|nsid| *nsid != 0).collect()
}

async fn capacity(host: &Controller) -> (u128, u128) {
    let page = host.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
    let data = nvme::identify::ControllerData::read_from_bytes(&page).unwrap();
    assert_eq!(data.admin_commands.get(), oacs::NAMESPACE_MANAGEMENT);
    assert_eq!(data.namespace_max.get(), ssd::NAMESPACES_MAX);
    (data.total_capacity.get(), data.unallocated_capacity.get())
}

/// As nvme-cli goes about it: everything of the drive is given up, a smaller namespace made,
/// attached, written to, detached and deleted; the counters say so at every step.
#[test]
fn a_host_makes_uses_and_deletes_a_namespace() {
    with_drive(1, |lab| async move {
        lab.administrators(&[ENGINEER]).await;
        let host = lab.connect(ENGINEER).await;
        let (total, unallocated) = capacity(&host).await;
        assert_eq!(unallocated, 0, "a drive comes with one namespace of all");
        assert_eq!(list(&host, Cns::ALLOCATED_NAMESPACES).await, [1]);
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, NONE);
        assert_eq!(delete(&host, 1).await, Status::SUCCESS);
        assert_eq!(capacity(&host).await, (total, total));
        assert_eq!(list(&host, Cns::ALLOCATED_NAMESPACES).await, NONE);

        assert_eq!(
            create(&host, &wanted(64, 0, false)).await.0,
            Status::SUCCESS
        );
        let (status, small) = create(&host, &wanted(8, 1, false)).await;
        assert_eq!((status, small), (Status::SUCCESS, 2));
        assert_eq!(list(&host, Cns::ALLOCATED_NAMESPACES).await, [1, 2]);
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, NONE);
        let page = host.identify_structure(Cns::ALLOCATED_NAMESPACE, small);
        let data = NamespaceData::read_from_bytes(&page.await.unwrap()).unwrap();
        assert_eq!(data.size_blocks.get(), 8 * MIB / 512);
        assert_eq!((data.format, data.endurance_group.get()), (1, 1));
        assert_eq!(
            host.identify_structure(Cns::NAMESPACE, small)
                .await
                .unwrap()[..],
            [0; 4096],
            "an inactive namespace is all zeroes"
        );
        let page = host.identify_structure(Cns::NAMESPACE_GRANULARITY, 0).await;
        let page = page.unwrap();
        let (granularity, _) = GranularityList::read_from_prefix(&page).unwrap();
        let step = u128::from(granularity.descriptors[0].size_bytes.get());
        let taken = (64 * u128::from(MIB)).next_multiple_of(step)
            + (8 * u128::from(MIB)).next_multiple_of(step);
        assert_eq!(capacity(&host).await, (total, total - taken));

        assert_eq!(attach(&host, small).await, Status::SUCCESS);
        assert_eq!(host.next_event().await, Some(AsyncEvent::NAMESPACE_CHANGED));
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, [small]);
        let namespace = host.namespace(small).await.unwrap();
        assert_eq!(namespace.geometry().block_bytes, 512);
        // Both pages that tell of a namespace tell the same (CNS 00h and 08h).
        let page = host.identify_structure(Cns::NAMESPACE, small);
        let one = NamespaceData::read_from_bytes(&page.await.unwrap()).unwrap();
        let page = host.identify_structure(Cns::INDEPENDENT_NAMESPACE, small);
        let other = IndependentNamespaceData::read_from_bytes(&page.await.unwrap()).unwrap();
        assert_eq!((one.multipath, one.reservations), (0, 0));
        assert_eq!((other.multipath, other.reservations), (0, 0));
        assert_eq!(other.endurance_group, one.endurance_group);
        assert_eq!(other.ana_group, one.ana_group);
        let data = Buffer::copy_of(&[7; 4096]);
        let (data, result) = namespace.write(Lba(8), data, Durability::Durable).await;
        result.unwrap();
        let (found, result) = namespace.read(Lba(8), Buffer::new(4096)).await;
        result.unwrap();
        assert_eq!(found[..], data[..]);

        assert_eq!(detach(&host, small).await, Status::SUCCESS);
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, NONE);
        assert!(namespace.read(Lba(8), Buffer::new(512)).await.1.is_err());
        assert_eq!(attach(&host, small).await, Status::SUCCESS);
        assert_eq!(
            delete(&host, small).await,
            Status::SUCCESS,
            "attached or not"
        );
        assert_eq!(list(&host, Cns::ALLOCATED_NAMESPACES).await, [1]);
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, NONE);
        assert_eq!(delete(&host, u32::MAX).await, Status::SUCCESS);
        assert_eq!(capacity(&host).await, (total, total));
        let changes = lab.events.lock().unwrap();
        let changes = changes
            .iter()
            .filter(|event| matches!(event, NodeEvent::NamespacesChanged { .. }));
        assert_eq!(changes.count(), 8);
    });
}

#[test]
fn the_drives_own_counters_are_in_the_smart_and_endurance_logs() {
    with_drive(2, |lab| async move {
        lab.administrators(&[ENGINEER]).await;
        let host = lab.connect(ENGINEER).await;
        assert_eq!(attach(&host, 1).await, Status::SUCCESS);
        let namespace = host.namespace(1).await.unwrap();
        let pages = 4 * namespace.geometry().block_count / 256;
        for at in 0..pages {
            let at = Lba(at * 256 % (namespace.geometry().block_count - 256));
            let (_, result) = namespace
                .write(at, Buffer::zeroed(1 << 20), Durability::Cached)
                .await;
            result.unwrap();
        }
        let page = host.log_page(LogPage::SMART, u32::MAX, 0, 512).await;
        let smart = SmartHealth::read_from_bytes(&page.unwrap()).unwrap();
        let facts = lab.node.managed_facts("d0").await.unwrap();
        let written = u128::from(facts.health.data_units_written);
        assert_eq!(smart.data_units_written.get(), written);
        assert_eq!(written, (u128::from(pages) << 20).div_ceil(512_000));
        assert_eq!(smart.write_commands.get(), u128::from(pages));

        assert!((274..343).contains(&smart.temperature.get()));
        // LPA says that there is no log of one namespace.
        let one = host.log_page(LogPage::SMART, 1, 0, 512).await;
        assert!(one.is_err());

        let log = |group: u16| {
            let mut command = GetLogPage::new(LogPage::ENDURANCE_GROUP, 0, 0, 512);
            command.specific_id = group.into();
            command
        };
        let data = Data::In(Buffer::new(512));
        let (data, completion) = host.admin(*log(1).entry(), data).await;
        assert!(completion.unwrap().status().is_success());
        let page = data.into_buffer().unwrap();
        let endurance = EnduranceGroup::read_from_bytes(&page).unwrap();
        assert!(endurance.media_units_written.get() >= endurance.data_units_written.get());
        assert!(endurance.media_units_written.get() > 0);
        let total = u128::from(facts.capacity.total_bytes);
        assert_eq!(endurance.total_capacity.get(), total);
        let data = Data::In(Buffer::new(512));
        let completion = host.admin(*log(2).entry(), data).await.1.unwrap();
        assert_eq!(completion.status().code(), Status::INVALID_FIELD);
    });
}

#[test]
fn refusals_carry_the_status_of_the_specification() {
    with_drive(3, |lab| async move {
        lab.administrators(&[ENGINEER, COLLEAGUE]).await;
        let host = lab.connect(ENGINEER).await;
        let other = lab.connect(COLLEAGUE).await;
        let no_room = Status::NAMESPACE_INSUFFICIENT_CAPACITY;
        assert_eq!(create(&host, &wanted(1, 0, false)).await.0, no_room);
        assert_eq!(delete(&host, 1).await, Status::SUCCESS);
        let mut thin = wanted(2, 0, false);
        thin.capacity_blocks = 1.into();
        let thin_refused = Status::THIN_PROVISIONING_NOT_SUPPORTED;
        assert_eq!(create(&host, &thin).await.0, thin_refused);
        assert_eq!(
            create(&host, &wanted(1, 2, false)).await.0,
            Status::INVALID_FORMAT
        );
        assert_eq!(
            create(&host, &wanted(1, 16, false)).await.0,
            Status::INVALID_FORMAT
        );
        assert_eq!(
            create(&host, &wanted(0, 0, false)).await.0,
            Status::INVALID_FIELD
        );
        let mut protected = wanted(1, 0, false);
        protected.protection = 1;
        assert_eq!(create(&host, &protected).await.0, Status::INVALID_FIELD);
        let missing = Status::INVALID_NAMESPACE;
        assert_eq!(delete(&host, 1).await, missing);
        assert_eq!(attach(&host, 1).await, missing);

        assert_eq!(create(&host, &wanted(8, 0, false)).await.1, 1);
        let shared = create(&host, &wanted(8, 0, true)).await.1;
        assert_eq!(detach(&host, 1).await, Status::NAMESPACE_NOT_ATTACHED);
        assert_eq!(attach(&host, 1).await, Status::SUCCESS);
        assert_eq!(attach(&host, 1).await, Status::NAMESPACE_ALREADY_ATTACHED);
        assert_eq!(attach(&other, 1).await, Status::NAMESPACE_IS_PRIVATE);
        assert_eq!(list(&other, Cns::ACTIVE_NAMESPACES).await, NONE);
        assert_eq!(attach(&host, shared).await, Status::SUCCESS);
        assert_eq!(attach(&other, shared).await, Status::SUCCESS);
        assert_eq!(list(&other, Cns::ACTIVE_NAMESPACES).await, [shared]);
        let own = host.controller_id().unwrap();
        for controllers in [&[][..], &[own + 100], &[own, own], &[own, own + 100]] {
            assert_eq!(
                attachment(&host, Attachment::DETACH, shared, controllers).await,
                Status::CONTROLLER_LIST_INVALID
            );
        }
        let select = attachment(&host, Attachment(2), shared, &[own]).await;
        assert_eq!(select, Status::INVALID_FIELD);
        let mut short = NamespaceManagement::create();
        short.data.length = 64.into();
        assert_eq!(
            submit(&host, short.entry(), &[0; 64]).await.0,
            Status::DATA_SGL_LENGTH_INVALID
        );
        for _ in 2..ssd::NAMESPACES_MAX {
            assert_eq!(create(&host, &wanted(1, 0, false)).await.0, Status::SUCCESS);
        }
        let (status, _) = create(&host, &wanted(1, 0, false)).await;
        assert_eq!(status, Status::NAMESPACE_IDENTIFIER_UNAVAILABLE);
    });
}

/// An ordinary volume's subsystem has none of it.
#[test]
fn a_volume_is_not_administered() {
    with_drive(4, |lab| async move {
        lab.create_volume().await.unwrap();
        let volume = "nqn.2026-11.example.flashyard:n:v";
        let host = Controller::connect(lab.address, volume, ConnectOptions::new(ENGINEER))
            .await
            .unwrap();
        let page = host.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
        let data = nvme::identify::ControllerData::read_from_bytes(&page).unwrap();
        assert_eq!(data.admin_commands.get(), 0);
        assert_eq!(delete(&host, 1).await, Status::INVALID_OPCODE);
        assert_eq!(attach(&host, 1).await, Status::INVALID_OPCODE);
        let log = host.log_page(LogPage::ENDURANCE_GROUP, 0, 0, 512).await;
        assert!(log.is_err());
    });
}

#[test]
fn only_granted_hosts_see_the_drive_and_what_they_attached_is_theirs_again_after_a_reconnect() {
    with_drive(5, |lab| async move {
        let seen = |host: &'static str| {
            let (address, options) = (lab.address, ConnectOptions::new(host));
            async move {
                let records = discover(address, &options).await.unwrap();
                records.iter().any(|found| found.subsystem_nqn == DRIVE)
            }
        };
        let connects = |host: &'static str| {
            let (address, options) = (lab.address, ConnectOptions::new(host));
            async move { Controller::connect(address, DRIVE, options).await.is_ok() }
        };
        assert!(
            !seen(ENGINEER).await && !connects(ENGINEER).await,
            "off by default"
        );
        lab.administrators(&[ENGINEER]).await;
        assert!(seen(ENGINEER).await && !seen(STRANGER).await);
        assert!(!connects(STRANGER).await);

        let host = lab.connect(ENGINEER).await;
        assert_eq!(attach(&host, 1).await, Status::SUCCESS);
        host.disconnect().await;
        let host = lab.connect(ENGINEER).await;
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, [1]);

        lab.administrators(&[COLLEAGUE]).await;
        assert!(!connects(ENGINEER).await && !seen(ENGINEER).await);
        let host = lab.connect(COLLEAGUE).await;
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, NONE);
        assert_eq!(
            attach(&host, 1).await,
            Status::SUCCESS,
            "nobody holds it now"
        );
        let closed = lab.node.close_drive("d0").await;
        assert!(
            matches!(closed, Err(NodeError::Administered(_))),
            "{closed:?}"
        );
        lab.administrators(&[]).await;
        assert!(!connects(COLLEAGUE).await && !seen(COLLEAGUE).await);
        lab.node.close_drive("d0").await.unwrap();
    });
}

/// A volume and a host never use one namespace.
#[test]
fn a_volume_is_one_more_user_of_its_namespace() {
    with_drive(6, |lab| async move {
        lab.administrators(&[ENGINEER]).await;
        let host = lab.connect(ENGINEER).await;
        assert_eq!(attach(&host, 1).await, Status::SUCCESS);
        let refused = lab.create_volume().await;
        assert!(
            matches!(refused, Err(NodeError::NamespaceAttached { nsid: 1, .. })),
            "{refused:?}"
        );
        let refused = lab.node.delete_namespace("d0", 1).await;
        assert!(
            matches!(refused, Err(NodeError::NamespaceAttached { .. })),
            "{refused:?}"
        );
        assert_eq!(delete(&host, 1).await, Status::SUCCESS);
        assert_eq!(create(&host, &wanted(16, 0, false)).await.1, 1);
        lab.create_volume().await.unwrap();
        assert_eq!(attach(&host, 1).await, Status::NAMESPACE_IS_PRIVATE);
        assert_eq!(delete(&host, 1).await, Status::NAMESPACE_IS_PRIVATE);
        assert_eq!(delete(&host, u32::MAX).await, Status::NAMESPACE_IS_PRIVATE);
        let (status, second) = create(&host, &wanted(16, 0, false)).await;
        assert_eq!(
            (status, second),
            (Status::SUCCESS, 2),
            "there is room beside it"
        );
        assert_eq!(attach(&host, second).await, Status::SUCCESS);
        lab.node.delete_volume("v").await.unwrap();
        assert_eq!(delete(&host, 1).await, Status::SUCCESS);
        assert_eq!(detach(&host, second).await, Status::SUCCESS);
        lab.create_volume().await.unwrap();
        let below = create(&host, &wanted(16, 0, false)).await.0;
        assert_eq!(
            below,
            Status::OPERATION_DENIED,
            "the volume is on the lowest"
        );
    });
}
