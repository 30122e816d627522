//! What the reactor itself costs: tasks, timers, messages between cores, and loopback TCP with
//! requests and replies of the sizes of a 4 KiB NVMe/TCP read.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail by panicking")]

mod report;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use block::Buffer;
use reactor::cores::{CoreHandle, Cores, CoresConfig};
use reactor::net::{ListenOptions, SendBatch, SocketOptions, TcpListener, TcpStream};
use reactor::sync::{Queue, Signal};
use reactor::{Reactor, ReactorConfig, mailbox, sleep, spawn, yield_now};
use report::Report;

/// A command capsule, and the header and completion that go with 4 KiB of data.
const REQUEST_BYTES: usize = 72;
const REPLY_HEADER_BYTES: usize = 24;
const PAYLOAD_BYTES: usize = 4096;

fn main() {
    let mut report = Report::new("reactor");
    tasks(&mut report);
    let cores = Cores::start(CoresConfig::pinned(2)).unwrap();
    messages(&mut report, &cores);
    for depth in [1, 32, 128] {
        let what = format!("requests, 4 KiB replies, loopback TCP, {depth} in flight");
        report.median(&what, "k/s", || requests(&cores, depth) / 1e3);
    }
    report.median(
        "requests, 4 KiB replies, 8 connections, 1 in flight each",
        "k/s",
        || many_connections(&cores) / 1e3,
    );
    report.median("stream, loopback TCP, 128 KiB sends", "GB/s", || {
        stream(&cores) / 1e9
    });
    report.median(
        "idle, 100 connections with a message a second each",
        "% of a core",
        || idle(&cores),
    );
    cores.stop();
    report.write();
}

fn nanoseconds_per(count: u32, run: impl Future<Output = ()>) -> f64 {
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    let started = Instant::now();
    reactor.run(run);
    started.elapsed().as_nanos() as f64 / f64::from(count)
}

