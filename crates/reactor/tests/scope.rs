//! A panic ends its scope on every reactor, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use block::{Buffer, Durability};
use reactor::cores::{Cores, CoresConfig};
use reactor::file::{File, OpenOptions};
use reactor::net::{ListenOptions, SendBatch, SocketOptions, TcpListener, TcpStream};
use reactor::{
    Failed, Reactor, ReactorConfig, Scope, in_scope, now, sleep, spawn, timeout, yield_now,
};

/// A test that waits longer has hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test on both kinds of reactor.
fn on_both<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for reactor in [
        Reactor::io_uring(ReactorConfig::default()).unwrap(),
        Reactor::simulated(7),
    ] {
        reactor.run(async { timeout(PATIENCE, test()).await.unwrap() });
    }
}

struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// A task that never ends, and whether it has been dropped.
fn endless() -> Rc<Cell<bool>> {
    let dropped = Rc::new(Cell::new(false));
    let guard = SetOnDrop(Rc::clone(&dropped));
    drop(spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    }));
    dropped
}

#[test]
fn a_panic_in_a_task_ends_its_scope_and_leaves_the_others() {
    on_both(|| async {
        let (scope, other) = (Scope::new(), Scope::new());
        let outside = endless();
        let beside = other.call(endless).unwrap();
        let inside = scope.call(endless).unwrap();
        assert!(!in_scope() && scope.call(in_scope).unwrap());
        let told = spawn(scope.failed());
        let waits = {
            let scope = scope.clone();
            spawn(async move { scope.run(pending::<()>()).await })
        };
        yield_now().await;
        assert!(!told.is_finished() && scope.failure().is_none());
        scope
            .call(|| drop(spawn(async { panic!("number {}", 5) })))
            .unwrap();
        let failure = told.await;
        assert_eq!(failure.message, "number 5");
        let place = failure.place.unwrap();
        assert!(place.contains("tests/scope.rs:"), "{place}");
        assert_eq!(waits.await, Err(Failed));
        assert!(inside.get() && !outside.get() && !beside.get());
        assert!(scope.has_failed() && !other.has_failed());
        assert_eq!(other.run(async { 4 }).await, Ok(4));
        assert_eq!(scope.run(async { 4 }).await, Err(Failed));
        assert_eq!(scope.call(|| 4), Err(Failed));
    });
}

#[test]
fn what_tasks_of_a_scope_spawn_belongs_to_it_and_nothing_else_does() {
    on_both(|| async {
        let scope = Scope::new();
        let grandchildren = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&grandchildren);
        let entered = scope.run(async move {
            drop(spawn(async move {
                seen.borrow_mut().push(endless());
                yield_now().await;
                seen.borrow_mut().push(endless());
            }));
            sleep(Duration::from_micros(50)).await;
        });
        entered.await.unwrap();
        let outside = endless();
        while grandchildren.borrow().len() < 2 {
            yield_now().await;
        }
        let panicked: Result<(), _> = scope.run(async { panic!("where it was entered") }).await;
        assert_eq!(panicked, Err(Failed));
        assert_eq!(scope.failed().await.message, "where it was entered");
        while !grandchildren.borrow().iter().all(|dropped| dropped.get()) {
            yield_now().await;
        }
        assert!(!outside.get());
    });
}

#[test]
fn the_inner_of_two_scopes_fails_alone() {
    on_both(|| async {
        let (outer, inner) = (Scope::new(), Scope::new());
        let of_outer = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&of_outer);
        let (within, again) = (inner.clone(), inner.clone());
        let gone = outer.run(async move {
            let gone = within.call(endless).unwrap();
            let failed: Result<(), _> = within.run(async { panic!("inner") }).await;
            assert_eq!(failed, Err(Failed));
            seen.borrow_mut().push(endless());
            again.failed().await;
            gone
        });
        let gone = gone.await.unwrap();
        while !gone.get() {
            yield_now().await;
        }
        assert!(inner.has_failed() && !outer.has_failed());
        assert!(!of_outer.borrow()[0].get(), "it is the outer scope's");
    });
}

