//! [`Reactor`]: the loop.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll};
use std::time::Duration;

use crate::clock::Instant;
use crate::context::{self, Context, Driver};
use crate::executor::{Executor, MAIN};
use crate::inbox::Inbox;
use crate::ring::Ring;
use crate::sim::World;
use crate::start_error::StartError;
use crate::timers::Timers;
use crate::usage::Activity;
use crate::work::Step;

/// Tasks polled before the driver is looked at, even if more are ready.
const POLLS_PER_TURN: usize = 1024;

/// Looks at the rings between two looks at the clock, while polling.
const LOOKS_PER_CLOCK_READ: usize = 8;

/// Settings of a reactor on io_uring.
#[derive(Clone, Copy, Debug)]
pub struct ReactorConfig {
    /// Operations that can be queued between two system calls; more cost an extra call.
    pub ring_entries: u32,
    /// How long to poll after the last work before sleeping. Polling saves the wake-up, a few
    /// microseconds to tens of microseconds, and keeps a core busy for as long.
    pub spin: Duration,
    /// Entries of 128 bytes instead of 64, which commands to drivers need ([`FuseEntry`]); every
    /// other operation then costs a longer copy.
    ///
    /// [`FuseEntry`]: crate::fuse::FuseEntry
    pub wide_entries: bool,
}

impl Default for ReactorConfig {
    /// 1024 entries of 64 bytes; 50 microseconds of polling, or none where there is only one
    /// processor.
    fn default() -> ReactorConfig {
        let alone = std::thread::available_parallelism().is_ok_and(|count| count.get() == 1);
        ReactorConfig {
            ring_entries: 1024,
            spin: Duration::from_micros(if alone { 0 } else { 50 }),
            wide_entries: false,
        }
    }
}

/// One event loop. It belongs to the thread that made it.
pub struct Reactor {
    context: Rc<Context>,
    spin: Duration,
}

impl Reactor {
    /// A reactor on an io_uring of this thread.
    ///
    /// # Errors
    /// When there is no usable io_uring; the text says what to do about it.
    pub fn io_uring(config: ReactorConfig) -> Result<Reactor, StartError> {
        let polls = !config.spin.is_zero();
        let ring = Ring::new(config.ring_entries, config.wide_entries, polls)?;
        Reactor::on_ring(ring, config.spin)
    }

    fn on_ring(ring: Ring, spin: Duration) -> Result<Reactor, StartError> {
        let inbox = Inbox::register(true).map_err(StartError::Setup)?;
        if let Some(bell) = inbox.bell() {
            ring.watch_bell(bell);
        }
        Ok(Reactor::new(Driver::Ring(ring), inbox, spin))
    }

    /// A reactor in virtual time, whose every choice follows from `seed`.
    pub fn simulated(seed: u64) -> Reactor {
        let inbox = Inbox::register(false).expect("a simulated reactor asks nothing of the system");
        let world = World::new(seed);
        Reactor::new(Driver::Simulation(world), inbox, Duration::ZERO)
    }

    fn new(driver: Driver, inbox: Arc<Inbox>, spin: Duration) -> Reactor {
        let context = Context {
            executor: Executor::new(inbox.id()),
            timers: RefCell::new(Timers::default()),
            driver,
            inbox,
            inbox_scratch: RefCell::default(),
            turn_started: Cell::new(Instant::default()),
        };
        context.turn_started.set(context.now());
        Reactor {
            context: Rc::new(context),
            spin,
        }
    }

