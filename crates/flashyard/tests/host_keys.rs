//! Host keys: set, made and removed on the command line, counting at once and after a crash, and
//! never shown where they do not belong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;

use access::Secret;
use initiator::{ConnectOptions, Controller, Credentials, Error, discover};
use reactor::{Reactor, ReactorConfig};
use support::Node;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

fn options(secret: Option<&str>, controller: Option<&str>) -> ConnectOptions {
    let parsed = |text: &str| text.parse::<Secret>().unwrap();
    ConnectOptions {
        credentials: secret.map(|secret| Credentials::new(parsed(secret), controller.map(parsed))),
        ..ConnectOptions::new(HOST)
    }
}

/// Connects, reads the list of namespaces, and disconnects.
fn connect(address: SocketAddr, nqn: &str, options: ConnectOptions) -> Result<(), Error> {
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let controller = Controller::connect(address, nqn, options).await?;
            assert_eq!(controller.active_namespaces().await?, [1]);
            controller.disconnect().await;
            Ok(())
        })
}

fn discovers(address: SocketAddr, options: ConnectOptions) -> bool {
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async { discover(address, &options).await.is_ok() })
}

#[test]
fn a_key_counts_at_once_and_after_a_crash() {
    let mut node = Node::develop(&[]);
    let nqn = node.client().volume(&support::name("demo")).unwrap().nqn;
    node.answer(&["host", "add", "h", "--nqn", HOST]);
    assert!(connect(node.endpoints().nvme[0], &nqn, options(None, None)).is_ok());

    let generate = ["host", "key", "h", "--generate", "--mutual"];
    let strong = ["--hash", "sha512", "--group", "ffdhe2048", "-o", "json"];
    let made = node.answer(&[&generate[..], &strong[..]].concat());
    let made: api::NewHostKey = serde_json::from_str(&made).unwrap();
    let secret = made.secret.reveal();
    let controller = made.controller_secret.as_ref().unwrap().reveal();
    for _ in 0..2 {
        let address = node.endpoints().nvme[0];
        assert!(connect(address, &nqn, options(Some(secret), None)).is_ok());
        assert!(connect(address, &nqn, options(Some(secret), Some(controller))).is_ok());
        assert!(discovers(address, options(Some(secret), None)));
        assert!(!discovers(address, options(None, None)));
        let bare = connect(address, &nqn, options(None, None));
        assert!(matches!(bare, Err(Error::SecretRequired)), "{bare:?}");
        let wrong = connect(address, &nqn, options(Some(controller), None));
        assert!(
            matches!(wrong, Err(Error::Authentication { .. })),
            "{wrong:?}"
        );
        let events = node.answer(&["event", "list"]);
        assert!(events.contains("did not prove its secret"), "{events}");
        let shown = node.answer(&["host", "key", "h"]);
        assert!(
            shown.contains("sha512") && shown.contains("ffdhe2048"),
            "{shown}"
        );
        let list = node.answer(&["host", "list"]);
        assert!(list.contains("sha512 ffdhe2048"), "{list}");
        for told in [events, shown, list, node.log()] {
            assert!(!told.contains("DHHC"), "{told}");
        }
        node.kill();
        node.start();
    }
    node.answer(&["host", "key", "h", "--remove"]);
    assert!(connect(node.endpoints().nvme[0], &nqn, options(None, None)).is_ok());
}

/// Secrets come from files, as other tools make them; what is none is refused without showing it.
#[test]
fn a_key_is_taken_from_a_file() {
    let node = Node::develop(&[]);
    let nqn = node.client().volume(&support::name("demo")).unwrap().nqn;
    node.answer(&["host", "add", "h", "--nqn", HOST]);
    let [secret, other] = [(); 2].map(|()| Secret::generate(None).reveal().to_string());
    let file = |name: &str, text: &str| {
        let path = node.path().join(name);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (good, second) = (file("good", &secret), file("second", &other));
    let set = ["host", "key", "h", "--set", &good];
    let refused = node.ask(&[&set[..], &["--controller", &good]].concat());
    assert_eq!(refused.status.code(), Some(1));
    let words = support::text(&refused.stderr);
    assert!(
        words.contains("controller_secret") && !words.contains("DHHC-1:0"),
        "{words}"
    );
    let damaged = file("damaged", &secret.replace("DHHC-1:00:", "DHHC-1:00:AAAA"));
    let refused = node.ask(&["host", "key", "h", "--set", &damaged]);
    assert_eq!(refused.status.code(), Some(1));
    let words = support::text(&refused.stderr);
    assert!(
        words.contains("secret: ") && !words.contains("AAAA"),
        "{words}"
    );
    let missing = node.ask(&["host", "key", "h", "--set", "/nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    let unknown = node.ask(&["host", "key", "nobody", "--generate"]);
    assert_eq!(unknown.status.code(), Some(1));

    node.answer(&[&set[..], &["--controller", &second, "--group", "ffdhe2048"]].concat());
    let address = node.endpoints().nvme[0];
    assert!(connect(address, &nqn, options(Some(&secret), Some(&other))).is_ok());
    let unproved = connect(address, &nqn, options(Some(&secret), Some(&secret)));
    assert!(
        matches!(unproved, Err(Error::Authentication { .. })),
        "{unproved:?}"
    );
    node.answer(&["host", "remove", "h"]);
    assert!(connect(address, &nqn, options(None, None)).is_ok());
}

/// A key that is set once more, as the Kubernetes driver does with each volume, writes nothing to
/// the pools whose volumes the host sees.
#[test]
fn a_key_that_is_set_again_is_not_written_to_pools_again() {
    let node = Node::develop(&["--drives", "4"]);
    node.answer(&["host", "add", "h", "--nqn", HOST]);
    node.answer(&[
        "volume", "create", "data", "--pool", "pool", "--size", "1MiB",
    ]);
    node.answer(&["volume", "allow", "data", "h"]);
    let (client, host) = (node.client(), support::name("h"));
    let spec = api::HostKeySpec {
        secret: Secret::generate(None).reveal().as_str().into(),
        controller_secret: None,
        hash: Default::default(),
        group: Default::default(),
    };
    client.set_host_key(&host, &spec).unwrap();
    let drives = || {
        let drive = |number: u32| node.path().join(format!("drives/d{number}.img"));
        let read = |number| std::fs::read(drive(number)).unwrap();
        (0..4).map(read).collect::<Vec<_>>()
    };
    let mut before = drives();
    support::wait_until("nothing else is written", || {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let now = drives();
        let quiet = now == before;
        before = now;
        quiet
    });
    for _ in 0..3 {
        client.set_host_key(&host, &spec).unwrap();
    }
    assert!(drives() == before, "the pool was written to");
    client.remove_host_key(&host).unwrap();
    assert!(drives() != before, "the pool knows that there is no key");
}
