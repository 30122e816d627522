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
    let cases: [(&[&str], &str); 4] = [
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
            &["--emulated", "cm7-r-7.68", "--directory", "relative"],
            "absolute",
        ),
    ];
    for (arguments, expected) in cases {
        let refused = node.ask(&[&["drive", "add", "x"], arguments].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
