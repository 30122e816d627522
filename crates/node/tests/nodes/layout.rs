//! A node's control operations on two simulated cores: what is where, what is refused, what is
//! undone.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use node::{AllowedHosts, Backing, DriveSpec, Node, NodeError, NodeSpec, VolumeSpec};
use reactor::Reactor;
use reactor::cores::Cores;
use uuid::Uuid;

const MIB: u64 = 1 << 20;

/// Runs `test` with a node of two cores, all in one simulated reactor.
fn with_node<F: Future<Output = ()>>(test: impl FnOnce(Node) -> F) {
    Reactor::simulated(11).run(async move {
        let spec = NodeSpec {
            uuid: Uuid::nil(),
            cores: Vec::new(),
            ports: Vec::new(),
            map_cache_bytes: node::MAP_CACHE_BYTES,
            controller_ids: node::ControllerIds::ALL,
        };
        let node = Node::start_on(Cores::on_current(2), &spec, Arc::new(|_| {}))
            .await
            .unwrap();
        test(node.clone()).await;
        node.shutdown(Duration::from_secs(1)).await.unwrap();
        assert!(matches!(node.sessions().await, Err(NodeError::Stopped)));
    });
}

fn volume(name: &str, backing: Backing, subsystem: &str, nsid: u32) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        backing,
        block_bytes: 4096,
        subsystem: format!("nqn.2026-11.example.flashyard:n:{subsystem}")
            .parse()
            .unwrap(),
        nsid,
        uuid: Uuid::from_u128(u128::from(nsid)),
        group: node::AnaGroupId::POOLLESS,
        allowed: AllowedHosts::Any,
        tenant: None,
        rules: Some(Default::default()),
    }
}

fn on(drive: &str) -> Backing {
    Backing::Drive(drive.to_owned())
}

async fn open_memory(node: &Node, name: &str) {
    let facts = node
        .open_drive(name, DriveSpec::Memory { bytes: 4 * MIB })
        .await
        .unwrap();
    assert_eq!((facts.capacity_bytes, facts.block_bytes), (4 * MIB, 4096));
}

#[test]
fn a_drive_belongs_to_one_volume_at_a_time() {
    with_node(|node| async move {
        open_memory(&node, "a").await;
        let again = node.open_drive("a", DriveSpec::Null { bytes: MIB }).await;
        assert!(matches!(again, Err(NodeError::DriveExists(_))), "{again:?}");
        assert_eq!(
            node.create_volume(volume("v", on("a"), "v", 1))
                .await
                .unwrap(),
            4 * MIB
        );
        let second = node.create_volume(volume("w", on("a"), "w", 1)).await;
        assert!(
            matches!(second, Err(NodeError::DriveInUse { .. })),
            "{second:?}"
        );
        let same = node.create_volume(volume("v", on("a"), "v", 1)).await;
        assert!(matches!(same, Err(NodeError::VolumeExists(_))), "{same:?}");
        let closed = node.close_drive("a").await;
        assert!(
            matches!(closed, Err(NodeError::DriveInUse { .. })),
            "{closed:?}"
        );
        node.delete_volume("v").await.unwrap();
        node.create_volume(volume("w", on("a"), "w", 1))
            .await
            .unwrap();
        node.delete_volume("w").await.unwrap();
        node.close_drive("a").await.unwrap();
        let gone = node.close_drive("a").await;
        assert!(matches!(gone, Err(NodeError::UnknownDrive(_))), "{gone:?}");
    });
}

#[test]
fn a_create_that_fails_leaves_nothing() {
    with_node(|node| async move {
        for drive in ["a", "b"] {
            open_memory(&node, drive).await;
        }
        node.create_volume(volume("v", on("a"), "group", 1))
            .await
            .unwrap();
        let clash = node.create_volume(volume("w", on("b"), "group", 1)).await;
        assert!(matches!(clash, Err(NodeError::Target(_))), "{clash:?}");
        let odd = VolumeSpec {
            block_bytes: 1024,
            ..volume("w", on("b"), "group", 2)
        };
        let odd = node.create_volume(odd).await;
        assert!(matches!(odd, Err(NodeError::BlockSize { .. })), "{odd:?}");
        node.create_volume(volume("w", on("b"), "group", 2))
            .await
            .unwrap();
        node.delete_volume("v").await.unwrap();
        node.delete_volume("w").await.unwrap();
    });
}

#[test]
fn an_offline_volume_comes_online_on_whichever_core_its_drive_is() {
    with_node(|node| async move {
        let offline = Backing::Offline {
            capacity_bytes: 4 * MIB,
        };
        for (name, drive) in [("v", "a"), ("w", "b")] {
            let spec = volume(name, offline.clone(), name, 1);
            assert_eq!(node.create_volume(spec).await.unwrap(), 4 * MIB);
            let missing = node.set_backing(name, on(drive), None).await;
            assert!(
                matches!(missing, Err(NodeError::UnknownDrive(_))),
                "{missing:?}"
            );
            open_memory(&node, drive).await;
            assert_eq!(
                node.set_backing(name, on(drive), None).await.unwrap(),
                4 * MIB
            );
            let used = node.close_drive(drive).await;
            assert!(
                matches!(used, Err(NodeError::DriveInUse { .. })),
                "{used:?}"
            );
        }
    });
}

#[test]
fn a_drive_has_a_size_in_whole_blocks() {
    with_node(|node| async move {
        for bytes in [0, 1, 4095, 4097] {
            let refused = node.open_drive("m", DriveSpec::Memory { bytes }).await;
            assert!(
                matches!(refused, Err(NodeError::Size { .. })),
                "{bytes}: {refused:?}"
            );
        }
    });
}
