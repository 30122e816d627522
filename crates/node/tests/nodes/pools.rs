//! Pools in a node of two simulated cores: their drives on both, their volumes served through the
//! whole network stack.

use std::sync::Arc;
use std::time::Duration;

use crate::scene::loopback;
use block::conformance::{Plan, check};
use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Namespace};
use node::{
    AllowedHosts, Backing, DriveLabel, DriveSpec, Level, Node, NodeError, NodeSpec, PoolError,
    PoolOpening, PoolSpec, PoolState, VolumeId, VolumeOptions, VolumeSpec,
};
use nvme::identify::{Cns, NamespaceData, nsfeat};
use reactor::Reactor;
use reactor::cores::Cores;
use uuid::Uuid;
use zerocopy::FromBytes;

const MIB: u64 = 1 << 20;
const DRIVES: [&str; 6] = ["d0", "d1", "d2", "d3", "d4", "d5"];

async fn node(uuid: Uuid) -> Node {
    let spec = NodeSpec {
        uuid,
        cores: Vec::new(),
        ports: vec![loopback()],
        map_cache_bytes: node::MAP_CACHE_BYTES,
        controller_ids: node::ControllerIds::ALL,
    };
    let started = Node::start_on(Cores::on_current(2), &spec, Arc::new(|_| {}));
    let node = started.await.unwrap();
    node.listen().await.unwrap();
    node
}

/// Runs `test` with a node of two cores and six drives, all in one simulated reactor.
fn with_drives<F: Future<Output = ()>>(test: impl FnOnce(Node) -> F) {
    Reactor::simulated(12).run(async move {
        let node = node(Uuid::from_u128(1)).await;
        for drive in DRIVES {
            let memory = DriveSpec::Memory { bytes: 16 * MIB };
            node.open_drive(drive, memory).await.unwrap();
        }
        test(node.clone()).await;
        node.shutdown(Duration::from_secs(1)).await.unwrap();
    });
}

fn names(drives: &[&str]) -> Vec<String> {
    drives.iter().map(|drive| (*drive).to_owned()).collect()
}

fn raid6(drives: &[&str]) -> PoolSpec {
    PoolSpec {
        taking: node::Taking::Blank,
        level: Level::Raid6,
        width: None,
        drives: names(drives),
    }
}

async fn thin(node: &Node, name: &str, bytes: u64) -> VolumeId {
    let options = VolumeOptions {
        bytes,
        ..VolumeOptions::default()
    };
    node.create_pool_volume("p", name, options).await.unwrap()
}

/// Serves a volume of the pool `p` and connects to it.
async fn serve(node: &Node, name: &str, id: VolumeId, block_bytes: u32) -> (Controller, Namespace) {
    let nqn = format!("nqn.2026-11.example.flashyard:n:{name}");
    let spec = VolumeSpec {
        name: name.to_owned(),
        backing: Backing::Pool {
            pool: "p".into(),
            volume: id,
        },
        block_bytes,
        subsystem: nqn.parse().unwrap(),
        nsid: 1,
        uuid: Uuid::from_u128(u128::from(id.0)),
        group: node::AnaGroupId::POOLLESS,
        allowed: AllowedHosts::Any,
        tenant: None,
        rules: Some(Default::default()),
    };
    node.create_volume(spec).await.unwrap();
    let options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
    let controller = Controller::connect(node.addresses()[0], &nqn, options);
    let controller = controller.await.unwrap();
    (controller.clone(), controller.namespace(1).await.unwrap())
}

async fn write(device: &Namespace, at: u64, byte: u8) {
    let mut buffer = Buffer::zeroed(4096);
    buffer.fill(byte);
    let (_, result) = device.write(Lba(at), buffer, Durability::Durable).await;
    result.unwrap();
}

async fn read(device: &Namespace, at: u64) -> u8 {
    let (buffer, result) = device.read(Lba(at), Buffer::new(4096)).await;
    result.unwrap();
    assert!(buffer.iter().all(|byte| *byte == buffer[0]));
    buffer[0]
}

#[test]
fn volumes_of_a_pool_keep_the_contract_over_the_network() {
    with_drives(|node| async move {
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
        for (name, block_bytes, seed) in [("large", 4096, 3), ("small", 512, 4)] {
            let id = thin(&node, name, 8 * MIB).await;
            let (_controller, device) = serve(&node, name, id, block_bytes).await;
            check(&device, Plan::quick(seed)).await.unwrap();
            let geometry = device.geometry();
            assert_eq!(geometry.block_bytes, block_bytes);
            assert!(geometry.deallocates);
            let atomic = geometry.power_fail_atomic_blocks * block_bytes;
            assert!(atomic >= 60 << 10, "{geometry:?}");
            let boundary = geometry.power_fail_atomic_boundary_blocks * block_bytes;
            assert_eq!(boundary, 1 << 20);
        }
    });
}

