//! The simulated driver: virtual time, seeded order, the model network and files.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use block::{Buffer, Durability};
use reactor::cores::Cores;
use reactor::file::{File, OpenOptions};
use reactor::net::{BoundAddress, ListenOptions, SendBatch, SocketOptions, TcpListener, TcpStream};
use reactor::sim::NetworkModel;
use reactor::{Reactor, Task, now, sim, sleep, spawn, timeout, yield_now};

fn listen(address: &str) -> TcpListener {
    TcpListener::bind(address.parse().unwrap(), &ListenOptions::default()).unwrap()
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = listen("10.0.0.1:0");
    let to = listener.local_address();
    let client = spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await });
    let (server, peer) = listener.accept().await.unwrap();
    let client = client.await.unwrap();
    assert_eq!(client.local_address(), peer);
    assert_eq!(client.peer_address(), to);
    (client, server)
}

fn batch_of(bytes: &[u8]) -> SendBatch {
    let mut batch = SendBatch::new();
    batch.push_buffer(Buffer::copy_of(bytes), 0..bytes.len());
    batch
}

/// A run with tasks, timers, a connection and a file; the order of things and the trace.
fn busy_run(seed: u64) -> (Vec<u32>, u64) {
    Reactor::simulated(seed).run(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let (client, server) = pair().await;
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let order = Rc::clone(&order);
                spawn(async move {
                    for _ in 0..5 {
                        yield_now().await;
                        order.borrow_mut().push(number);
                        sleep(Duration::from_micros(sim::random_below(3))).await;
                    }
                })
            })
            .collect();
        let echo = spawn(async move {
            let (buffer, result) = server.recv_exact(Buffer::new(1000), 0..1000).await;
            result.unwrap();
            server.send(batch_of(&buffer)).await.1.unwrap();
        });
        client.send(batch_of(&[5; 1000])).await.1.unwrap();
        client
            .recv_exact(Buffer::new(1000), 0..1000)
            .await
            .1
            .unwrap();
        echo.await;
        for task in tasks {
            task.await;
        }
        (order.take(), sim::trace_hash())
    })
}

#[test]
fn one_seed_gives_one_run_and_other_seeds_give_others() {
    let runs: Vec<_> = (0..20).map(busy_run).collect();
    for (seed, run) in runs.iter().enumerate() {
        assert_eq!(
            &busy_run(seed as u64),
            run,
            "seed={seed} gave two different runs"
        );
    }
    let orders: BTreeSet<_> = runs.iter().map(|run| &run.0).collect();
    let traces: BTreeSet<_> = runs.iter().map(|run| run.1).collect();
    assert_eq!(traces.len(), runs.len());
    assert!(
        orders.len() > runs.len() / 2,
        "only {} orders of 20",
        orders.len()
    );
}

#[test]
fn time_jumps_and_yielding_does_not_stop_it() {
    let wall = std::time::Instant::now();
    Reactor::simulated(1).run(async {
        let started = now();
        sleep(Duration::from_secs(86_400)).await;
        assert_eq!(now() - started, Duration::from_secs(86_400));
        assert!(
            timeout(Duration::from_secs(60), std::future::pending::<()>())
                .await
                .is_err()
        );
        let until = now() + Duration::from_micros(50);
        while now() < until {
            yield_now().await;
        }
    });
    assert!(wall.elapsed() < Duration::from_secs(60));
}

/// Counts the futures that exist.
struct Alive(Rc<Cell<i32>>);

