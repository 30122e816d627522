//! A volume beside a noisy neighbour in a pool of modelled drives, in virtual time: hosts, network,
//! target, pool and the drives' timing are the real ones, processors cost nothing.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Namespace};
use node::{
    AllowedHosts, Backing, DriveSpec, EmulatedSpec, Level, Limiter, Node, NodeSpec, Part, PoolSpec,
    PortSpec, Rate, Rates, Room, Share, Terms, VolumeOptions, VolumeSpec,
};
use reactor::cores::Cores;
use reactor::sim::NetworkModel;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 8 * MIB;

/// What a node gives a pool of two drives, on one core.
const ROOM: Room = Room {
    wide: 2 * 32,
    tight: 2 * 3,
};

/// What the quiet volume's host asks for, evenly.
const QUIET_IOPS: u64 = 20_000;

/// About one read in 150 collides though terms hold; of far fewer reads than these one in a hundred
/// might by chance, and be their 99th percentile.
const QUIET_READS: u64 = 6000;

/// A load in a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub writes: bool,
    pub bytes: usize,
    pub depth: usize,
}

/// Small reads, as many as a host may have outstanding.
pub const READS: Noise = Noise {
    writes: false,
    bytes: 4096,
    depth: 120,
};

/// Large writes.
pub const WRITES: Noise = Noise {
    writes: true,
    bytes: 128 << 10,
    depth: 48,
};

/// A pool of two drives, and two volumes in it: the quiet one and the noisy one.
pub struct Scene {
    pub node: Node,
    volumes: Vec<(Controller, Namespace)>,
}

fn nqn(volume: &str) -> String {
    format!("nqn.2026-11.example.flashyard:n:{volume}")
}

/// What noise made of the quiet volume's 99th percentile of latency.
pub struct Moved {
    /// Without any.
    pub alone_ns: u64,
    /// With it.
    pub beside_ns: u64,
    /// How much noise there was, in commands a second.
    pub rate: u64,
}

impl Moved {
    /// Times as long as without.
    pub fn ratio(&self) -> f64 {
        self.beside_ns as f64 / self.alone_ns as f64
    }
}

impl Scene {
    /// Two drives, a pool of them, two volumes full of data, and their hosts.
    pub async fn start() -> Scene {
        reactor::sim::set_network(NetworkModel {
            latency: Duration::from_micros(5)..Duration::from_micros(6),
            ..NetworkModel::default()
        });
        let spec = NodeSpec {
            uuid: Uuid::from_u128(1),
            cores: Vec::new(),
            ports: vec![loopback()],
            map_cache_bytes: node::MAP_CACHE_BYTES,
            controller_ids: node::ControllerIds::ALL,
        };
        let node = Node::start_on(Cores::on_current(1), &spec, Arc::new(|_| {}));
        let node = node.await.unwrap();
        node.listen().await.unwrap();
        let drives = ["d0", "d1"].map(str::to_owned);
        for drive in &drives {
            let spec = EmulatedSpec {
                profile: "cm7-r-7.68".into(),
                scale_ppm: 30,
                dilation_percent: 100,
                directory: None,
            };
            let opened = node.open_drive(drive, DriveSpec::Emulated(spec)).await;
            opened.unwrap();
        }
        let pool = PoolSpec {
            taking: node::Taking::Blank,
            level: Level::Raid0,
            width: None,
            drives: drives.to_vec(),
        };
        node.create_pool("p", pool).await.unwrap();
        let mut scene = Scene {
            node,
            volumes: Vec::new(),
        };
        for volume in ["quiet", "noisy"] {
            let served = scene.serve(volume).await;
            scene.volumes.push(served);
        }
        scene
    }

    async fn serve(&self, name: &str) -> (Controller, Namespace) {
        let options = VolumeOptions {
            bytes: VOLUME_BYTES,
            ..VolumeOptions::default()
        };
        let id = self.node.create_pool_volume("p", name, options).await;
        let id = id.unwrap();
        let spec = VolumeSpec {
            name: name.to_owned(),
            backing: Backing::Pool {
                pool: "p".into(),
                volume: id,
            },
            block_bytes: 4096,
            subsystem: nqn(name).parse().unwrap(),
            nsid: 1,
            uuid: Uuid::from_u128(u128::from(id.0)),
            group: node::AnaGroupId::POOLLESS,
            allowed: AllowedHosts::Any,
            tenant: None,
            rules: Some(Default::default()),
        };
        self.node.create_volume(spec).await.unwrap();
        let mut options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
        options.queue_depth = 256;
        let nqn = nqn(name);
        let controller = Controller::connect(self.node.addresses()[0], &nqn, options);
        let controller = controller.await.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        for start in (0..VOLUME_BYTES / 4096).step_by(32) {
            let data = Buffer::copy_of(&[7; 128 << 10]);
            let written = namespace.write(Lba(start), data, Durability::Durable).await;
            written.1.unwrap();
        }
        (controller, namespace)
    }