#[test]
fn a_connected_host_sees_a_volume_grow_and_shrink() {
    with_drives(|node| async move {
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
        let id = thin(&node, "v", 4 * MIB).await;
        let (controller, device) = serve(&node, "v", id, 4096).await;
        write(&device, 1023, 7).await;
        node.resize_pool_volume("p", id, 8 * MIB, false)
            .await
            .unwrap();
        assert_eq!(node.volume_resized("v").await.unwrap(), 8 * MIB);
        let grown = controller.namespace(1).await.unwrap();
        assert_eq!(grown.geometry().block_count, 2048);
        write(&grown, 2047, 9).await;
        assert_eq!(read(&grown, 1023).await, 7);
        let refused = node.resize_pool_volume("p", id, 4 * MIB, false).await;
        assert!(
            matches!(
                refused,
                Err(NodeError::Pool {
                    error: PoolError::Invalid(_),
                    ..
                })
            ),
            "{refused:?}"
        );
        node.resize_pool_volume("p", id, 4 * MIB, true)
            .await
            .unwrap();
        assert_eq!(node.volume_resized("v").await.unwrap(), 4 * MIB);
        let beyond = grown.read(Lba(2047), Buffer::new(4096)).await;
        assert!(beyond.1.is_err());
    });
}

/// NUSE, in blocks of the namespace, once what was asked for is merged and counted; NSFEAT says
/// that it is thin.
async fn in_use(controller: &Controller) -> u64 {
    let mut used = 0;
    for _ in 0..3 {
        let bytes = controller.identify_structure(Cns::NAMESPACE, 1).await;
        let data = NamespaceData::read_from_bytes(&bytes.unwrap()).unwrap();
        assert_eq!(data.features & nsfeat::THIN, nsfeat::THIN);
        assert!(data.used_blocks <= data.capacity_blocks);
        used = data.used_blocks.get();
        reactor::sleep(Duration::from_secs(7)).await;
    }
    used
}

#[test]
fn a_host_is_told_what_its_thin_volume_has_in_use() {
    with_drives(|node| async move {
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
        for (name, block_bytes) in [("large", 4096), ("small", 512)] {
            let id = thin(&node, name, 8 * MIB).await;
            let (controller, device) = serve(&node, name, id, block_bytes).await;
            let in_pages = async || in_use(&controller).await * u64::from(block_bytes) / 4096;
            let page = 4096 / u64::from(block_bytes);
            assert_eq!(in_pages().await, 0);
            for at in [0, 300, 1000] {
                write(&device, at * page, 1).await;
            }
            assert_eq!(in_pages().await, 3);
            write(&device, 300 * page, 2).await;
            let range = BlockRange::new(Lba(0), 20 * page);
            device.deallocate(range).await.unwrap();
            assert_eq!(in_pages().await, 2);
            let taken = vec![(id, format!("{name}-1"))];
            node.snapshot_pool_volumes("p", taken).await.unwrap();
            write(&device, 300 * page, 3).await;
            write(&device, 301 * page, 3).await;
            assert_eq!(in_pages().await, 3, "what is shared counts once");
            node.resize_pool_volume("p", id, 16 * MIB, false)
                .await
                .unwrap();
            node.volume_resized(name).await.unwrap();
            let grown = controller.namespace(1).await.unwrap();
            write(&grown, 4095 * page, 4).await;
            assert_eq!(in_pages().await, 4);
        }
    });
}

#[test]
fn a_snapshot_is_one_instant_of_several_volumes_and_can_be_gone_back_to() {
    with_drives(|node| async move {
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
        let (a, b) = (thin(&node, "a", MIB).await, thin(&node, "b", MIB).await);
        let (_a, on_a) = serve(&node, "a", a, 4096).await;
        let (_b, on_b) = serve(&node, "b", b, 4096).await;
        write(&on_a, 0, 1).await;
        write(&on_b, 0, 2).await;
        let both = vec![(a, "a-1".to_owned()), (b, "b-1".to_owned())];
        let taken = node.snapshot_pool_volumes("p", both).await.unwrap();
        write(&on_a, 0, 3).await;
        write(&on_b, 0, 4).await;
        let copy = node.clone_pool_snapshot("p", taken[1], "copy").await;
        let (_c, on_copy) = serve(&node, "copy", copy.unwrap(), 4096).await;
        assert_eq!((read(&on_copy, 0).await, read(&on_b, 0).await), (2, 4));
        node.rollback_pool_volume("p", a, taken[0]).await.unwrap();
        assert_eq!(read(&on_a, 0).await, 1);
        node.delete_pool_snapshot("p", taken[0]).await.unwrap();
        let (volumes, snapshots) = node.pool_contents("p").await.unwrap();
        assert_eq!((volumes.len(), snapshots.len()), (3, 1));
        let name = vec![(a, "b-1".to_owned())];
        let taken = node.snapshot_pool_volumes("p", name).await;
        assert!(
            matches!(
                taken,
                Err(NodeError::Pool {
                    error: PoolError::NameTaken(_),
                    ..
                })
            ),
            "{taken:?}"
        );
    });
}

