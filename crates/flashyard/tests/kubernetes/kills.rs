//! The driver's process killed between calls and in the midst of them, and the storage node
//! between them: calls that are repeated converge, nothing is attached twice, no synced byte is
//! lost, and nothing is left at the end.

use std::time::Duration;

use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::{DeleteSnapshotRequest, DeleteVolumeRequest};
use csi_calls::{Caller, Claim, capability};
use tonic::{Code, Status};

use crate::cluster::{Cluster, Plugin, write_file};
use crate::support::wait_for;

const HOST: &str = "host";

/// A call on a volume's way.
type Call = fn(&mut Claim, &Caller) -> Result<(), Status>;

/// The whole way of a volume, call by call.
const WAY: [(&str, Call); 13] = [
    ("create", |claim, caller| claim.created(caller)),
    ("publish", |claim, caller| claim.publish_to(caller, HOST)),
    ("stage", |claim, caller| claim.stage(caller)),
    ("node publish", |claim, caller| {
        claim.node_publish(caller, false)
    }),
    ("write", |claim, _| {
        if claim.target.join("written").exists() {
            return Ok(());
        }
        write_file(&claim.target, "written", &contents());
        Ok(())
    }),
    ("snapshot", |claim, caller| {
        claim.snapshot(caller, "snap").map(drop)
    }),
    ("expand", |claim, caller| claim.expand(caller, 400)),
    ("node expand", |claim, caller| {
        claim.node_expand(caller, 400)
    }),
    ("read", |claim, _| {
        assert_eq!(
            std::fs::read(claim.target.join("written")).unwrap(),
            contents()
        );
        Ok(())
    }),
    ("node unpublish", |claim, caller| {
        claim.node_unpublish(caller)
    }),
    ("unstage", |claim, caller| claim.unstage(caller)),
    ("unpublish", |claim, caller| {
        claim.unpublish_from(caller, HOST)
    }),
    ("delete", |claim, caller| claim.delete(caller)),
];

fn contents() -> Vec<u8> {
    (0..200_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// Repeats a call as an orchestrator does, until it succeeds.
fn repeat(call: Call, name: &str, claim: &mut Claim, caller: &Caller) {
    wait_for(name, || match call(claim, caller) {
        Ok(()) => Some(()),
        Err(error) => {
            let passing = [Code::Aborted, Code::Unavailable, Code::Internal];
            assert!(passing.contains(&error.code()), "{name}: {error}");
            None
        }
    });
}

/// With XFS, which grows online with fewer rights than ext4.
fn claim(cluster: &Cluster) -> Claim {
    let use_of = capability(Mode::SingleNodeWriter, Some("xfs"));
    Claim::new("pvc-killed", 320, use_of, cluster.directory.path())
}

/// What a volume's way leaves: its snapshot, which goes, and nothing else.
fn end(cluster: &Cluster, plugin: &Plugin, caller: &Caller) {
    let client = cluster.nodes[0].client();
    let snapshots = client.snapshots().unwrap().items;
    assert_eq!(snapshots.len(), 1, "{snapshots:?}");
    let gone = DeleteSnapshotRequest {
        snapshot_id: snapshots[0].name.clone(),
        ..DeleteSnapshotRequest::default()
    };
    caller.delete_snapshot(gone).unwrap();
    assert!(client.volumes().unwrap().items.is_empty());
    assert!(client.snapshots().unwrap().items.is_empty());
    plugin.assert_nothing_is_attached();
    let absent = DeleteVolumeRequest {
        volume_id: "none".to_owned(),
        ..DeleteVolumeRequest::default()
    };
    caller.delete_volume(absent).unwrap();
}

/// Between every two calls the process is killed, and each call is made twice.
#[test]
fn a_process_that_is_killed_between_calls_knows_nothing_and_needs_nothing() {
    let cluster = Cluster::of(1);
    let mut plugin = cluster.plugin(HOST);
    let mut claim = claim(&cluster);
    for (name, call) in WAY {
        for _ in 0..2 {
            repeat(call, name, &mut claim, &plugin.caller());
            assert!(plugin.attached().len() <= 1, "{name}");
            plugin.kill();
            plugin.start();
        }
    }
    end(&cluster, &plugin, &plugin.caller());
}

/// The process is killed while it works on each call, at instants that move on with each round.
#[test]
fn a_call_that_a_kill_interrupts_is_made_again() {
    let cluster = Cluster::of(1);
    let mut plugin = cluster.plugin(HOST);
    for (round, delay_ms) in [3_u64, 20, 80].into_iter().enumerate() {
        let mut claim = claim(&cluster);
        claim.create.name = format!("pvc-{round}");
        for (name, call) in WAY {
            let caller = plugin.caller();
            let mut interrupted = claim.clone();
            let calling = std::thread::spawn(move || {
                let done = call(&mut interrupted, &caller);
                (interrupted, done)
            });
            std::thread::sleep(Duration::from_millis(delay_ms));
            plugin.kill();
            // It may have been answered, or not.
            let (answered, done) = calling.join().unwrap();
            if done.is_ok() {
                claim = answered;
            }
            plugin.start();
            repeat(call, name, &mut claim, &plugin.caller());
            assert!(plugin.attached().len() <= 1, "{name}");
        }
        end(&cluster, &plugin, &plugin.caller());
    }
}

/// The storage node is killed between calls; the file that was synced is there after all of it.
#[test]
fn a_storage_node_that_is_killed_between_calls_is_waited_for() {
    let mut cluster = Cluster::of(1);
    let plugin = cluster.plugin(HOST);
    let caller = plugin.caller();
    let mut claim = claim(&cluster);
    for (name, call) in WAY {
        repeat(call, name, &mut claim, &caller);
        if ["create", "publish", "write", "expand", "unpublish"].contains(&name) {
            cluster.nodes[0].kill();
            cluster.nodes[0].start();
        }
    }
    end(&cluster, &plugin, &caller);
}
