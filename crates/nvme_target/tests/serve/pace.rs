//! Limits and shares: when commands start, counted in virtual time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{Controller, Namespace};
use nvme_target::TargetSettings;
use nvme_target::transport::ConnectionSettings;
use qos::{Limiter, Part, Rate, Rates, Room, Share, Terms};

use crate::device::Memory;
use crate::io::geometry;
use crate::{Fixture, SUBSYSTEM, cores, namespace, nqn, options, simulate, subsystem};

fn iops(rate: u64) -> Rate {
    Rate {
        iops: Some(rate),
        ..Rate::default()
    }
}

fn limited(rates: Rates) -> Arc<Terms> {
    let burst_ms = 10;
    let limiter = Limiter::new(&Rates { burst_ms, ..rates });
    Arc::new(Terms {
        limiters: vec![Arc::new(limiter)],
        part: None,
    })
}

fn total(rate: u64) -> Arc<Terms> {
    limited(Rates {
        total: iops(rate),
        ..Rates::default()
    })
}

/// Commands that have ended well, and those that have not.
#[derive(Default)]
struct Done {
    well: Cell<u64>,
    failed: Cell<u64>,
}

/// What a host does to a volume.
#[derive(Clone, Copy)]
enum Load {
    Read(usize),
    Write(usize),
}

/// A host that always has `depth` commands outstanding, for as long as it is there.
fn load(namespace: &Namespace, load: Load, depth: usize) -> Rc<Done> {
    let done = Rc::new(Done::default());
    for _ in 0..depth {
        let (namespace, done) = (namespace.clone(), Rc::clone(&done));
        drop(reactor::spawn(async move {
            loop {
                let ended = match load {
                    Load::Read(bytes) => namespace.read(Lba(0), Buffer::new(bytes)).await.1,
                    Load::Write(bytes) => {
                        let data = Buffer::zeroed(bytes);
                        namespace.write(Lba(0), data, Durability::Cached).await.1
                    }
                };
                let counter = if ended.is_ok() {
                    &done.well
                } else {
                    &done.failed
                };
                counter.set(counter.get() + 1);
                if ended.is_err() {
                    return;
                }
            }
        }));
    }
    done
}

async fn open(controller: &Controller) -> Namespace {
    controller.namespace(1).await.unwrap()
}

/// How many end in so many seconds of virtual time.
async fn in_seconds(done: &Done, seconds: u64) -> u64 {
    let before = done.well.get();
    reactor::sleep(Duration::from_secs(seconds)).await;
    done.well.get() - before
}

fn assert_within(found: u64, wanted: u64, percent: u64) {
    let error = found.abs_diff(wanted) * 100;
    assert!(error <= wanted * percent, "{found}, not {wanted}");
}

/// A volume does what it is limited to, in commands or bytes, in either direction, to 2% and less.
#[test]
fn a_limited_volume_is_held_to_its_limit() {
    simulate(60, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        fixture.device.delay.set(Duration::from_micros(100));
        let controller = fixture.connect(options()).await;
        let volume = open(&controller).await;
        let bandwidth = Rate {
            bytes_per_second: Some(16 << 20),
            ..Rate::default()
        };
        let read = load(&volume, Load::Read(4096), 32);
        for rate in [100, 1000, 30_000] {
            fixture
                .target
                .set_terms(&nqn(SUBSYSTEM), 1, &total(rate))
                .unwrap();
            reactor::sleep(Duration::from_secs(1)).await;
            assert_within(in_seconds(&read, 3).await, rate * 3, 1);
        }
        let write = load(&volume, Load::Write(65536), 8);
        let both = Rates {
            read: iops(2000),
            write: bandwidth,
            ..Rates::default()
        };
        fixture
            .target
            .set_terms(&nqn(SUBSYSTEM), 1, &limited(both))
            .unwrap();
        reactor::sleep(Duration::from_secs(1)).await;
        let (reads, writes) = (read.well.get(), write.well.get());
        reactor::sleep(Duration::from_secs(3)).await;
        assert_within(read.well.get() - reads, 6000, 1);
        assert_within(write.well.get() - writes, 3 * 256, 1);
        let counters = &fixture.target.counters().namespaces[0];
        assert!(counters.delayed > 10_000 && counters.delay > Duration::from_secs(60));
    });
}

