//! `rdma-host CASE ADDRESS:PORT NQN`: one case of a host over RDMA that no proper host is: one that
//! breaks a rule, leaves in the middle, or no longer wants what it asked for. Says in one word how
//! that ended. `rdma-host discover` shows the discovery log instead, and `rdma-host device` checks
//! the volumes against the contract of devices. The cases of a lost path take an address over TCP
//! beside that: `rdma-host lost ADDRESS:PORT NQN OTHER:PORT`.

use std::cell::Cell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use block::conformance::{Plan, check};
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Data, Endpoint, Transport, discover};
use nvme::command::{CrossControllerReset, ReadWrite, cross_reset_result};
use nvme::fabrics::{Connect, ConnectData};
use nvme::feature::{Feature, QueueCount};
use nvme::rdma::{ConnectReject, ConnectRequest, KeyedDataBlock};
use nvme::{CompletionEntry, IoOpcode, SglDescriptor, SubmissionEntry};
use rdma::{HostCompletion, HostQueue, RdmaError, Shape};
use reactor::{Reactor, ReactorConfig, sleep, spawn, timeout, yield_now};
use zerocopy::{FromBytes, IntoBytes};

/// One that is allowed to connect.
const HOST: &str = "nqn.2026-11.example.flashyard:perf";
/// Commands that the raw queue may have in flight.
const DEPTH: u16 = 32;
/// A capsule with 8 KiB of data.
const CAPSULE_BYTES: u32 = 64 + 8192;
const BLOCK_BYTES: usize = 4096;
/// Writes that go by a path before it is lost, and what they write; what is written after that.
const FORMER_WRITES: u16 = 16;
const FORMER_BYTES: usize = 64 << 10;
const FORMER: u8 = 1;
const NEWER: u8 = 2;
/// No case takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = Reactor::io_uring(ReactorConfig::default())
        .context("no reactor")
        .and_then(|reactor| reactor.run(run(&arguments)));
    match ended {
        Ok(word) => {
            println!("{word}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<String> {
    let [case, address, nqn, other @ ..] = arguments else {
        bail!("allowed: CASE ADDRESS:PORT NQN [OTHER:PORT]");
    };
    let endpoint = Endpoint {
        transport: Transport::Rdma,
        address: address.parse()?,
    };
    let case_of = async {
        match case.as_str() {
            "discover" => records(endpoint).await,
            "device" => device(endpoint, nqn).await,
            "dropped" => dropped(endpoint, nqn).await,
            "request-format" | "request-queue" | "request-size" => asked(endpoint, case).await,
            "lost" | "reset" | "reset-under-way" => {
                let other = other.first().context("no address over TCP")?;
                lost(endpoint, nqn, other.parse()?, case).await
            }
            other => {
                let (_controller, queue) = raw(endpoint, nqn).await?;
                broken(&queue, other).await
            }
        }
    };
    timeout(PATIENCE, case_of)
        .await
        .unwrap_or_else(|_| bail!("{case}: no end"))
}

async fn records(endpoint: Endpoint) -> Result<String> {
    let records = discover(endpoint, &ConnectOptions::new(HOST)).await?;
    let lines = records.iter().map(|record| {
        let transport = record.transport.map_or("other", Transport::word);
        format!("{transport} {} {}", record.address, record.subsystem_nqn)
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Commands that nobody waits for any more, by hundreds; the queue serves who comes after them.
async fn dropped(endpoint: Endpoint, nqn: &str) -> Result<String> {
    let mut options = ConnectOptions::new(HOST);
    options.queue_depth = 16;
    let controller = Controller::connect(endpoint, nqn, options).await?;
    let namespace = controller.namespace(2).await?;
    for round in 0..300_u64 {
        let (queue, namespace) = (controller.queue(0)?, namespace.clone());
        let task = spawn(async move {
            let at = Lba(round % 64 * 16);
            if round % 2 == 0 {
                let write = Buffer::zeroed(16 * BLOCK_BYTES);
                drop(namespace.write(at, write, Durability::Cached).await);
            } else {
                let data = Data::In(Buffer::new(16 * BLOCK_BYTES));
                drop(queue.submit(read(at.0, 16), data).await);
            }
        })
        .cancel_on_drop();
        yield_now().await;
        drop(task);
    }
    let pattern: Vec<u8> = (0..16 * BLOCK_BYTES).map(|at| (at % 251) as u8).collect();
    let (_, written) = namespace
        .write(Lba(2048), Buffer::copy_of(&pattern), Durability::Durable)
        .await;
    written?;
    let (found, done) = namespace
        .read(Lba(2048), Buffer::zeroed(pattern.len()))
        .await;
    done?;
    ensure!(found[..] == pattern, "other data was read");
    controller.disconnect().await;
    Ok("served".to_owned())
}

/// Both namespaces keep the contract of a block device, with one queue and with three.
async fn device(endpoint: Endpoint, nqn: &str) -> Result<String> {
    for (seed, queues) in [(1, 1), (2, 3)] {
        let mut options = ConnectOptions::new(HOST);
        options.io_queues = queues;
        let controller = Controller::connect(endpoint, nqn, options).await?;
        for nsid in [1, 2] {
            let namespace = controller.namespace(nsid).await?;
            let found = check(&namespace, Plan::quick(seed)).await;
            found.map_err(|found| anyhow!("namespace {nsid}, {queues} queues: {found}"))?;
        }
        controller.disconnect().await;
    }
    Ok("kept".to_owned())
}

/// Private data that a node must not take.
async fn asked(endpoint: Endpoint, case: &str) -> Result<String> {
    let mut request = ConnectRequest::new(0, DEPTH - 1, 0);
    match case {
        "request-format" => request.record_format = 1.into(),
        "request-queue" => request.queue_id = 60_000.into(),
        _ => request.host_sends = u16::MAX.into(),
    }
    match connect(endpoint, &request).await {
        Err(RdmaError::Rejected { private, .. }) => {
            let status = ConnectReject::status_of(&private).context("refused without a reason")?;
            Ok(status.name().unwrap_or("unknown").to_owned())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok("accepted".to_owned()),
    }
}

async fn connect(endpoint: Endpoint, request: &ConnectRequest) -> Result<HostQueue, RdmaError> {
    let shape = Shape {
        receives: u32::from(DEPTH) + 1,
        receive_bytes: size_of::<CompletionEntry>() as u32,
        sends: 2 * u32::from(DEPTH),
    };
    let private = request.as_bytes();
    let connected = HostQueue::connect(endpoint.address, &shape, CAPSULE_BYTES, private).await;
    connected.map(|(queue, _)| queue)
}

fn read(block: u64, blocks: u32) -> SubmissionEntry {
    *ReadWrite::new(
        IoOpcode::READ,
        2,
        block,
        blocks,
        SglDescriptor::transport(0),
    )
    .entry()
}

/// A controller, and an I/O queue of it for capsules of our own making.
async fn raw(endpoint: Endpoint, nqn: &str) -> Result<(Controller, HostQueue)> {
    let mut options = ConnectOptions::new(HOST);
    options.io_queues = 0;
    let controller = Controller::connect(endpoint, nqn, options.clone()).await?;
    let one = QueueCount {
        submission: 0.into(),
        completion: 0.into(),
    };
    controller
        .set_feature(Feature::NUMBER_OF_QUEUES, one.value())
        .await?;
    let controller_id = controller.controller_id()?;
    let queue = connect(endpoint, &ConnectRequest::new(1, DEPTH, controller_id)).await?;
    let data = ConnectData::new(options.host_id, controller_id, nqn, HOST);
    let mut entry = *Connect::new(1, DEPTH, 0).entry();
    entry.data = SglDescriptor::in_capsule(data.as_bytes().len() as u32);
    queue.send(0, entry.as_bytes(), data.as_bytes())?;
    ensure!(answers(&queue, 1).await? == "answered", "no queue");
    Ok((controller, queue))
}

/// A host that takes the path over RDMA for lost, and writes by the one over TCP. What it had sent
/// by the lost path arrives after that, as a network may deliver it, or is under way when its
/// controller is reset. `landed` if any of it overwrote what is newer, else `kept-out`.
async fn lost(endpoint: Endpoint, nqn: &str, other: SocketAddr, case: &str) -> Result<String> {
    let (lost, queue) = raw(endpoint, nqn).await?;
    let other = Controller::connect(other, nqn, ConnectOptions::new(HOST)).await?;
    let namespace = other.namespace(2).await?;
    let under_way = case == "reset-under-way";
    if under_way {
        send_former(&queue)?;
        yield_now().await;
    }
    if case != "lost" {
        reset(&other, &lost).await?;
    }
    let newer = vec![NEWER; usize::from(FORMER_WRITES) * FORMER_BYTES];
    let data = Buffer::copy_of(&newer);
    namespace.write(Lba(0), data, Durability::Durable).await.1?;
    // A queue that has ended takes nothing any more.
    let arrives = under_way || send_former(&queue).is_ok();
    if arrives {
        answers(&queue, usize::from(FORMER_WRITES)).await?;
    }
    sleep(Duration::from_secs(1)).await;
    let (found, done) = namespace.read(Lba(0), Buffer::zeroed(newer.len())).await;
    done?;
    other.disconnect().await;
    let word = if found[..] == newer {
        "kept-out"
    } else {
        "landed"
    };
    Ok(word.to_owned())
}

/// Writes from the first block on, whose data the node has to fetch.
fn send_former(queue: &HostQueue) -> Result<()> {
    let blocks = (FORMER_BYTES / BLOCK_BYTES) as u32;
    for place in 0..FORMER_WRITES {
        let lent = queue.lend(place, Buffer::copy_of(&[FORMER; FORMER_BYTES]), false);
        let lent = lent.map_err(|(_, error)| error)?;
        let at = u64::from(place) * u64::from(blocks);
        keyed(
            queue,
            place,
            IoOpcode::WRITE,
            at,
            (lent.address, blocks, lent.key),
        )?;
    }
    Ok(())
}

/// Has a controller end another one by Cross-Controller Reset.
async fn reset(by: &Controller, lost: &Controller) -> Result<()> {
    let identity = lost.identify()?;
    let (id, random) = (identity.controller_id.get(), identity.instance_random.get());
    let command = CrossControllerReset::new(id, identity.instance_uniquifier, random);
    let (_, answer) = by.admin(*command.entry(), Data::None).await;
    let answer = answer?;
    let done = answer.status().is_success()
        && answer.result.get() as u32 & cross_reset_result::IMMEDIATE != 0;
    ensure!(done, "no reset at once: {answer:?}");
    Ok(())
}

async fn broken(queue: &HostQueue, case: &str) -> Result<String> {
    let memory = |bytes: usize| Buffer::copy_of(&vec![0xa5; bytes]);
    let lend = |place, bytes, writable| {
        let lent = queue.lend(place, memory(bytes), writable);
        lent.map_err(|(_, error)| error)
    };
    match case {
        // A key that nobody has given out.
        "wrong-key" => {
            let lent = lend(0, BLOCK_BYTES, true)?;
            keyed(
                queue,
                0,
                IoOpcode::READ,
                0,
                (lent.address, 1, lent.key ^ 0x5500),
            )?;
        }
        // Less memory than the command says.
        "short-read" => {
            let lent = lend(0, BLOCK_BYTES, true)?;
            keyed(queue, 0, IoOpcode::READ, 0, (lent.address, 16, lent.key))?;
        }
        "short-write" => {
            let lent = lend(0, BLOCK_BYTES, false)?;
            keyed(queue, 0, IoOpcode::WRITE, 0, (lent.address, 16, lent.key))?;
        }
        // Memory that may only be read is to be written, and the other way round.
        "read-only" => {
            let lent = lend(0, BLOCK_BYTES, false)?;
            keyed(queue, 0, IoOpcode::READ, 0, (lent.address, 1, lent.key))?;
        }
        "write-only" => {
            let lent = lend(0, BLOCK_BYTES, true)?;
            keyed(queue, 0, IoOpcode::WRITE, 0, (lent.address, 1, lent.key))?;
        }
        "short-capsule" => queue.send(0, &[0; 40], &[])?,
        "taken-back" => return taken_back(queue, lend(0, 256 * BLOCK_BYTES, true)?).await,
        // Twice as many commands as there may be.
        "too-many" => {
            for place in 0..2 * DEPTH {
                keyed(queue, place, IoOpcode::FLUSH, 0, (0, 0, 0))?;
            }
            return answers(queue, usize::from(2 * DEPTH)).await;
        }
        "vanish" => {
            for place in 0..DEPTH {
                let is_read = place % 2 == 0;
                let lent = lend(place, 16 * BLOCK_BYTES, is_read)?;
                let opcode = if is_read {
                    IoOpcode::READ
                } else {
                    IoOpcode::WRITE
                };
                keyed(queue, place, opcode, 0, (lent.address, 16, lent.key))?;
            }
            return Ok("gone".to_owned());
        }
        _ => bail!("no such case"),
    }
    answers(queue, 1).await
}

/// Takes memory back that the node may be writing to: nothing is written there from then on.
async fn taken_back(queue: &HostQueue, lent: rdma::Remote) -> Result<String> {
    keyed(queue, 0, IoOpcode::READ, 0, (lent.address, 256, lent.key))?;
    // Not before the node has begun, as far as one can tell.
    yield_now().await;
    let buffer = queue.reclaim(0).context("a buffer was lent")?;
    let before = buffer.to_vec();
    let ended = answers(queue, 1).await?;
    sleep(Duration::from_secs(1)).await;
    ensure!(
        buffer[..] == before[..],
        "memory was written after it was taken back"
    );
    Ok(ended)
}

/// Sends a command for the block `at`, whose data is `blocks` blocks at an address, by a key.
fn keyed(
    queue: &HostQueue,
    place: u16,
    opcode: IoOpcode,
    at: u64,
    (address, blocks, key): (u64, u32, u32),
) -> Result<()> {
    let bytes = blocks * BLOCK_BYTES as u32;
    let data = KeyedDataBlock::new(address, bytes, key, false).descriptor();
    let mut entry = *ReadWrite::new(opcode, 2, at, blocks.max(1), data).entry();
    entry.command_id = place.into();
    queue.send(place, entry.as_bytes(), &[])?;
    Ok(())
}

/// Waits for so many answers: `answered` if each was a success, `failed` if not, `ended` if the
/// connection ended instead.
async fn answers(queue: &HostQueue, wanted: usize) -> Result<String> {
    let (answered, failed) = (Cell::new(0), Cell::new(false));
    while answered.get() < wanted {
        let note = |completion: HostCompletion<'_>| {
            if let HostCompletion::Response(response) = completion {
                answered.set(answered.get() + 1);
                let entry = CompletionEntry::read_from_bytes(response);
                let good = entry.is_ok_and(|entry| entry.status().is_success());
                failed.set(failed.get() || !good);
            }
        };
        let step = match queue.poll(note) {
            Ok(false) => match queue.arm().and_then(|()| queue.poll(note)) {
                Ok(false) => queue.wait().await,
                other => other.map(|_| ()),
            },
            other => other.map(|_| ()),
        };
        if step.is_err() {
            return Ok("ended".to_owned());
        }
    }
    let word = if failed.get() { "failed" } else { "answered" };
    Ok(word.to_owned())
}
