//! A thousand volumes: all are listed, in order, and all come back.

mod support;

use api::{DriveSpec, Name, Size, VolumeSpec};
use support::{Node, name};

const VOLUMES: usize = 1000;

#[test]
fn a_thousand_volumes_are_listed_and_come_back() {
    let mut node = Node::configured("[node]\nname = \"many\"\n");
    let client = node.client();
    for number in 0..VOLUMES {
        let drive = name(&format!("d{number:04}"));
        client
            .add_drive(
                &drive,
                &DriveSpec::Null {
                    size: Size(1 << 20),
                },
            )
            .unwrap();
        let spec = VolumeSpec {
            drive: Some(drive),
            ..VolumeSpec::default()
        };
        client
            .create_volume(&name(&format!("v{number:04}")), &spec)
            .unwrap();
    }
    let listed = client.volumes().unwrap().items;
    assert_eq!(listed.len(), VOLUMES);
    let names: Vec<&Name> = listed.iter().map(|volume| &volume.name).collect();
    assert!(names.is_sorted());
    assert_eq!(
        node.answer(&["volume", "list"]).lines().count(),
        VOLUMES + 1
    );
    node.kill();
    node.start();
    assert_eq!(node.client().volumes().unwrap().items, listed);
}