impl Alive {
    fn new(count: &Rc<Cell<i32>>) -> Alive {
        count.set(count.get() + 1);
        Alive(Rc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Tasks that start, await, cancel and outlive each other at random, themselves included: each
/// future is dropped exactly once, and none runs after it was cancelled.
#[test]
fn tasks_end_once_however_they_end() {
    type Handles = Rc<RefCell<Vec<Task<()>>>>;
    fn start(depth: u32, alive: &Rc<Cell<i32>>, handles: &Handles) {
        let (count, others) = (Rc::clone(alive), Rc::clone(handles));
        let living = Alive::new(alive);
        let task = spawn(async move {
            let _living = living;
            for _ in 0..sim::random_below(6) {
                sleep(Duration::from_micros(sim::random_below(4))).await;
                let number = others.borrow().len() as u64;
                let chosen = sim::random_below(number.max(1)) as usize;
                let other = (number > 0).then(|| others.borrow_mut().swap_remove(chosen));
                match (sim::random_below(5), other) {
                    (0, Some(other)) => other.cancel(),
                    (1, Some(other)) => drop(other.cancel_on_drop()),
                    (2, Some(other)) => drop(timeout(Duration::from_micros(3), other).await),
                    (3, Some(other)) => others.borrow_mut().push(other),
                    _ if depth < 4 => start(depth + 1, &count, &others),
                    _ => yield_now().await,
                }
            }
        });
        handles.borrow_mut().push(task);
    }
    for seed in 0..200 {
        let alive = Rc::new(Cell::new(0));
        let reactor = Reactor::simulated(seed);
        reactor.run(async {
            let handles = Handles::default();
            for _ in 0..10 {
                start(0, &alive, &handles);
            }
            sleep(Duration::from_micros(sim::random_below(20))).await;
        });
        drop(reactor);
        assert_eq!(alive.get(), 0, "seed={seed}");
    }
}

#[test]
#[should_panic(expected = "deadlock in simulation seed=42")]
fn a_deadlock_names_its_seed() {
    Reactor::simulated(42).run(std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "simulation seed=43 has run past its time limit")]
fn a_run_that_never_ends_names_its_seed() {
    Reactor::simulated(43).run(async {
        sim::set_time_limit(Duration::from_secs(3600));
        loop {
            sleep(Duration::from_secs(1)).await;
        }
    });
}

#[test]
fn streams_deliver_all_bytes_in_order_however_they_are_cut() {
    for seed in 0..30 {
        Reactor::simulated(seed).run(async {
            sim::set_network(NetworkModel {
                fragment_bytes_max: 1 + sim::random_below(5000) as usize,
                window_bytes: 1 + sim::random_below(20_000) as usize,
                ..NetworkModel::default()
            });
            let (client, server) = pair().await;
            let bytes: Vec<u8> = (0..60_000_u32).map(|at| (at % 251) as u8).collect();
            let sent = bytes.clone();
            let sender = spawn(async move {
                client.send(batch_of(&sent)).await.1.unwrap();
            });
            let mut received = Vec::new();
            loop {
                let (buffer, result) = server.recv(Buffer::new(7000), 0..7000).await;
                let count = result.unwrap();
                if count == 0 {
                    break;
                }
                received.extend_from_slice(&buffer[..count]);
            }
            sender.await;
            assert_eq!(received, bytes, "seed={seed}");
        });
    }
}

#[test]
fn resets_shutdowns_and_refusals_are_seen_at_both_ends() {
    for seed in 0..30 {
        Reactor::simulated(seed).run(async {
            let nobody = "10.0.0.2:1".parse().unwrap();
            let refused = TcpStream::connect(nobody, &SocketOptions::default()).await;
            assert_eq!(refused.err().unwrap().kind(), ErrorKind::ConnectionRefused);

            let (client, server) = pair().await;
            let waiting = spawn(async move { server.recv(Buffer::new(10), 0..10).await.1 });
            sleep(Duration::from_millis(1)).await;
            sim::reset(&client);
            assert_eq!(
                waiting.await.unwrap_err().kind(),
                ErrorKind::ConnectionReset
            );
            let result = client.send(batch_of(b"x")).await.1;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionReset);

            let (client, server) = pair().await;
            client.shutdown();
            assert_eq!(server.recv(Buffer::new(10), 0..10).await.1.unwrap(), 0);
            let result = client.send(batch_of(b"x")).await.1;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::BrokenPipe);

            let (client, server) = pair().await;
            drop(server);
            let big = vec![0; 1 << 20];
            let result = client.send(batch_of(&big)).await.1;
            assert_eq!(
                result.unwrap_err().kind(),
                ErrorKind::ConnectionReset,
                "seed={seed}"
            );

            let (client, _server) = pair().await;
            sim::reset_all();
            let result = client.recv(Buffer::new(10), 0..10).await.1;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionReset);
        });
    }
}