    /// Runs `future`, and every task spawned, until `future` is done. Tasks that are not done by
    /// then go on in the next call, or end with the reactor.
    ///
    /// # Panics
    /// Inside another reactor; and with whatever panic a task raises. Under simulation also when
    /// nothing can ever happen again (a deadlock).
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let _entered = context::enter(&self.context);
        self.context.turn_started.set(self.context.now());
        let mut future = pin!(future);
        self.context
            .executor
            .wake(self.context.executor.main_task());
        loop {
            if let Poll::Ready(output) = self.poll_ready(future.as_mut()) {
                return output;
            }
            match &self.context.driver {
                Driver::Ring(ring) => self.turn(ring),
                Driver::Simulation(world) => self.simulated_turn(world),
            }
        }
    }

    /// Time passes in which nothing happens here, as for a process that is stopped.
    ///
    /// # Panics
    /// When the reactor is not a simulated one.
    pub fn stand_still(&self, time: Duration) {
        let world = self.context.world();
        world.expect("only simulated time can be moved").pass(time);
    }

    /// From now on a step of a task that [counts](crate::count_work) more than this panics.
    ///
    /// # Panics
    /// When the reactor is not a simulated one.
    pub fn bound_steps(&self, most: u64) {
        let world = self.context.world();
        world
            .expect("steps of simulated tasks are counted")
            .bound_steps(most);
    }

    /// The step that has counted most so far; of a reactor on a ring nothing.
    pub fn longest_step(&self) -> Step {
        let world = self.context.world();
        world.map_or_else(Step::default, World::longest_step)
    }

    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.context.inbox)
    }

    fn poll_ready<F: Future>(&self, mut main: Pin<&mut F>) -> Poll<F::Output> {
        let executor = &self.context.executor;
        for _ in 0..POLLS_PER_TURN {
            let next = match self.context.world() {
                None => executor.next_ready(),
                Some(world) => world.choose_ready(executor),
            };
            let Some(next) = next else {
                break;
            };
            let polled = match self.context.world() {
                None => self.poll_task(next, main.as_mut()),
                Some(world) => world.step(|| self.poll_task(next, main.as_mut())),
            };
            if polled.is_ready() {
                return polled;
            }
        }
        Poll::Pending
    }

    /// Ready when it was the main future that is done.
    fn poll_task<F: Future>(&self, index: u32, main: Pin<&mut F>) -> Poll<F::Output> {
        let executor = &self.context.executor;
        if index != MAIN {
            executor.poll(index);
            return Poll::Pending;
        }
        executor.begin_main();
        let waker = executor.main_task().waker();
        main.poll(&mut PollContext::from_waker(&waker))
    }

    /// One turn on the ring: submit, reap, fire timers; if that made nothing ready, wait.
    fn turn(&self, ring: &Ring) {
        let context = &self.context;
        self.account_step();
        context.executor.resume_yielded();
        if context.inbox.is_pending() {
            self.empty_inbox();
        }
        ring.submit();
        let reaped = ring.reap() + ring.try_receives();
        self.fire_timers();
        if reaped == 0 && context.executor.is_idle() {
            self.wait(ring);
            ring.submit();
            ring.reap();
            self.fire_timers();
        }
    }

    /// Polls, then sleeps, until there may be something to do.
    fn wait(&self, ring: &Ring) {
        let context = &self.context;
        let deadline = context.timers.borrow().next_deadline();
        let started = context.turn_started.get();
        let give_up = deadline.map_or(started + self.spin, |at| at.min(started + self.spin));
        let mut now = context.now();
        while now < give_up {
            for _ in 0..LOOKS_PER_CLOCK_READ {
                let received = ring.try_receives() > 0;
                if received || ring.has_completions() || context.inbox.is_pending() {
                    self.account(Activity::Polling);
                    return;
                }
                std::hint::spin_loop();
            }
            now = context.now();
        }
        self.account(Activity::Polling);
        if deadline.is_some_and(|at| at <= context.turn_started.get()) {
            return;
        }
        ring.hand_over_receives();
        ring.submit();
        if !ring.has_completions() && context.inbox.fall_asleep() {
            let timeout = deadline.map(|at| at - context.turn_started.get());
            ring.wait(timeout);
            context.inbox.wake_up();
            self.account(Activity::Asleep);
        }
    }

    /// Books the time since the last booking, and makes now the start of the turn.
    fn account(&self, activity: Activity) {
        let spent = self.begin_turn();
        self.context.inbox.usage.add(activity, spent);
    }

    /// The same of the time in which tasks ran and nothing else was looked at.
    fn account_step(&self) {
        let spent = self.begin_turn();
        self.context.inbox.usage.add_step(spent);
    }

    /// Makes now the start of the turn; returns how many nanoseconds the last one took.
    fn begin_turn(&self) -> u64 {
        let now = self.context.now();
        let spent = now - self.context.turn_started.replace(now);
        spent.as_nanos() as u64
    }

    fn fire_timers(&self) {
        let now = self.context.turn_started.get();
        loop {
            let due = self.context.timers.borrow_mut().pop_due(now);
            let Some(waker) = due else {
                return;
            };
            waker.wake();
        }
    }

    /// Starts what other threads have left.
    fn empty_inbox(&self) {
        let (mut wakes, mut jobs) = self.context.inbox_scratch.take();
        self.context.inbox.take(&mut wakes, &mut jobs);
        for task in wakes.drain(..) {
            self.context.executor.wake(task);
        }
        for job in jobs.drain(..) {
            job();
        }
        self.context.inbox_scratch.replace((wakes, jobs));
    }

    /// One turn of the simulation: the next event or timer, jumping to its time if nothing is
    /// ready before it.
    fn simulated_turn(&self, world: &World) {
        let context = &self.context;
        if context.inbox.is_pending() {
            self.empty_inbox();
        }
        if !context.executor.is_idle() {
            // Tasks that only yield must see time pass, or they might yield for ever.
            context.executor.resume_yielded();
            world.tick();
            context.turn_started.set(world.now());
            self.fire_timers();
            return;
        }
        let timer = context.timers.borrow().next_deadline();
        if !world.advance(timer) && !context.inbox.is_pending() {
            panic!(
                "deadlock in simulation seed={}: nothing is ready, no timer is set, nothing is \
                 in flight",
                world.seed()
            );
        }
        context.turn_started.set(world.now());
        self.fire_timers();
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        if let Some(world) = self.context.world()
            && std::thread::panicking()
        {
            eprintln!("simulation failed with seed={}", world.seed());
        }
        let entered = (context::try_current().is_none()).then(|| context::enter(&self.context));
        self.context.inbox.close();
        self.context.executor.cancel_all();
        if let Some(ring) = self.context.ring() {
            ring.drain();
        }
        drop(entered);
    }
}

