//! Classes that demand TLS: machines connect under it with a key that follows from one secret.

use csi::proto::volume_capability::access_mode::Mode;
use csi_calls::{Claim, capability, map, nqn};
use tonic::Code;

use crate::cluster::Cluster;
use crate::support::{Node, free_address};

/// A machine's first volume decides how it connects to a node: under TLS, then for every volume, or
/// in the clear, and then for none that demands TLS.
#[test]
fn a_machine_connects_under_tls_for_every_volume_or_for_none() {
    let [clear, encrypted, api] = [(); 3].map(|()| free_address());
    let ports = format!(
        "api.protocol = \"http\"\n[[nvme.ports]]\nlisten = \"{clear}\"\n\
         [[nvme.ports]]\nlisten = \"{encrypted}\"\ntls = true\n"
    );
    let listen = ["--api-listen".to_owned(), api.to_string()];
    let cluster = Cluster::over(vec![Node::configured_with(&ports, listen)]);
    let (first, second) = (cluster.plugin("first"), cluster.plugin("second"));
    let (at_first, at_second) = (first.caller(), second.caller());
    let directory = cluster.directory.path();
    let claim = |name: &str, tls: &str| {
        let used = capability(Mode::SingleNodeWriter, None);
        let mut claim = Claim::new(name, 16, used, directory);
        claim.create.parameters = map(&[("tls", tls)]);
        claim
    };
    let mut secret = claim("secret", "required");
    secret.bring(&at_first, "first").unwrap();
    assert_eq!(secret.published["addresses"], encrypted.to_string());
    let client = cluster.nodes[0].client();
    let has_key = |host: &str| {
        let hosts = client.hosts().unwrap().items;
        let host = hosts.iter().find(|it| it.nqn == nqn(host)).unwrap();
        host.tls
    };
    assert!(has_key("first"));
    // A key on the node, and one that the driver hands on, would not do: data goes through.
    let device = std::fs::canonicalize(&secret.target).unwrap();
    let written = [0x5a; 4096];
    std::fs::write(&device, written).unwrap();
    let mut usual = claim("usual", "none");
    usual.bring(&at_first, "first").unwrap();
    assert_eq!(usual.published["addresses"], encrypted.to_string());

    let mut open = claim("open", "none");
    open.bring(&at_second, "second").unwrap();
    assert_eq!(open.published["addresses"], clear.to_string());
    let mut later = claim("later", "required");
    later.created(&at_second).unwrap();
    let refused = later.publish_to(&at_second, "second").unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("volume open without TLS"),
        "{refused}"
    );
    assert!(!has_key("second"));
    open.take(&at_second, "second").unwrap();
    later.bring(&at_second, "second").unwrap();
    assert!(has_key("second"));

    for (claim, caller, host) in [
        (&secret, &at_first, "first"),
        (&usual, &at_first, "first"),
        (&later, &at_second, "second"),
    ] {
        claim.take(caller, host).unwrap();
    }
    for plugin in [&first, &second] {
        plugin.assert_nothing_is_attached();
    }
}

/// A node without a port under TLS, and TLS over a transport that has none.
#[test]
fn where_no_tls_can_be_nothing_is_published_in_the_clear() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let used = capability(Mode::SingleNodeWriter, None);
    let mut claim = Claim::new("pvc", 16, used, cluster.directory.path());
    claim.create.parameters = map(&[("tls", "required"), ("transport", "rdma")]);
    let refused = claim.created(&caller).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("transport is rdma"), "{refused}");
    claim.create.parameters = map(&[("tls", "required")]);
    claim.created(&caller).unwrap();
    let refused = claim.publish_to(&caller, "host").unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("no port over TCP under TLS"),
        "{refused}"
    );
    let volumes = cluster.nodes[0].client().volumes().unwrap().items;
    assert_eq!(volumes[0].hosts, []);
    claim.delete(&caller).unwrap();
}