    /// These terms hold for a volume from now on.
    pub async fn set_terms(&self, volume: &str, terms: Terms) {
        let nqn = nqn(volume).parse().unwrap();
        self.node.set_terms(&nqn, 1, terms).await.unwrap();
    }

    /// The quiet volume's 99th percentile of latency for a while, in nanoseconds.
    async fn p99(&self) -> u64 {
        let latencies = Rc::new(RefCell::new(Vec::new()));
        let namespace = &self.volumes[0].1;
        for number in 0..QUIET_READS {
            let (namespace, latencies) = (namespace.clone(), Rc::clone(&latencies));
            drop(reactor::spawn(async move {
                let began = reactor::now();
                let block = number * 7919 % (VOLUME_BYTES / 4096);
                let (_, result) = namespace.read(Lba(block), Buffer::new(4096)).await;
                result.unwrap();
                latencies
                    .borrow_mut()
                    .push((reactor::now() - began).as_nanos() as u64);
            }));
            reactor::sleep(Duration::from_nanos(1_000_000_000 / QUIET_IOPS)).await;
        }
        while (latencies.borrow().len() as u64) < QUIET_READS {
            reactor::sleep(Duration::from_micros(100)).await;
        }
        let mut latencies = latencies.take();
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    }

    /// Has the noisy volume's host ask for more and more until it is told to end.
    fn make_noise(&self, noise: Noise) -> Rc<(Cell<bool>, Cell<u64>)> {
        let told = Rc::new((Cell::new(false), Cell::new(0)));
        for slot in 0..noise.depth as u64 {
            let (namespace, told) = (self.volumes[1].1.clone(), Rc::clone(&told));
            let blocks = noise.bytes as u64 / 4096;
            drop(reactor::spawn(async move {
                let mut at = slot * 104_729;
                while !told.0.get() {
                    at += 15_485_863;
                    let start = Lba(at % (VOLUME_BYTES / 4096 / blocks) * blocks);
                    let buffer = Buffer::zeroed(noise.bytes);
                    let done = match noise.writes {
                        true => namespace.write(start, buffer, Durability::Cached).await.1,
                        false => namespace.read(start, buffer).await.1,
                    };
                    done.unwrap();
                    told.1.set(told.1.get() + 1);
                }
            }));
        }
        told
    }

    /// What noise makes of the quiet volume's 99th percentile, and how much noise there was.
    pub async fn beside(&self, noise: Noise) -> Moved {
        reactor::sleep(Duration::from_millis(20)).await;
        let alone_ns = self.p99().await;
        let told = self.make_noise(noise);
        reactor::sleep(Duration::from_millis(5)).await;
        let before = told.1.get();
        let beside_ns = self.p99().await;
        let rate = (told.1.get() - before) * QUIET_IOPS / QUIET_READS;
        told.0.set(true);
        Moved {
            alone_ns,
            beside_ns,
            rate,
        }
    }
}

/// A part of the pool, with a minimum or without.
pub fn part(minimum_iops: Option<u64>) -> Terms {
    Terms {
        limiters: Vec::new(),
        part: Some(Part {
            share: Arc::new(Share::new(minimum_iops)),
            place: "p".into(),
            room: ROOM,
        }),
    }
}

/// A limit of so many commands a second.
pub fn limited(iops: u64) -> Terms {
    let limiter = Limiter::new(&Rates {
        total: Rate {
            iops: Some(iops),
            ..Rate::default()
        },
        burst_ms: 10,
        ..Rates::default()
    });
    Terms {
        limiters: vec![Arc::new(limiter)],
        part: None,
    }
}

/// A port for hosts on this machine, wherever there is room for one.
pub fn loopback() -> PortSpec {
    PortSpec {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: None,
        path: node::PathState::Optimized,
        tls: false,
        transport: node::Transport::Tcp,
    }
}