/// Two cores together do what one volume may do.
#[test]
fn cores_share_one_limit() {
    simulate(61, async {
        let (mut targets, mut counts) = (Vec::new(), Vec::new());
        let terms = total(5000);
        for (target, address, _) in cores::start(2) {
            target.set_terms(&nqn(SUBSYSTEM), 1, &terms).unwrap();
            let connected = Controller::connect(address, SUBSYSTEM, options()).await;
            let controller = connected.unwrap();
            counts.push(load(&open(&controller).await, Load::Read(4096), 16));
            targets.push((target, controller));
        }
        reactor::sleep(Duration::from_secs(1)).await;
        let before: u64 = counts.iter().map(|done| done.well.get()).sum();
        reactor::sleep(Duration::from_secs(4)).await;
        let after: u64 = counts.iter().map(|done| done.well.get()).sum();
        assert_within(after - before, 20_000, 1);
        for done in &counts {
            assert!(done.well.get() > 1000, "one core takes it all");
        }
    });
}

/// A change holds for commands that wait already, and no limit any more lets them all go.
#[test]
fn a_change_holds_at_once() {
    simulate(62, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let volume = open(&controller).await;
        let terms = |terms| {
            fixture
                .target
                .set_terms(&nqn(SUBSYSTEM), 1, &terms)
                .unwrap()
        };
        terms(limited(Rates {
            total: Rate {
                bytes_per_second: Some(4096),
                ..Rate::default()
            },
            ..Rates::default()
        }));
        let done = load(&volume, Load::Read(65536), 16);
        assert!(in_seconds(&done, 5).await <= 1, "16 s for each");
        terms(total(1000));
        reactor::sleep(Duration::from_millis(100)).await;
        assert_within(in_seconds(&done, 2).await, 2000, 1);
        fixture.device.delay.set(Duration::from_millis(1));
        terms(Arc::new(Terms::default()));
        assert!(in_seconds(&done, 1).await > 5000);
    });
}

/// Commands that wait hold up neither the end of their connection nor that of their volume, and
/// leave no debt behind.
#[test]
fn who_waits_holds_up_nothing() {
    simulate(63, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let terms = total(1);
        let set = fixture.target.set_terms(&nqn(SUBSYSTEM), 1, &terms);
        set.unwrap();
        let controller = fixture.connect(options()).await;
        let done = load(&open(&controller).await, Load::Read(4096), 32);
        reactor::sleep(Duration::from_secs(5)).await;
        let before = reactor::now();
        controller.disconnect().await;
        reactor::sleep(Duration::from_millis(200)).await;
        assert!(reactor::now() - before < Duration::from_secs(1));
        assert_eq!(fixture.target.counters().connections, 0);
        assert!(done.failed.get() == 32 && done.well.get() <= 7);

        let controller = fixture.connect(options()).await;
        let done = load(&open(&controller).await, Load::Read(4096), 32);
        assert_within(in_seconds(&done, 10).await, 10, 10);
        let before = reactor::now();
        let removed = fixture.target.remove_namespace(&nqn(SUBSYSTEM), 1).await;
        removed.unwrap();
        reactor::sleep(Duration::from_millis(200)).await;
        assert!(reactor::now() - before < Duration::from_secs(1));
        assert_eq!(done.failed.get(), 32);
    });
}

/// A volume whose commands wait, for its limit or for its device, holds up no other of the same
/// queue: neither do its reads take all the room for data to be sent, nor its writes that for data
/// to come.
#[test]
fn a_volume_that_waits_holds_up_no_other_of_its_queue() {
    let large = 128 << 10;
    // Room for eight of them.
    let settings = TargetSettings {
        connection: ConnectionSettings {
            write_bytes_max: 1 << 20,
            ..ConnectionSettings::default()
        },
        read_bytes_max: 1 << 20,
        ..TargetSettings::default()
    };
    for (seed, waiting, is_limited) in [
        (66, Load::Read(large), true),
        (67, Load::Write(large), true),
        (68, Load::Read(large), false),
        (69, Load::Write(large), false),
    ] {
        simulate(seed, async {
            let fixture = Fixture::start(settings, geometry(4096, 64));
            let device = Rc::new(Memory::new(geometry(4096, 64)));
            let (target, name) = (&fixture.target, nqn(SUBSYSTEM));
            target.add_namespace(&name, namespace(2), device).unwrap();
            match is_limited {
                true => target.set_terms(&name, 1, &total(1)).unwrap(),
                false => fixture.device.delay.set(Duration::from_secs(10)),
            }
            let controller = fixture.connect(options()).await;
            let slow = load(&open(&controller).await, waiting, 30);
            reactor::sleep(Duration::from_secs(5)).await;
            let free = controller.namespace(2).await.unwrap();
            for own in [Load::Read(16384), Load::Write(16384)] {
                let done = load(&free, own, 2);
                reactor::sleep(Duration::from_millis(100)).await;
                let done = done.well.get();
                assert!(done > 20, "{done} beside one that waits, seed {seed}");
            }
            assert!(slow.failed.get() == 0 && slow.well.get() < 30);
        });
    }
}

