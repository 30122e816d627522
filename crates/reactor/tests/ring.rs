//! The reactor on a real io_uring: tasks, timers, sockets, files, other threads.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::rc::Rc;
use std::time::Duration;

use block::{Buffer, Durability};
use reactor::cores::{CoreStopped, Cores, CoresConfig};
use reactor::file::{File, OpenOptions};
use reactor::net::{BoundAddress, ListenOptions, SendBatch, SocketOptions, TcpListener, TcpStream};
use reactor::sync::Notify;
use reactor::{Reactor, ReactorConfig, blocking, now, sleep, spawn, timeout, yield_now};

fn reactor() -> Reactor {
    Reactor::io_uring(ReactorConfig::default()).unwrap()
}

async fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address.parse().unwrap(), &ListenOptions::default()).unwrap();
    let to = listener.local_address();
    let client = spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await });
    let (server, peer) = listener.accept().await.unwrap();
    let client = client.await.unwrap();
    assert_eq!(client.local_address(), peer);
    assert_eq!(client.peer_address(), to);
    assert_eq!(server.local_address(), to);
    (client, server)
}

#[test]
fn an_address_that_is_bound_refuses_connections_until_somebody_listens() {
    reactor().run(async {
        let address = "127.0.0.1:0".parse().unwrap();
        let bound = BoundAddress::bind(address, &ListenOptions::default()).unwrap();
        let to = bound.local_address();
        let early = TcpStream::connect(to, &SocketOptions::default()).await;
        let refused = std::io::ErrorKind::ConnectionRefused;
        assert_eq!(early.err().unwrap().kind(), refused);
        let listener = bound.listen().unwrap();
        let client = spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await });
        listener.accept().await.unwrap();
        client.await.unwrap();
    });
}

#[test]
fn tasks_run_finish_and_are_cancelled() {
    struct SetOnDrop(Rc<std::cell::Cell<bool>>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    reactor().run(async {
        let task = spawn(async {
            yield_now().await;
            5
        });
        assert!(!task.is_finished());
        assert_eq!(task.await, 5);
        let dropped = Rc::new(std::cell::Cell::new(false));
        let guard = SetOnDrop(Rc::clone(&dropped));
        let task = spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        yield_now().await;
        task.cancel();
        assert!(dropped.get());
        dropped.set(false);
        let guard = SetOnDrop(Rc::clone(&dropped));
        let task = spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        drop(task.cancel_on_drop());
        assert!(dropped.get());
    });
}

#[test]
fn a_panic_in_a_task_leaves_run() {
    let caught = std::panic::catch_unwind(|| {
        reactor().run(async {
            drop(spawn(async { panic!("on purpose") }));
            std::future::pending::<()>().await;
        });
    });
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"on purpose"));
    reactor().run(async {});
}

#[test]
fn time_passes_and_timeouts_end_what_is_late() {
    reactor().run(async {
        let started = now();
        sleep(Duration::from_millis(20)).await;
        assert!(now() - started >= Duration::from_millis(20));
        let late = timeout(Duration::from_millis(5), std::future::pending::<()>());
        assert!(late.await.is_err());
        assert_eq!(timeout(Duration::from_secs(60), async { 3 }).await, Ok(3));
    });
}

#[test]
fn a_stream_carries_bytes_both_ways_and_ends() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        reactor().run(async {
            let (client, server) = pair(address).await;
            let mut batch = SendBatch::new();
            batch.push_bytes(b"hello ");
            batch.push_buffer(Buffer::copy_of(b"..world.."), 2..7);
            let (mut batch, result) = client.send(batch).await;
            result.unwrap();
            let (buffer, result) = server.recv_exact(Buffer::zeroed(20), 4..15).await;
            result.unwrap();
            assert_eq!(&buffer[4..15], b"hello world");
            assert_eq!(buffer.len(), 20);
            batch.clear();
            batch.push_bytes(b"back");
            server.send(batch).await.1.unwrap();
            let (buffer, result) = client.recv(Buffer::new(100), 0..100).await;
            assert_eq!(&buffer[..result.unwrap()], b"back");
            drop(client);
            let (_, result) = server.recv(Buffer::new(10), 0..10).await;
            assert_eq!(result.unwrap(), 0);
        });
    }
}