#[test]
fn a_pool_is_let_go_of_and_opened_with_its_drives_in_any_order() {
    with_drives(|node| async move {
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
        let id = thin(&node, "v", MIB).await;
        let (_controller, device) = serve(&node, "v", id, 4096).await;
        write(&device, 5, 8).await;
        let used = node.export_pool("p").await;
        assert!(matches!(used, Err(NodeError::PoolInUse { .. })), "{used:?}");
        node.delete_volume("v").await.unwrap();
        node.export_pool("p").await.unwrap();
        let label = node.drive_label("d3").await.unwrap();
        assert!(
            matches!(&label, DriveLabel::Pool(label) if label.holder.is_none()),
            "{label:?}"
        );
        let order = ["d4", "d1", "d5", "d0", "d3"];
        let opened = node
            .open_pool("p", names(&order), PoolOpening::default())
            .await
            .unwrap();
        assert_eq!(opened.status.drives.len(), 6);
        assert_eq!(opened.status.state, PoolState::Degraded);
        let (_controller, device) = serve(&node, "v", id, 4096).await;
        assert_eq!(read(&device, 5).await, 8);
        node.delete_volume("v").await.unwrap();
        node.destroy_pool("p").await.unwrap();
        assert_eq!(node.drive_label("d3").await.unwrap(), DriveLabel::Blank);
        // The one that was left out still knows the pool, until it is made to forget.
        let stale = node.create_pool("p", raid6(&DRIVES)).await.unwrap_err();
        assert!(stale.to_string().contains("drive d2"), "{stale}");
        node.wipe_drive("d2").await.unwrap();
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
    });
}

#[test]
fn drives_join_fail_and_leave_a_pool_that_is_in_use() {
    with_drives(|node| async move {
        node.create_pool("p", raid6(&DRIVES[..5])).await.unwrap();
        let id = thin(&node, "v", 2 * MIB).await;
        let (_controller, device) = serve(&node, "v", id, 4096).await;
        for block in 0..512 {
            write(&device, block, block as u8).await;
        }
        let used = node.close_drive("d1").await;
        assert!(
            matches!(&used, Err(NodeError::DriveInUse { user, .. }) if user == "pool p"),
            "{used:?}"
        );
        node.add_pool_drive("p", "d5", node::Taking::Blank)
            .await
            .unwrap();
        node.fail_pool_drive("p", "d1").await.unwrap();
        assert_eq!(read(&device, 100).await, 100);
        // What was on the drive moves to the others; then the pool forgets it.
        while node.pool_facts("p").await.unwrap().status.drives.len() > 5 {
            reactor::sleep(Duration::from_millis(50)).await;
        }
        node.close_drive("d1").await.unwrap();
        node.remove_pool_drive("p", "d2").await.unwrap();
        assert_eq!(node.drive_label("d2").await.unwrap(), DriveLabel::Blank);
        let facts = node.pool_facts("p").await.unwrap();
        assert_eq!(facts.names.len(), 4);
        assert_eq!(facts.status.state, PoolState::Online);
        let report = node.scrub_pool("p").await.unwrap();
        assert!(report.stripes > 0 && report.lost.is_empty(), "{report:?}");
        for block in 0..512 {
            assert_eq!(read(&device, block).await, block as u8);
        }
    });
}

#[test]
fn what_cannot_be_a_pool_is_explained() {
    with_drives(|node| async move {
        let few = node
            .create_pool("p", raid6(&DRIVES[..3]))
            .await
            .unwrap_err();
        assert!(
            few.to_string()
                .contains("raid6 needs 4 to 32 drives; there are 3"),
            "{few}"
        );
        let twice = node
            .create_pool("p", raid6(&["d0", "d1", "d2", "d1"]))
            .await;
        assert!(matches!(twice, Err(NodeError::DriveTwice(_))), "{twice:?}");
        let nothing = node
            .open_pool("p", names(&DRIVES), PoolOpening::default())
            .await
            .unwrap_err();
        assert!(
            nothing.to_string().contains("no pool is on any"),
            "{nothing}"
        );
        let tiny = DriveSpec::Memory { bytes: MIB };
        node.open_drive("tiny", tiny).await.unwrap();
        let small = node
            .create_pool("p", raid6(&["d0", "tiny", "d1", "d2"]))
            .await;
        let small = small.unwrap_err().to_string();
        assert!(
            small.contains("tiny") && small.contains("1048576"),
            "{small}"
        );
        node.create_pool("p", raid6(&DRIVES)).await.unwrap();
        let again = node.create_pool("q", raid6(&["d0"])).await;
        assert!(
            matches!(again, Err(NodeError::DriveInUse { .. })),
            "{again:?}"
        );
    });
}
