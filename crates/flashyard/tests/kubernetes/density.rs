//! As many volumes on one host as a busy one has: how long publishing them takes.

use std::time::{Duration, Instant};

use csi::proto::volume_capability::access_mode::Mode;
use csi_calls::{Answer, Caller, Claim, capability, map, nqn};

use crate::cluster::{Cluster, Plugin};

const VOLUMES: usize = 300;

/// Calls that a sidecar makes at a time.
const CALLS: usize = 10;

/// Does `call` for every claim, several at a time; gives how long that took.
fn each(
    plugin: &Plugin,
    claims: &mut [Claim],
    call: fn(&mut Claim, &Caller) -> Answer<()>,
) -> Duration {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for share in claims.chunks_mut(VOLUMES.div_ceil(CALLS)) {
            scope.spawn(move || {
                let caller = plugin.caller();
                for claim in share {
                    call(claim, &caller).unwrap();
                }
            });
        }
    });
    begun.elapsed()
}

/// Prints how long 300 volumes take to be made, published to one host, staged as devices there, and
/// all the way back, with a subsystem each and with one for all.
#[test]
fn a_host_gets_three_hundred_volumes() {
    for sharing in ["dedicated", "shared"] {
        let cluster = Cluster::of(1);
        let plugin = cluster.plugin("worker");
        let claim = |number: usize| {
            let raw = capability(Mode::SingleNodeWriter, None);
            let name = format!("pvc-{number}");
            let mut claim = Claim::new(&name, 16, raw, cluster.directory.path());
            claim.create.parameters = map(&[("sharing", sharing), ("hostAuth", "dhchap")]);
            claim
        };
        let mut claims: Vec<Claim> = (0..VOLUMES).map(claim).collect();
        let made = each(&plugin, &mut claims, Claim::created);
        let published = each(&plugin, &mut claims, |claim, caller| {
            claim.publish_to(caller, "worker")
        });
        let client = cluster.nodes[0].client();
        let hosts = client.hosts().unwrap().items;
        assert_eq!(hosts.len(), 1);
        assert_eq!(hosts[0].nqn, nqn("worker"));
        let volumes = client.volumes().unwrap().items;
        let for_it = |volume: &&api::Volume| volume.hosts == [hosts[0].name.clone()];
        assert_eq!(volumes.iter().filter(for_it).count(), VOLUMES);
        let staged = each(&plugin, &mut claims, |claim, caller| claim.stage(caller));
        assert_eq!(plugin.attached().len(), VOLUMES);
        let unstaged = each(&plugin, &mut claims, |claim, caller| claim.unstage(caller));
        plugin.assert_nothing_is_attached();
        let taken = each(&plugin, &mut claims, |claim, caller| {
            claim.unpublish_from(caller, "worker")
        });
        let deleted = each(&plugin, &mut claims, |claim, caller| claim.delete(caller));
        assert!(client.volumes().unwrap().items.is_empty());
        println!(
            "{VOLUMES} volumes, {sharing}: made in {made:.1?}, published in {published:.1?}, \
             staged in {staged:.1?}, unstaged in {unstaged:.1?}, unpublished in {taken:.1?}, \
             deleted in {deleted:.1?}"
        );
    }
}