fn tasks(report: &mut Report) {
    const COUNT: u32 = 1_000_000;
    report.median("spawn a task and await it", "ns", || {
        nanoseconds_per(COUNT, async {
            for _ in 0..COUNT {
                spawn(async {}).await;
            }
        })
    });
    report.median("wake another task and be woken (one way)", "ns", || {
        nanoseconds_per(2 * COUNT, async {
            let (there, back) = (Rc::new(Signal::new()), Rc::new(Signal::new()));
            let task = {
                let (there, back) = (Rc::clone(&there), Rc::clone(&back));
                spawn(async move {
                    for _ in 0..COUNT {
                        there.wait().await;
                        back.set(());
                    }
                })
            };
            for _ in 0..COUNT {
                there.set(());
                back.wait().await;
            }
            task.await;
        })
    });
    report.median("yield to the loop, nothing to submit", "ns", || {
        nanoseconds_per(COUNT, async {
            for _ in 0..COUNT {
                yield_now().await;
            }
        })
    });
    report.median("set a timer and remove it, 1000 others set", "ns", || {
        nanoseconds_per(COUNT, async {
            let others: Vec<_> = (0..1000)
                .map(|at| spawn(sleep(Duration::from_secs(60 + at))))
                .collect();
            yield_now().await;
            for _ in 0..COUNT {
                let mut timer = Box::pin(sleep(Duration::from_secs(30)));
                std::future::poll_fn(|context| {
                    assert!(timer.as_mut().poll(context).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
            }
            others.into_iter().for_each(reactor::Task::cancel);
        })
    });
}

/// Messages through mailboxes to another core and back.
fn messages(report: &mut Report, cores: &Cores) {
    const COUNT: u64 = 200_000;
    for depth in [1_u64, 32] {
        let what = format!("message to another core and back, {depth} in flight");
        report.median(&what, "ns", || {
            let (there, mut arrives) = mailbox::channel::<u64>(64);
            let (back, mut returns) = mailbox::channel::<u64>(64);
            let echo = cores.handles()[0].submit(move || async move {
                while let Some(message) = arrives.recv().await {
                    back.send(message).await.unwrap();
                }
            });
            let started = Instant::now();
            let sender = cores.handles()[1].submit(move || async move {
                for number in 0..depth {
                    there.send(number).await.unwrap();
                }
                for number in depth..COUNT {
                    returns.recv().await.unwrap();
                    there.send(number).await.unwrap();
                }
                for _ in 0..depth {
                    returns.recv().await.unwrap();
                }
            });
            sender.wait().unwrap();
            let elapsed = started.elapsed();
            echo.wait().unwrap();
            elapsed.as_nanos() as f64 / COUNT as f64
        });
    }
}

async fn listen(core: &CoreHandle) -> (SocketAddr, reactor::cores::Submitted<()>) {
    let (report, mut reported) = mailbox::channel(1);
    let served = core.submit(move || async move {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
        report.try_send(listener.local_address()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await;
    });
    (reported.recv().await.unwrap(), served)
}

/// Answers every request with a header and 4 KiB: one task reads, another writes.
async fn serve(stream: TcpStream) {
    let due = Rc::new(Queue::unbounded());
    let writer = spawn(write_replies(stream.clone(), Rc::clone(&due)));
    let mut buffer = Buffer::new(64 << 10);
    let mut filled = 0;
    loop {
        let room = filled..buffer.len();
        let (back, result) = stream.recv(buffer, room).await;
        buffer = back;
        filled += match result {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let requests = filled / REQUEST_BYTES;
        buffer.copy_within(requests * REQUEST_BYTES..filled, 0);
        filled -= requests * REQUEST_BYTES;
        due.try_push(requests).unwrap();
    }
    due.close();
    writer.await;
}

async fn write_replies(stream: TcpStream, due: Rc<Queue<usize>>) {
    let mut batch = SendBatch::new();
    while let Some(mut requests) = due.pop().await {
        while let Some(more) = due.try_pop() {
            requests += more;
        }
        for _ in 0..requests {
            batch.push_bytes(&[7; REPLY_HEADER_BYTES]);
            batch.push_buffer(Buffer::new(PAYLOAD_BYTES), 0..PAYLOAD_BYTES);
        }
        let (back, result) = stream.send(batch).await;
        if result.is_err() {
            return;
        }
        batch = back;
        batch.clear();
    }
}

/// Replies per second with `depth` requests in flight on one connection.
fn requests(cores: &Cores, depth: usize) -> f64 {
    let server = cores.handles()[0].clone();
    let client = cores.handles()[1].submit(move || async move {
        let (address, served) = listen(&server).await;
        let stream = TcpStream::connect(address, &SocketOptions::default())
            .await
            .unwrap();
        let total = if depth == 1 { 50_000 } else { 400_000 };
        let rate = drive(&stream, depth, total).await;
        drop(stream);
        served.await.unwrap();
        rate
    });
    client.wait().unwrap()
}

/// Replies per second with one request in flight on each of 8 connections.
fn many_connections(cores: &Cores) -> f64 {
    const CONNECTIONS: usize = 8;
    const TOTAL: usize = 20_000;
    let server = cores.handles()[0].clone();
    let client = cores.handles()[1].submit(move || async move {
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            let (address, served) = listen(&server).await;
            drop(served);
            streams.push(
                TcpStream::connect(address, &SocketOptions::default())
                    .await
                    .unwrap(),
            );
        }
        let started = Instant::now();
        let tasks: Vec<_> = streams
            .into_iter()
            .map(|stream| spawn(async move { drive(&stream, 1, TOTAL).await }))
            .collect();
        for task in tasks {
            task.await;
        }
        (CONNECTIONS * TOTAL) as f64 / started.elapsed().as_secs_f64()
    });
    client.wait().unwrap()
}

/// Sends `total` requests, `depth` at a time, and takes the replies; requests per second.
async fn drive(stream: &TcpStream, depth: usize, total: usize) -> f64 {
    const REPLY_BYTES: usize = REPLY_HEADER_BYTES + PAYLOAD_BYTES;
    let due = Rc::new(Queue::unbounded());
    due.try_push(depth).unwrap();
    let writer = spawn(write_requests(stream.clone(), Rc::clone(&due), total));
    let mut buffer = Buffer::new(1 << 20);
    let mut received_bytes = 0;
    let started = Instant::now();
    while received_bytes < total * REPLY_BYTES {
        let length = buffer.len();
        let (back, result) = stream.recv(buffer, 0..length).await;
        buffer = back;
        let before = received_bytes / REPLY_BYTES;
        received_bytes += result.unwrap();
        due.try_push(received_bytes / REPLY_BYTES - before).unwrap();
    }
    let elapsed = started.elapsed();
    due.close();
    writer.await;
    total as f64 / elapsed.as_secs_f64()
}

async fn write_requests(stream: TcpStream, due: Rc<Queue<usize>>, total: usize) {
    let mut batch = SendBatch::new();
    let mut left = total;
    while let Some(requests) = due.pop().await {
        let requests = requests.min(left);
        left -= requests;
        for _ in 0..requests {
            batch.push_bytes(&[5; REQUEST_BYTES]);
        }
        if !batch.is_empty() {
            let (back, result) = stream.send(batch).await;
            result.unwrap();
            batch = back;
            batch.clear();
        }
    }
}

/// Bytes per second from one core to the other.
fn stream(cores: &Cores) -> f64 {
    const TOTAL: usize = 4 << 30;
    const PIECE: usize = 128 << 10;
    let server = cores.handles()[0].clone();
    let client = cores.handles()[1].submit(move || async move {
        let (report, mut reported) = mailbox::channel(1);
        let received = server.submit(move || async move {
            let any = "127.0.0.1:0".parse().unwrap();
            let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
            report.try_send(listener.local_address()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let received = Cell::new(0);
            let mut buffer = Buffer::new(1 << 20);
            while received.get() < TOTAL {
                let length = buffer.len();
                let (back, result) = stream.recv(buffer, 0..length).await;
                buffer = back;
                received.set(received.get() + result.unwrap());
            }
        });
        let address = reported.recv().await.unwrap();
        let stream = TcpStream::connect(address, &SocketOptions::default())
            .await
            .unwrap();
        let mut batch = SendBatch::new();
        batch.push_buffer(Buffer::zeroed(PIECE), 0..PIECE);
        let started = Instant::now();
        for _ in 0..TOTAL / PIECE {
            let (back, result) = stream.send(batch).await;
            result.unwrap();
            batch = back;
        }
        received.await.unwrap();
        TOTAL as f64 / started.elapsed().as_secs_f64()
    });
    client.wait().unwrap()
}

/// The share of the serving core that 100 nearly idle connections take.
fn idle(cores: &Cores) -> f64 {
    const CONNECTIONS: usize = 100;
    let server = cores.handles()[0].clone();
    let used = cores.handles()[1].submit(move || async move {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let (address, served) = listen(&server).await;
            drop(served);
            let stream = TcpStream::connect(address, &SocketOptions::default())
                .await
                .unwrap();
            clients.push(spawn(async move {
                loop {
                    sleep(Duration::from_secs(1)).await;
                    drive(&stream, 1, 1).await;
                }
            }));
        }
        sleep(Duration::from_secs(1)).await;
        let before = server.usage();
        sleep(Duration::from_secs(3)).await;
        let after = server.usage();
        clients.into_iter().for_each(reactor::Task::cancel);
        (after.busy + after.polling) - (before.busy + before.polling)
    });
    used.wait().unwrap().as_secs_f64() / 3.0 * 100.0
}