#[cfg(test)]
mod tests {
    use block::{Buffer, Durability};

    use super::*;
    use crate::file::{File, OpenOptions};
    use crate::net::{ListenOptions, SendBatch, SocketOptions, TcpListener, TcpStream};
    use crate::ring::RING_KINDS;
    use crate::{blocking, sleep, spawn};

    /// A stream, a file, a timer and another thread, on the current reactor.
    async fn a_bit_of_everything() {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
        let to = listener.local_address();
        let client = spawn(async move { TcpStream::connect(to, &SocketOptions::default()).await });
        let (server, _) = listener.accept().await.unwrap();
        let client = client.await.unwrap();
        for _ in 0..20 {
            let mut batch = SendBatch::new();
            batch.push_buffer(Buffer::copy_of(&[1; 100_000]), 0..100_000);
            let sending = {
                let client = client.clone();
                spawn(async move { client.send(batch).await.1 })
            };
            let (buffer, result) = server.recv_exact(Buffer::new(100_000), 0..100_000).await;
            result.unwrap();
            sending.await.unwrap();
            assert!(buffer.iter().all(|byte| *byte == 1));
            sleep(Duration::from_micros(100)).await;
            blocking(|| std::thread::sleep(Duration::from_micros(100))).await;
        }
        let directory = tempfile::tempdir().unwrap();
        let options = OpenOptions {
            write: true,
            create: true,
            ..OpenOptions::default()
        };
        let file = File::open(directory.path().join("file"), &options)
            .await
            .unwrap();
        let data = Buffer::copy_of(&[2; 5000]);
        file.write_at(data, 0, Durability::Durable).await.1.unwrap();
        let (buffer, result) = file.read_at(Buffer::new(5000), 0).await;
        assert_eq!((result.unwrap(), buffer[4999]), (5000, 2));
    }

    /// Older kernels have lesser rings, some users want no polling, and some need wide entries:
    /// all of them do the work.
    #[test]
    fn every_kind_of_ring_does_the_work_polled_or_not() {
        let spins = [Duration::ZERO, Duration::from_micros(50)];
        let ways = spins.map(|spin| [(spin, false), (spin, true)]).concat();
        for kind in RING_KINDS {
            for &(spin, wide) in &ways {
                let ring = Ring::of_kind(kind, wide, !spin.is_zero()).unwrap();
                Reactor::on_ring(ring, spin)
                    .unwrap()
                    .run(a_bit_of_everything());
            }
        }
    }
}