#[test]
fn large_transfers_arrive_whole() {
    reactor().run(async {
        let (client, server) = pair("127.0.0.1:0").await;
        let bytes = 20 << 20;
        let sender = spawn(async move {
            let mut batch = SendBatch::new();
            for megabyte in 0..20 {
                let mut buffer = Buffer::zeroed(1 << 20);
                for (at, chunk) in buffer.chunks_mut(8).enumerate() {
                    chunk.copy_from_slice(&((megabyte << 17) as u64 + at as u64).to_le_bytes());
                }
                batch.push_buffer(buffer, 0..1 << 20);
            }
            client.send(batch).await.1.unwrap();
            client
        });
        let (buffer, result) = server.recv_exact(Buffer::new(bytes), 0..bytes).await;
        result.unwrap();
        for (at, chunk) in buffer.chunks(8).enumerate() {
            assert_eq!(chunk, (at as u64).to_le_bytes());
        }
        drop(sender.await);
    });
}

/// Many connections with small socket buffers: sends are partial, receives are tried directly
/// and handed over, and yet every byte arrives in its place.
#[test]
fn streams_keep_their_bytes_under_pressure() {
    const CONNECTIONS: u64 = 12;
    const BYTES: usize = 300_000;
    let pattern = |stream: u64, at: usize| (at as u64).wrapping_mul(31 + stream) as u8;
    reactor().run(async {
        let socket = SocketOptions {
            send_buffer_bytes: Some(8192),
            receive_buffer_bytes: Some(8192),
            ..SocketOptions::default()
        };
        let options = ListenOptions {
            socket,
            ..ListenOptions::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let mut tasks = Vec::new();
        for number in 0..CONNECTIONS {
            let client = TcpStream::connect(listener.local_address(), &socket)
                .await
                .unwrap();
            let (server, _) = listener.accept().await.unwrap();
            tasks.push(spawn(async move {
                let mut batch = SendBatch::new();
                let mut sent = 0;
                while sent < BYTES {
                    let length = (1 + (sent * 7 + number as usize * 13) % 40_000).min(BYTES - sent);
                    let bytes: Vec<u8> = (sent..sent + length)
                        .map(|at| pattern(number, at))
                        .collect();
                    let (head, rest) = bytes.split_at(length.min(24));
                    batch.push_bytes(head);
                    batch.push_buffer(Buffer::copy_of(rest), 0..rest.len());
                    let (back, result) = client.send(batch).await;
                    result.unwrap();
                    batch = back;
                    batch.clear();
                    sent += length;
                }
            }));
            tasks.push(spawn(async move {
                let mut buffer = Buffer::new(10_000);
                let mut received = 0;
                while received < BYTES {
                    let length = (1 + received * 11 % 9_999).min(BYTES - received);
                    if received % 5 == 0 {
                        let (back, result) = server.recv_exact(buffer, 0..length).await;
                        result.unwrap();
                        buffer = back;
                        check(&buffer[..length], received, |at| pattern(number, at));
                        received += length;
                        continue;
                    }
                    let (back, result) = server.recv(buffer, 0..length).await;
                    buffer = back;
                    let count = result.unwrap();
                    assert!(count > 0);
                    check(&buffer[..count], received, |at| pattern(number, at));
                    received += count;
                }
            }));
        }
        for task in tasks {
            task.await;
        }
    });
}

fn check(bytes: &[u8], at: usize, pattern: impl Fn(usize) -> u8) {
    for (offset, byte) in bytes.iter().enumerate() {
        assert_eq!(*byte, pattern(at + offset), "at byte {}", at + offset);
    }
}

#[test]
fn dropped_operations_are_cancelled_and_shutdown_ends_a_pending_recv() {
    reactor().run(async {
        let (client, server) = pair("127.0.0.1:0").await;
        for _ in 0..100 {
            let recv = client.recv(Buffer::new(4096), 0..4096);
            assert!(timeout(Duration::from_micros(10), recv).await.is_err());
        }
        let listener =
            TcpListener::bind("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        assert!(
            timeout(Duration::from_millis(1), listener.accept())
                .await
                .is_err()
        );
        let reader = {
            let client = client.clone();
            spawn(async move { client.recv(Buffer::new(10), 0..10).await.1 })
        };
        sleep(Duration::from_millis(1)).await;
        client.shutdown();
        assert_eq!(reader.await.unwrap_or(0), 0);
        drop(server);
    });
}

/// The kernel may write to a buffer until the operation has ended, so a buffer whose receive was
/// given up must not go to anyone else before that.
#[test]
fn buffers_of_abandoned_receives_are_not_reused_too_early() {
    reactor().run(async {
        let (client, server) = pair("127.0.0.1:0").await;
        for _ in 0..100 {
            let recv = server.recv(Buffer::zeroed(1 << 20), 0..1 << 20);
            let mut recv = Box::pin(recv);
            // Long enough to be handed to the kernel in some rounds, and not in others.
            let patience = Duration::from_micros(now().as_nanos() % 150);
            // Nothing is there to receive, but for what an earlier round may have left.
            drop(timeout(patience, recv.as_mut()).await);
            drop(recv);
            // If the pool had it back already, these would be the same memory.
            let mut ours: Vec<_> = (0..3).map(|_| Buffer::zeroed(1 << 20)).collect();
            ours.iter_mut().for_each(|buffer| buffer.fill(7));
            let mut batch = SendBatch::new();
            batch.push_bytes(&[1; 64]);
            client.send(batch).await.1.unwrap();
            yield_now().await;
            assert!(
                ours.iter()
                    .all(|buffer| buffer.iter().all(|byte| *byte == 7))
            );
            // Whether the abandoned receive has taken the bytes is open; take the rest.
            let rest = server.recv(Buffer::new(64), 0..64);
            drop(timeout(Duration::from_micros(200), rest).await);
        }
    });
}

/// Connections that arrive while the accept is being given up must not leak descriptors.
#[test]
fn accepts_given_up_leave_no_descriptor_behind() {
    let open_descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, after) = reactor().run(async {
        let listener =
            TcpListener::bind("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let to = listener.local_address();
        let before = open_descriptors();
        for _ in 0..50 {
            let mut accept = Box::pin(listener.accept());
            assert!(timeout(Duration::ZERO, accept.as_mut()).await.is_err());
            let client = TcpStream::connect(to, &SocketOptions::default())
                .await
                .unwrap();
            // The connection is there, and its accept has completed or is about to.
            drop(accept);
            drop(client);
        }
        sleep(Duration::from_millis(10)).await;
        while timeout(Duration::from_millis(1), listener.accept())
            .await
            .is_ok()
        {}
        (before, open_descriptors())
    });
    // Other tests of this process open and close descriptors meanwhile; 50 leaks would show.
    assert!(after < before + 40, "{before} descriptors became {after}");
}

#[test]
fn operations_in_flight_end_with_the_reactor() {
    let reactor = reactor();
    let kept = reactor.run(async {
        let (client, server) = pair("127.0.0.1:0").await;
        let waiting = client.clone();
        drop(spawn(async move {
            waiting.recv(Buffer::new(4096), 0..4096).await.1.map(drop)
        }));
        sleep(Duration::from_millis(1)).await;
        (client, server)
    });
    drop(reactor);
    drop(kept);
}

#[test]
fn more_operations_than_ring_entries_all_complete() {
    let config = ReactorConfig {
        ring_entries: 8,
        ..ReactorConfig::default()
    };
    let directory = tempfile::tempdir().unwrap();
    Reactor::io_uring(config).unwrap().run(async {
        let path = directory.path().join("file");
        let options = OpenOptions {
            write: true,
            create: true,
            ..OpenOptions::default()
        };
        let file = Rc::new(File::open(&path, &options).await.unwrap());
        let tasks: Vec<_> = (0..500_u64)
            .map(|number| {
                let file = Rc::clone(&file);
                spawn(async move {
                    let data = Buffer::copy_of(&number.to_le_bytes());
                    let (_, result) = file.write_at(data, number * 8, Durability::Cached).await;
                    result.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let (buffer, result) = file.read_at(Buffer::new(5000), 0).await;
        assert_eq!(result.unwrap(), 4000);
        for (number, chunk) in buffer[..4000].chunks(8).enumerate() {
            assert_eq!(chunk, (number as u64).to_le_bytes());
        }
    });
}

#[test]
fn files_keep_what_is_written_and_forget_what_is_punched() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    reactor().run(async {
        let path = directory.path().join("file");
        let mut options = OpenOptions::default();
        let missing = File::open(&path, &options).await.err().unwrap();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        options.write = true;
        options.create_new = true;
        options.direct = true;
        let file = File::open(&path, &options).await.unwrap();
        file.set_size(1 << 20).await.unwrap();
        assert_eq!(file.size_bytes().unwrap(), 1 << 20);
        let data = Buffer::copy_of(&[7; 8192]);
        file.write_at(data, 4096, Durability::Durable)
            .await
            .1
            .unwrap();
        file.sync().await.unwrap();
        file.punch_hole(8192, 4096).await.unwrap();
        let (buffer, result) = file.read_at(Buffer::new(12288), 0).await;
        assert_eq!(result.unwrap(), 12288);
        let expected = [[0_u8; 4096], [7; 4096], [0; 4096]].concat();
        assert_eq!(buffer[..], expected[..]);
        assert!(file.try_lock_exclusive().unwrap());
        options.create_new = false;
        let second = File::open(&path, &options).await.unwrap();
        assert!(!second.try_lock_exclusive().unwrap());
        drop(file);
        yield_now().await;
        assert!(second.try_lock_exclusive().unwrap());
    });
}

/// tmpfs takes O_DIRECT since Linux 6.6, and copies to and from the page cache all the same.
#[test]
fn files_in_memory_keep_no_blocks_whole() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    reactor().run(async {
        let options = OpenOptions {
            write: true,
            create_new: true,
            direct: true,
            ..OpenOptions::default()
        };
        let file = File::open(&path, &options).await.unwrap();
        assert!(!file.keeps_blocks_whole());
    });
}

#[test]
fn other_threads_wake_a_sleeping_reactor() {
    let config = ReactorConfig {
        spin: Duration::ZERO,
        ..ReactorConfig::default()
    };
    Reactor::io_uring(config).unwrap().run(async {
        for _ in 0..100 {
            assert_eq!(blocking(|| 7).await, 7);
        }
    });
}

/// A helper thread would otherwise stay on the processor of the core that started it.
#[test]
fn helper_threads_leave_the_processors_of_cores() {
    use rustix::thread::sched_getaffinity;
    let processors = sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| processors.is_set(*cpu))
        .collect();
    let config = CoresConfig {
        cpus: vec![allowed.first().copied()],
        ..CoresConfig::unpinned(1)
    };
    let cores = Cores::start(config).unwrap();
    let [core] = cores.handles() else {
        panic!("one core was asked for");
    };
    let seen = core.submit(|| async {
        let helper = blocking(|| sched_getaffinity(None).unwrap()).await;
        (sched_getaffinity(None).unwrap().count(), helper.count())
    });
    let seen = Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async { seen.await.unwrap() });
    assert_eq!(seen, (1, allowed.len() as u32));
    cores.stop();
}

#[test]
fn cores_do_what_is_submitted_and_report_when_they_stop() {
    let cores = Cores::start(CoresConfig::unpinned(2)).unwrap();
    let [first, second] = cores.handles() else {
        panic!("two cores were asked for");
    };
    for number in 0..100 {
        let inner = second.clone();
        let answer = first.submit(move || async move {
            inner
                .submit(move || async move { number + 1 })
                .await
                .unwrap()
                + 1
        });
        assert_eq!(answer.wait(), Ok(number + 2));
    }
    let never = first.submit(|| async { Notify::new().notified().await });
    let handle = first.clone();
    assert!(handle.is_running());
    cores.stop();
    assert!(!handle.is_running());
    assert_eq!(never.wait(), Err(CoreStopped));
    assert_eq!(handle.submit(|| async { 1 }).wait(), Err(CoreStopped));
}

#[test]
fn a_panic_stops_its_core_only_and_is_seen() {
    let mut config = CoresConfig::pinned(2);
    config.name = "panics".to_owned();
    let cores = Cores::start(config).unwrap();
    let (first, second) = (cores.handles()[0].clone(), cores.handles()[1].clone());
    let answer = first.submit(|| async { panic!("on purpose") });
    assert_eq!(answer.wait(), Err::<(), _>(CoreStopped));
    assert_eq!(second.submit(|| async { 5 }).wait(), Ok(5));
    assert!(second.is_running());
    while first.is_running() {
        std::thread::yield_now();
    }
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cores.stop()));
    assert_eq!(stopped.unwrap_err().downcast_ref(), Some(&"on purpose"));
}