/// Destructors of what a panic left behind may find it in any state.
#[test]
fn a_panic_in_a_destructor_is_contained_too() {
    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("a destructor");
        }
    }
    /// Spawns into a scope that has failed.
    struct SpawnOnDrop(Rc<Cell<bool>>);
    impl Drop for SpawnOnDrop {
        fn drop(&mut self) {
            let (polled, guard) = (Rc::clone(&self.0), PanicOnDrop);
            drop(spawn(async move {
                let _guard = guard;
                polled.set(true);
            }));
        }
    }
    on_both(|| async {
        let scope = Scope::new();
        let polled = Rc::new(Cell::new(false));
        let spawns = SpawnOnDrop(Rc::clone(&polled));
        let held = scope.call(|| {
            drop(spawn(async {
                let _guard = PanicOnDrop;
                pending::<()>().await;
            }));
            drop(spawn(async move {
                let _spawns = spawns;
                pending::<()>().await;
            }));
            endless()
        });
        let held = held.unwrap();
        yield_now().await;
        // One that is cancelled from outside, and a future that is given up.
        let cancelled = scope.call(|| {
            spawn(async {
                let _guard = PanicOnDrop;
                pending::<()>().await;
            })
        });
        let cancelled = cancelled.unwrap();
        yield_now().await;
        cancelled.cancel();
        assert_eq!(scope.failed().await.message, "a destructor");
        while !held.get() {
            yield_now().await;
        }
        for _ in 0..4 {
            yield_now().await;
        }
        assert!(!polled.get());
        scope.discard(PanicOnDrop);
        let other = Scope::new();
        let mut given_up = Box::pin(other.run(async {
            let _guard = PanicOnDrop;
            pending::<()>().await;
        }));
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(given_up.as_mut().poll(context).is_pending())
        });
        assert!(polled.await);
        drop(given_up);
        assert_eq!(other.failed().await.message, "a destructor");
    });
}

/// The kernel may still write to memory, or read it, of tasks that are gone.
#[test]
fn operations_under_way_keep_their_memory_when_their_scope_fails() {
    on_both(|| async {
        let directory = tempfile::tempdir().unwrap();
        let options = OpenOptions {
            write: true,
            create: true,
            ..OpenOptions::default()
        };
        let path = directory.path().join("file");
        let file = Rc::new(File::open(path, &options).await.unwrap());
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
        let to = listener.local_address();
        let client = spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await });
        let (server, _) = listener.accept().await.unwrap();
        let client = client.await.unwrap();
        const BYTES: usize = 1 << 20;
        let scope = Scope::new();
        let begun = scope.call(|| {
            for part in 0..8_u8 {
                let file = Rc::clone(&file);
                drop(spawn(async move {
                    let data = Buffer::copy_of(&vec![part + 1; BYTES]);
                    let at = u64::from(part) * BYTES as u64;
                    file.write_at(data, at, Durability::Cached).await.1
                }));
            }
            let server = server.clone();
            drop(spawn(async move {
                server.recv_exact(Buffer::new(BYTES), 0..BYTES).await.1
            }));
        });
        begun.unwrap();
        yield_now().await;
        let panicked: Result<(), _> = scope.run(async { panic!("with I/O under way") }).await;
        panicked.unwrap_err();
        scope.failed().await;
        // The reactor goes on with what is outside, also where the others' operations end by now.
        let mut batch = SendBatch::new();
        batch.push_buffer(Buffer::copy_of(&vec![9; 1000]), 0..1000);
        client.send(batch).await.1.unwrap();
        let data = Buffer::copy_of(&[77; 4096]);
        let behind = 8 * BYTES as u64;
        file.write_at(data, behind, Durability::Durable)
            .await
            .1
            .unwrap();
        sleep(Duration::from_millis(20)).await;
        for part in 0..8_u8 {
            let at = u64::from(part) * BYTES as u64;
            let (buffer, read) = file.read_at(Buffer::new(4096), at).await;
            read.unwrap();
            let written = |byte: &u8| [0, part + 1].contains(byte);
            assert!(
                buffer.iter().all(written),
                "{part}: other memory was written"
            );
        }
        let (buffer, read) = file.read_at(Buffer::new(4096), behind).await;
        assert_eq!((read.unwrap(), buffer[4095]), (4096, 77));
    });
}

#[test]
fn a_scope_ends_on_every_reactor() {
    let mut config = CoresConfig::unpinned(2);
    config.name = "scoped".to_owned();
    let cores = Cores::start(config).unwrap();
    let (first, second) = (cores.handles()[0].clone(), cores.handles()[1].clone());
    let shared = first
        .submit(|| async { Scope::new().share() })
        .wait()
        .unwrap();
    let polls = Arc::new(AtomicUsize::new(0));
    let (theirs, counted) = (shared.clone(), Arc::clone(&polls));
    let entered = second.submit(|| async move {
        let scope = theirs.here();
        let task = scope.call(|| {
            drop(spawn(async move {
                loop {
                    counted.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_micros(100)).await;
                }
            }));
        });
        task.unwrap();
        let waited = timeout(PATIENCE, scope.run(pending::<()>())).await;
        (waited.unwrap(), scope.failed().await.message)
    });
    while polls.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now();
    }
    let failed = first.submit(|| async move {
        let scope = shared.here();
        scope.run(async { panic!("on the first") }).await
    });
    assert_eq!(failed.wait().unwrap(), Err::<(), _>(Failed));
    let told = entered.wait().unwrap();
    assert_eq!(told, (Err(Failed), "on the first".to_owned()));
    let ended = polls.load(Ordering::Relaxed);
    let later = second.submit(|| async {
        let until = now() + Duration::from_millis(20);
        while now() < until {
            sleep(Duration::from_millis(1)).await;
        }
    });
    later.wait().unwrap();
    assert_eq!(polls.load(Ordering::Relaxed), ended);
    assert!(first.is_running() && second.is_running());
    cores.stop();
}
