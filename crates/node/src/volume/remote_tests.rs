//! Volumes of other cores: the contract holds through the mailboxes, on a simulated reactor.

use block::conformance::{self, Plan};
use drive::{Drive, MemoryDrive};
use reactor::Reactor;
use std::sync::Arc;

use super::*;
use crate::volume::Path;
use crate::volume::watched::WatchedDrive;

const VOLUME: VolumeId = 7;

/// Two posts on the current reactor, a volume in memory on the second, and its proxy on the first.
fn remote_volume() -> (Rc<Post>, RemoteVolume) {
    let posts: Vec<Rc<Post>> = wire(2).into_iter().map(Post::start).collect();
    let drive = Drive::from(MemoryDrive::new(Geometry::new(4096, 512).unwrap()));
    let drive = WatchedDrive::new("m".to_owned(), drive, Arc::new(|_| {}));
    let volume = Volume::new(Path::to_drive(drive, 4096).unwrap());
    let remote = RemoteVolume::new(Rc::clone(&posts[0]), 1, VOLUME, volume.geometry());
    posts[1].insert(VOLUME, volume);
    (Rc::clone(&posts[1]), remote)
}

#[test]
fn a_remote_volume_keeps_the_contract() {
    for seed in [1, 2, 3] {
        Reactor::simulated(seed).run(async move {
            let (_home, remote) = remote_volume();
            conformance::check(&remote, Plan::quick(seed))
                .await
                .unwrap();
            assert!(remote.post.slots.borrow().is_empty());
        });
    }
}

#[test]
fn a_volume_that_is_gone_gives_the_buffer_back() {
    Reactor::simulated(4).run(async {
        let (home, remote) = remote_volume();
        home.remove(VOLUME);
        let (buffer, result) = remote.read(Lba(0), Buffer::new(8192)).await;
        assert_eq!((buffer.len(), result), (8192, Err(IoError::DeviceGone)));
        assert_eq!(remote.flush().await, Err(IoError::DeviceGone));
    });
}

#[test]
fn dropped_requests_leave_no_slot_behind() {
    Reactor::simulated(5).run(async {
        let (_home, remote) = remote_volume();
        let remote = Rc::new(remote);
        for start in 0..64 {
            let asked = Rc::clone(&remote);
            let task = reactor::spawn(async move {
                let buffer = Buffer::copy_of(&[start as u8; 4096]);
                asked.write(Lba(start), buffer, Durability::Durable).await.1
            });
            if start % 2 == 0 {
                reactor::yield_now().await;
            }
            task.cancel();
        }
        assert_eq!(remote.flush().await, Ok(()));
        while !remote.post.slots.borrow().is_empty() {
            reactor::sleep(std::time::Duration::from_millis(1)).await;
        }
        let (_, result) = remote.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!(result, Ok(()));
    });
}
