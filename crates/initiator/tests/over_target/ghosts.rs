//! Writes that a lost controller still has under way: nothing is written before they have ended, so
//! that none lands on what was written anew.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use drive::Drive;
use initiator::{ConnectOptions, Namespace};
use nvme_target::{ControllerIds, Links, NodeIdentity, TargetSettings};
use reactor::{now, sim, sleep, spawn};

use crate::{Server, faulty, persistent, simulate};

const BLOCK: Lba = Lba(3);

fn noticing(keep_alive: Duration) -> ConnectOptions {
    ConnectOptions {
        keep_alive: Some(keep_alive),
        ..persistent(600)
    }
}

async fn write(namespace: &Namespace, byte: u8) -> Result<(), IoError> {
    let data = Buffer::copy_of(&[byte; 4096]);
    namespace.write(BLOCK, data, Durability::Cached).await.1
}

async fn read(namespace: &Namespace) -> u8 {
    let (found, result) = namespace.read(BLOCK, Buffer::new(4096)).await;
    result.unwrap();
    assert!(found.iter().all(|byte| *byte == found[0]), "a torn block");
    found[0]
}

/// The device has a write when its connection is reset. It is sent again, and another one is, once
/// the device has ended the first. Reads go on meanwhile.
#[test]
fn nothing_is_written_while_a_lost_controller_has_a_write_under_way() {
    for seed in 40..50 {
        simulate(seed, async move {
            let (drive, control) = faulty(64, seed);
            let server = Server::start(TargetSettings::default(), 4420, drive);
            let namespace = server.namespace(noticing(Duration::from_secs(5))).await;
            let held = Duration::from_secs(5);
            // The drive waits for half of it before it writes, and then for half of what is said.
            control.set_delay(2 * held..2 * held + Duration::from_millis(1));
            let began = now();
            let writing = spawn({
                let namespace = namespace.clone();
                async move { write(&namespace, 1).await }
            });
            sleep(Duration::from_millis(10)).await;
            control.set_delay(Duration::ZERO..Duration::from_micros(1));
            sim::reset_all();
            sleep(Duration::from_millis(500)).await;
            assert_eq!(read(&namespace).await, 0);
            assert!(now() - began < Duration::from_secs(1), "a read waited");

            writing.await.unwrap();
            let waited = now() - began;
            assert!((5..8).contains(&waited.as_secs()), "{waited:?}");
            write(&namespace, 2).await.unwrap();
            sleep(2 * held).await;
            assert_eq!(read(&namespace).await, 2);
        });
    }
}

/// A controller of another node cannot say whether the lost one has ended. So it has the time that
/// the lost one said that it takes.
#[test]
fn a_controller_that_cannot_be_reset_is_waited_for() {
    simulate(60, async {
        let (drive, control) = faulty(64, 60);
        let start = |first, drive: &Rc<Drive>| {
            let node = NodeIdentity {
                controller_ids: ControllerIds::new(first, first + 9).unwrap(),
                ..NodeIdentity::default()
            };
            let links = Links::of_node(1, &node).pop().unwrap();
            Server::over(links, TargetSettings::default(), 4420, Rc::clone(drive))
        };
        let server = start(1, &drive);
        let namespace = server.namespace(noticing(Duration::from_secs(5))).await;
        write(&namespace, 1).await.unwrap();
        server.target.shutdown(Duration::from_millis(1)).await;
        drop(server);
        let lost = now();
        control.set_delay(Duration::ZERO..Duration::from_micros(1));
        let _other = start(100, &drive);
        assert_eq!(read(&namespace).await, 1);
        assert!(now() - lost < Duration::from_secs(5), "a read waited");
        write(&namespace, 2).await.unwrap();
        let waited = now() - lost;
        assert!((61..70).contains(&waited.as_secs()), "{waited:?}");
    });
}

/// The connection breaks, or falls silent, while the device has a write for longer than the next
/// ones take: a block is what was acknowledged last, then and later.
#[test]
fn an_acknowledged_write_is_never_overtaken_by_an_earlier_one() {
    for seed in 70..80 {
        simulate(seed, async move {
            let (drive, control) = faulty(64, seed);
            let server = Server::start(TargetSettings::default(), 4420, drive);
            let namespace = server.namespace(noticing(Duration::from_secs(2))).await;
            let trouble = spawn(async move {
                loop {
                    sleep(Duration::from_millis(sim::random_below(3000))).await;
                    control.set_delay(Duration::from_secs(2)..Duration::from_secs(20));
                    sleep(Duration::from_millis(20 + sim::random_below(100))).await;
                    match sim::random_below(2) {
                        0 => sim::reset_all(),
                        _ => {
                            sim::set_partitioned(true);
                            sleep(Duration::from_millis(sim::random_below(8000))).await;
                            sim::set_partitioned(false);
                        }
                    }
                    control.set_delay(Duration::ZERO..Duration::ZERO);
                }
            })
            .cancel_on_drop();
            for number in 0..600u32 {
                let byte = number as u8;
                write(&namespace, byte).await.unwrap();
                sleep(Duration::from_millis(sim::random_below(100))).await;
                // Where the next one is a write, it may be what the device has.
                if sim::random_below(2) == 0 {
                    assert_eq!(read(&namespace).await, byte, "write {number}");
                }
            }
            drop(trouble);
        });
    }
}