#[test]
fn an_idle_reactor_sleeps() {
    let used = reactor().run(async {
        let (_client, server) = pair("127.0.0.1:0").await;
        let waiting = spawn(async move { server.recv(Buffer::new(4096), 0..4096).await.1.is_ok() });
        let before = reactor::usage();
        sleep(Duration::from_millis(200)).await;
        let after = reactor::usage();
        waiting.cancel();
        (after.busy + after.polling) - (before.busy + before.polling)
    });
    // Not a measure of speed: a reactor that polled all the time would have used all 200 ms.
    assert!(
        used < Duration::from_millis(100),
        "used {used:?} while idle"
    );
}

/// What one task holds a core for, all others wait: the loop itself tells of it.
#[test]
fn a_step_that_holds_the_loop_for_long_is_told() {
    let held = Duration::from_millis(60);
    let (before, after) = reactor().run(async {
        yield_now().await;
        let before = reactor::usage();
        std::thread::sleep(held);
        yield_now().await;
        // Two turns: whatever runs after this sees the step that is over.
        yield_now().await;
        (before, reactor::usage())
    });
    assert!(after.longest_step >= held, "{after:?}");
    assert!(after.long_steps > before.long_steps, "{after:?}");
    assert!(after.longest_step <= after.busy, "{after:?}");
}

