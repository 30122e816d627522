//! Hosts: how many a core of a node connects in a second, and what each takes in memory.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use api::{ANY_HOST, DriveSpec, Size, VolumeSpec};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig, spawn};
use serde_json::{Value, json};

use crate::node::Node;
use crate::volumes;

/// Hosts that connect, go, and connect again, side by side.
const AT_ONCE: usize = 8;

/// Hosts that stay, with an admin queue alone.
const STAYING: usize = 1000;

/// Hosts with many I/O queues. One address has at most 3,072 connections.
const WITH_QUEUES: usize = 100;
const IO_QUEUES: u16 = 8;

/// Threads of the node's data path.
const CORES: &str = "flashyard-core";

/// Longer than the node takes to be at rest again.
const SETTLES: Duration = Duration::from_secs(1);

/// Measures with hosts of one volume, and with hosts of the many volumes of a subsystem.
pub fn measure(node: &mut Node, seconds: usize) -> Result<Value> {
    let client = node.client()?;
    let null = DriveSpec::Null {
        size: Size(400 << 30),
    };
    client.add_drive(&"null".parse()?, &null)?;
    let volume = VolumeSpec {
        drive: Some("null".parse()?),
        hosts: vec![ANY_HOST.parse()?],
        ..VolumeSpec::default()
    };
    client.create_volume(&"null".parse()?, &volume)?;
    let many = volumes::name(0)?;
    let (one, many) = (node.volume_nqn("null")?, node.volume_nqn(many.as_str())?);
    let reactor = Reactor::io_uring(ReactorConfig::default())?;
    reactor.run(async {
        let rate = rate(node, &one, Duration::from_secs(seconds as u64)).await?;
        let host = staying(node, &one).await?;
        let host_of_many = staying(node, &many).await?;
        println!(
            "Hosts that connect an admin queue and one for I/O, and go: {:.0} a second, {:.0} \
             us of the core's time each",
            rate.0, rate.1,
        );
        println!(
            "Memory of a host: {:.0} bytes with one volume, {:.0} with half of them; of an I/O \
             queue: {:.0} and {:.0}",
            host.0, host_of_many.0, host.1, host_of_many.1,
        );
        let bytes = |of: (f64, f64)| json!({ "host_bytes": of.0, "queue_bytes": of.1 });
        Ok(json!({
            "connect": { "a_second": rate.0, "core_us": rate.1 },
            "of_one_volume": bytes(host),
            "of_half_of_the_volumes": bytes(host_of_many),
        }))
    })
}

/// How many hosts connect in a second, and the core's time for each in microseconds.
async fn rate(node: &Node, nqn: &str, time: Duration) -> Result<(f64, f64)> {
    let address: SocketAddr = node.nvme.parse()?;
    let (before, began) = (node.processor_time(CORES)?, Instant::now());
    let nqn: Rc<str> = nqn.into();
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|host| {
            let nqn = Rc::clone(&nqn);
            spawn(async move {
                let mut connected = 0_u32;
                while began.elapsed() < time {
                    let controller = connect(address, &nqn, host, 1).await?;
                    controller.disconnect().await;
                    connected += 1;
                }
                anyhow::Ok(connected)
            })
        })
        .collect();
    let mut connected = 0.0;
    for task in tasks {
        connected += f64::from(task.await?);
    }
    let took = began.elapsed().as_secs_f64();
    let used = (node.processor_time(CORES)? - before).as_secs_f64();
    Ok((connected / took, 1e6 * used / connected))
}

/// Bytes of a host that has connected, and of an I/O queue of one. The node starts anew: memory
/// that one has had and freed would not be counted again.
async fn staying(node: &mut Node, nqn: &str) -> Result<(f64, f64)> {
    crate::run_on(&[0, 1])?;
    node.restart()?;
    crate::run_on(&[1])?;
    let address: SocketAddr = node.nvme.parse()?;
    reactor::sleep(SETTLES).await;
    let mut hosts = Vec::new();
    let before = node.memory_bytes()?;
    for number in 0..STAYING {
        hosts.push(connect(address, nqn, number, 0).await?);
    }
    reactor::sleep(SETTLES).await;
    let with_hosts = node.memory_bytes()?;
    for number in STAYING..STAYING + WITH_QUEUES {
        hosts.push(connect(address, nqn, number, IO_QUEUES).await?);
    }
    reactor::sleep(SETTLES).await;
    let with_queues = node.memory_bytes()?;
    for host in hosts {
        host.disconnect().await;
    }
    let host = (with_hosts - before) / STAYING as f64;
    let queues = (WITH_QUEUES * usize::from(IO_QUEUES)) as f64;
    Ok((
        host,
        (with_queues - with_hosts - host * WITH_QUEUES as f64) / queues,
    ))
}

/// A host of its own name connects. It keeps nothing alive, so that nothing but it is measured.
async fn connect(
    address: SocketAddr,
    nqn: &str,
    host: usize,
    io_queues: u16,
) -> Result<Controller> {
    let name = format!("nqn.2014-08.org.nvmexpress:scale-host-{host}");
    let options = ConnectOptions {
        io_queues,
        keep_alive: None,
        ..ConnectOptions::new(name)
    };
    Ok(Controller::connect(address, nqn, options).await?)
}
