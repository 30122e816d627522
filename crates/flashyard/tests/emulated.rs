//! Drives that behave like a named one: their namespaces, their health, their restart.

mod support;

use api::{DriveSpec, ErrorCode, NamespaceSpec, Size};
use client::ClientError;
use support::{Node, name, text};

fn code(error: ClientError) -> ErrorCode {
    match error {
        ClientError::Refused(body) => body.code,
        error => panic!("{error}"),
    }
}

#[test]
fn a_developers_node_has_drives_that_behave_like_the_named_one() {
    let emulated = ["--profile", "cm7-r-7.68", "--scale", "0.00001"];
    let mut node = Node::develop(&[&["--drives", "2"], &emulated[..]].concat());
    let client = node.client();
    let drive = client.drive(&name("d1")).unwrap();
    assert!(matches!(
        drive.spec,
        DriveSpec::Emulated { scale_ppm: 10, .. }
    ));
    assert!(drive.persistent);
    let whole = client.namespaces(&name("d1")).unwrap();
    assert_eq!(whole.unallocated_bytes, 0);
    assert_eq!(whole.namespaces[0].bytes, drive.capacity_bytes);

    let half = Size(whole.total_bytes / 2 / 4096 * 4096);
    let spec = NamespaceSpec {
        size: half,
        block_bytes: Default::default(),
    };
    let full = client.create_namespace(&name("d1"), &spec).unwrap_err();
    assert_eq!(code(full), ErrorCode::InvalidArgument);
    let busy = client.delete_namespace(&name("d0"), 1).unwrap_err();
    assert_eq!(code(busy), ErrorCode::InUse);
    let unknown = client.delete_namespace(&name("d1"), 7).unwrap_err();
    assert_eq!(code(unknown), ErrorCode::NotFound);

    client.delete_namespace(&name("d1"), 1).unwrap();
    assert_eq!(client.drive(&name("d1")).unwrap().capacity_bytes, 0);
    let made = client.create_namespace(&name("d1"), &spec).unwrap();
    assert!(made.used_as_drive && made.bytes == half.bytes());
    node.answer(&["volume", "create", "v", "--drive", "d1", "--allow", "any"]);
    let smart = node.answer(&["drive", "smart", "d1"]);
    assert!(
        smart.contains("CM7-R") && smart.contains("percentage used"),
        "{smart}"
    );

    node.kill();
    node.start();
    let client = node.client();
    assert_eq!(
        client.drive(&name("d1")).unwrap().capacity_bytes,
        half.bytes()
    );
    assert_eq!(
        client.volume(&name("v")).unwrap().capacity_bytes,
        half.bytes()
    );
}

#[test]
fn only_drives_with_managed_namespaces_have_them_and_bad_emulations_are_explained() {
    let node = Node::develop(&["--drives", "1"]);
    let unmanaged = node.client().namespaces(&name("d0")).unwrap_err();
    assert_eq!(code(unmanaged), ErrorCode::InvalidArgument);
    let cases: [(&[&str], &str); 5] = [
        (&["--emulated", "cm8"], "no profile named"),
        (&["--emulated", "cm7-r-7.68", "--scale", "0"], "scale"),
        (
            &[
                "--emulated",
                "cm7-r-7.68",
                "--scale",
                "0.00001",
                "--dilation",
                "0",
            ],
            "dilation",
        ),
        (
            &["--emulated", "cm7-r-7.68", "--dilation", "1001"],
            "from 0.01 to 1000",
        ),
        (
            &["--emulated", "cm7-r-7.68", "--directory", "relative"],
            "absolute",
        ),
    ];
    for (arguments, expected) in cases {
        let refused = node.ask(&[&["drive", "add", "x"], arguments].concat());
        let said = text(&refused.stderr);
        let code = refused.status.code();
        assert!(matches!(code, Some(1 | 2)), "{code:?}: {said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn hosts_are_granted_a_drive_by_name_and_keep_it_through_a_kill() {
    let emulated = ["--profile", "cm7-r-7.68", "--scale", "0.00001"];
    let mut node = Node::develop(&[&["--drives", "2"], &emulated[..]].concat());
    let unknown = node.ask(&["drive", "grant", "d1", "lab"]);
    assert!(text(&unknown.stderr).contains("no host is named lab"));
    node.answer(&["host", "add", "lab", "--nqn", "nqn.2026-11.example:lab"]);
    let said = node.answer(&["drive", "grant", "d1", "lab"]);
    assert!(said.contains("administered by lab as nqn."), "{said}");
    let busy = node.ask(&["host", "remove", "lab"]);
    assert!(text(&busy.stderr).contains("administers drive d1"));
    let busy = node.ask(&["drive", "remove", "d1"]);
    assert!(text(&busy.stderr).contains("administered by host lab"));

    node.kill();
    node.start();
    let shown = node.answer(&["drive", "show", "d1"]);
    assert!(
        shown.contains("nvme connect") && shown.contains(":drive:d1"),
        "{shown}"
    );
    let said = node.answer(&["drive", "revoke", "d1", "lab"]);
    assert!(said.contains("administered by no host"), "{said}");
    node.answer(&["host", "remove", "lab"]);
    node.answer(&["drive", "remove", "d1"]);

    let plain = Node::develop(&["--drives", "1"]);
    plain.answer(&["host", "add", "lab", "--nqn", "nqn.2026-11.example:lab"]);
    let refused = plain.ask(&["drive", "grant", "d0", "lab"]);
    assert!(text(&refused.stderr).contains("is not emulated"));
}

/// A drive a thousand times as fast as the real one: nothing keeps up with that.
#[test]
fn a_drive_that_this_machine_is_too_slow_for_is_an_event_and_shown() {
    let emulated = ["--profile", "cm7-r-7.68", "--scale", "0.00001"];
    let node = Node::develop(&[&["--drives", "1", "--dilation", "0.01"], &emulated[..]].concat());
    let volume = node.client().volume(&name("demo")).unwrap();
    let target = format!("tcp://{}/{}", node.endpoints().nvme[0], volume.nqn);
    node.answer(&["perf", &target, "--number-ios", "200"]);
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("requests took a tenth longer"), "{events}");
    let shown = node.answer(&["drive", "show", "d0"]);
    assert!(shown.contains("completed late"), "{shown}");
    let health = node.client().drive_health(&name("d0")).unwrap();
    assert!(health.completed_late > 0, "{health:?}");
}