/// A file that keeps what it is asked until there is something to read is a drive that hangs.
#[test]
fn what_nobody_waits_for_is_under_way_until_the_kernel_lets_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    let elsewhere = directory.path().join("same");
    std::os::unix::fs::symlink(&path, &elsewhere).unwrap();
    reactor().run(async {
        let both_ways = OpenOptions {
            write: true,
            ..OpenOptions::default()
        };
        let file = File::open(&path, &both_ways).await.unwrap();
        let same = File::open(&elsewhere, &both_ways).await.unwrap();
        let other = File::open("/dev/zero", &OpenOptions::default()).await;
        let other = other.unwrap().identity().unwrap();
        let identity = same.identity().unwrap();
        assert_eq!(identity.operations_under_way(), 0);
        assert!(identity == file.identity().unwrap() && identity != other);

        let late = timeout(Duration::from_millis(5), file.read_at(Buffer::new(512), 0)).await;
        assert!(late.is_err());
        drop(file);
        // That nobody waits for it any more does not end it, nor that its handle is gone.
        assert_eq!(identity.operations_under_way(), 1);
        assert_eq!(other.operations_under_way(), 0);
        while identity.operations_under_way() > 0 {
            yield_now().await;
        }
        let written = same.write_at(Buffer::zeroed(512), 0, Durability::Cached);
        written.await.1.unwrap();
        let (_, read) = same.read_at(Buffer::new(512), 0).await;
        assert_eq!(read.unwrap(), 512);
        assert_eq!(identity.operations_under_way(), 0);
    });
}