#[test]
fn a_partition_holds_everything_back_and_loses_nothing() {
    Reactor::simulated(3).run(async {
        let (client, server) = pair().await;
        sim::set_partitioned(true);
        client.send(batch_of(b"late")).await.1.unwrap();
        let mut recv = Box::pin(server.recv_exact(Buffer::new(4), 0..4));
        assert!(
            timeout(Duration::from_secs(10), recv.as_mut())
                .await
                .is_err()
        );
        sim::set_partitioned(false);
        let (buffer, result) = recv.await;
        result.unwrap();
        assert_eq!(&buffer[..], b"late");
    });
}

#[test]
fn an_address_that_is_bound_refuses_connections_until_somebody_listens() {
    Reactor::simulated(5).run(async {
        let address = "10.0.0.1:0".parse().unwrap();
        let bound = BoundAddress::bind(address, &ListenOptions::default()).unwrap();
        let to = bound.local_address();
        let second = TcpListener::bind(to, &ListenOptions::default());
        assert_eq!(second.err().unwrap().kind(), ErrorKind::AddrInUse);
        let early = TcpStream::connect(to, &SocketOptions::default()).await;
        assert_eq!(early.err().unwrap().kind(), ErrorKind::ConnectionRefused);
        let listener = bound.listen().unwrap();
        let client = spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await });
        listener.accept().await.unwrap();
        client.await.unwrap();
    });
}

#[test]
fn a_listener_has_its_address_to_itself_and_lets_go_of_it() {
    Reactor::simulated(4).run(async {
        let listener = listen("[::]:4420");
        let address = "[::]:4420".parse().unwrap();
        let second = TcpListener::bind(address, &ListenOptions::default());
        assert_eq!(second.err().unwrap().kind(), ErrorKind::AddrInUse);
        let waiting = {
            let to = "[::1]:4420".parse().unwrap();
            spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await })
        };
        let client = waiting.await.unwrap();
        drop(listener);
        let result = client.recv(Buffer::new(1), 0..1).await.1;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(listen("[::]:4420"));
    });
}

#[test]
fn files_live_as_long_as_the_simulation() {
    Reactor::simulated(5).run(async {
        let mut options = OpenOptions {
            write: true,
            create: true,
            direct: true,
            ..OpenOptions::default()
        };
        let file = File::open("/drives/0", &options).await.unwrap();
        assert!(file.is_direct() && !file.is_block_device());
        file.set_size(20_000).await.unwrap();
        let data = Buffer::copy_of(&[9; 10_000]);
        file.write_at(data, 5_000, Durability::Durable)
            .await
            .1
            .unwrap();
        file.punch_hole(6_000, 5_000).await.unwrap();
        assert!(file.try_lock_exclusive().unwrap());
        let second = File::open("/drives/0", &options).await.unwrap();
        assert!(!second.try_lock_exclusive().unwrap());
        drop(file);
        assert!(second.try_lock_exclusive().unwrap());
        let (buffer, result) = second.read_at(Buffer::new(30_000), 0).await;
        assert_eq!(result.unwrap(), 20_000);
        let mut expected = vec![0; 20_000];
        expected[5_000..6_000].fill(9);
        expected[11_000..15_000].fill(9);
        assert_eq!(buffer[..20_000], expected);
        options.create_new = true;
        let exists = File::open("/drives/0", &options).await.err().unwrap();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
fn one_reactor_plays_all_cores() {
    Reactor::simulated(6).run(async {
        let cores = Cores::on_current(3);
        let mut sum = 0;
        for core in cores.handles() {
            let index = core.index();
            sum += core.submit(move || async move { index + 1 }).await.unwrap();
        }
        assert_eq!(sum, 6);
    });
}