/// A host and its volume in a place that others share.
struct Guest {
    volume: Namespace,
    _controller: Controller,
}

/// Volumes that share one place, with these minimums and room for so many commands.
async fn neighbours(fixture: &Fixture, minimums: &[Option<u64>], room: u32) -> Vec<Guest> {
    let mut guests = Vec::new();
    for (index, minimum) in minimums.iter().enumerate() {
        let name = format!("{SUBSYSTEM}-{index}");
        let target = &fixture.target;
        target
            .add_subsystem(subsystem(&name, AllowedHosts::Any))
            .unwrap();
        let device = Rc::clone(&fixture.device);
        target
            .add_namespace(&nqn(&name), namespace(1), device)
            .unwrap();
        let terms = Terms {
            limiters: Vec::new(),
            part: Some(Part {
                share: Arc::new(Share::new(*minimum)),
                place: "pool".into(),
                room: Room {
                    wide: room,
                    tight: room,
                },
            }),
        };
        target.set_terms(&nqn(&name), 1, &Arc::new(terms)).unwrap();
        let connected = Controller::connect(fixture.address, name.as_str(), options()).await;
        let controller = connected.unwrap();
        guests.push(Guest {
            volume: open(&controller).await,
            _controller: controller,
        });
    }
    guests
}

/// Beside a neighbour who asks for ever more, a volume gets its minimum, and as much of the rest as
/// its weight is; alone, either gets all there is.
#[test]
fn a_minimum_holds_beside_a_noisy_neighbour() {
    simulate(64, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 256));
        fixture.device.delay.set(Duration::from_millis(1));
        // Eight at a time of a millisecond each: 8000 a second, and promises come on top.
        let guests = neighbours(&fixture, &[Some(2000), None], 8).await;
        let noisy = load(&guests[1].volume, Load::Write(4096), 64);
        reactor::sleep(Duration::from_secs(1)).await;
        let alone = in_seconds(&noisy, 2).await;
        assert!(alone > 10_000, "{alone} alone");
        let quiet = load(&guests[0].volume, Load::Read(4096), 4);
        reactor::sleep(Duration::from_secs(1)).await;
        let before = noisy.well.get();
        let beside = in_seconds(&quiet, 2).await;
        assert!(beside >= 4000, "{beside} of a minimum of 4000");
        let left = noisy.well.get() - before;
        assert!(left * 2 > alone, "{left} beside, {alone} alone");
    });
}

/// What nobody was promised is shared by weight, whatever the depth of a host's queue and the size
/// of its commands.
#[test]
fn the_rest_is_shared_by_weight() {
    simulate(65, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 256));
        fixture.device.delay.set(Duration::from_millis(4));
        // Minimums beyond what there is: everything is shared by weight, 1 to 3.
        let guests = neighbours(&fixture, &[Some(100), Some(300)], 16).await;
        let small = load(&guests[0].volume, Load::Read(4096), 100);
        let large = load(&guests[1].volume, Load::Read(32768), 30);
        reactor::sleep(Duration::from_secs(1)).await;
        let (before, large_before) = (small.well.get(), large.well.get());
        reactor::sleep(Duration::from_secs(5)).await;
        let small = small.well.get() - before;
        let large = (large.well.get() - large_before) * 4;
        let promised = (100 * 5, 300 * 5);
        let ratio = (large - promised.1) as f64 / (small - promised.0) as f64;
        assert!((2.8..3.2).contains(&ratio), "{small} and {large}: {ratio}");
    });
}
