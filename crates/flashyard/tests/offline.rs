//! A drive that cannot be opened: the node starts, its volume is offline but keeps its identity,
//! and comes back with the drive.

mod support;

use api::{ObjectState, Severity};
use support::{Node, name};

#[test]
fn a_missing_drive_takes_only_its_volume_offline() {
    let mut node = Node::develop(&["--drives", "2"]);
    node.answer(&["volume", "create", "other", "--drive", "d1"]);
    let before = node.client().volume(&name("demo")).unwrap();
    node.kill();
    let file = node.path().join("drives/d0.img");
    let aside = node.path().join("drives/aside");
    std::fs::rename(&file, &aside).unwrap();
    node.start();

    let client = node.client();
    let offline = client.volume(&name("demo")).unwrap();
    assert_eq!(offline.state, ObjectState::Offline);
    let reason = offline.reason.clone().unwrap();
    assert!(reason.contains("d0"), "{reason}");
    assert_eq!(
        api::Volume {
            state: before.state,
            reason: None,
            ..offline
        },
        before
    );
    assert_eq!(
        client.volume(&name("other")).unwrap().state,
        ObjectState::Online
    );
    let status = client.status().unwrap();
    assert_eq!((status.drives.offline, status.volumes.offline), (1, 1));
    assert_eq!(status.problems.len(), 2, "{:?}", status.problems);
    let events = client.events(0).unwrap().items;
    let about = |object: &str| {
        events
            .iter()
            .any(|event| event.object == object && event.severity == Severity::Error)
    };
    assert!(about("drive/d0") && about("volume/demo"), "{events:?}");

    std::fs::rename(&aside, &file).unwrap();
    let spec = client.drive(&name("d0")).unwrap().spec;
    assert_eq!(
        client.add_drive(&name("d0"), &spec).unwrap().state,
        ObjectState::Online
    );
    assert_eq!(client.volume(&name("demo")).unwrap(), before);
    assert_eq!(client.status().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_drive_that_shrank_is_offline() {
    let mut node = Node::develop(&["--drives", "1"]);
    node.kill();
    let file = std::fs::File::options()
        .write(true)
        .open(node.path().join("drives/d0.img"));
    file.unwrap().set_len(8 << 20).unwrap();
    node.start();
    let drive = node.client().drive(&name("d0")).unwrap();
    assert_eq!(drive.state, ObjectState::Offline);
    let reason = drive.reason.unwrap();
    assert!(
        reason.contains("8388608") && reason.contains("16777216"),
        "{reason}"
    );
    assert_eq!(
        node.client().volume(&name("demo")).unwrap().capacity_bytes,
        16 << 20
    );
}

#[test]
fn a_drive_that_is_there_is_added_again_without_its_size() {
    let node = Node::develop(&["--drives", "2"]);
    let path = |drive: &str| {
        let spec = node.client().drive(&name(drive)).unwrap().spec;
        let api::DriveSpec::Path { path, size } = spec else {
            panic!("{spec:?}");
        };
        assert!(size.is_some());
        path
    };
    let before = node.client().drive(&name("d0")).unwrap();
    node.answer(&["drive", "add", "d0", &path("d0")]);
    assert_eq!(node.client().drive(&name("d0")).unwrap(), before);
    let another = path("d1");
    node.refuses(&[(&["drive", "add", "d0", &another], 1, &["drive d0 exists"])]);
}
