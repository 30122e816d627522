//! [`Pace`]: when commands of a namespace may start, where that is not at once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nvme::Status;
use qos::{Direction, Room, Terms, Ticket, Window};
use reactor::Instant;
use reactor::sync::{Mutex, Notify};

/// How long a command waits without looking whether it still has to.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// What holds for the commands of one namespace, on this core.
#[derive(Default)]
pub(crate) struct Pace {
    /// Something holds.
    bound: Cell<bool>,
    terms: RefCell<Rc<Bounds>>,
    /// Nobody is to wait any more: the namespace is being removed.
    ended: Cell<bool>,
    /// Reads wait for reads, and writes for writes: first come, first served.
    lines: [Line; 2],
    /// Commands that had to wait.
    pub delayed: Cell<u64>,
    /// How long together.
    pub delay_ns: Cell<u64>,
}

/// Terms, with the place they speak of.
#[derive(Default)]
pub(crate) struct Bounds {
    pub terms: Arc<Terms>,
    pub place: Option<Rc<Place>>,
}

/// Commands of one direction that wait.
struct Line {
    /// Who has it is the first.
    first: Mutex<()>,
    wake: Rc<Notify>,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            first: Mutex::new(()),
            wake: Rc::default(),
        }
    }
}

/// A drive or a pool, as this core's volumes share it.
pub(crate) struct Place(RefCell<Window<Rc<Notify>>>);

impl Place {
    pub fn new(room: Room) -> Place {
        Place(RefCell::new(Window::new(room)))
    }

    pub fn set_room(&self, room: Room) {
        self.0.borrow_mut().set_room(room);
        self.wake_next();
    }

    fn start(&self, ticket: Ticket, cost: u32) -> bool {
        let now = reactor::turn_started().as_nanos();
        self.0.borrow_mut().start(ticket, cost, now)
    }

    fn leave(&self, ticket: Ticket) {
        self.0.borrow_mut().leave(ticket);
        self.wake_next();
    }

    fn wake_next(&self) {
        let now = reactor::turn_started().as_nanos();
        if let Some(next) = self.0.borrow().next(now) {
            next.notify_one();
        }
    }
}

/// A command that has started; it ends when this is dropped.
#[derive(Default)]
pub(crate) struct Pass(Option<(Rc<Place>, u32)>);

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((place, cost)) = self.0.take() {
            place.0.borrow_mut().end(cost);
            place.wake_next();
        }
    }
}

/// A command that wants to start.
struct Wish<'a> {
    direction: Direction,
    bytes: u64,
    /// Its host is gone.
    gone: &'a Cell<bool>,
}

/// Why a command waits no longer, without having its turn.
enum Interrupted {
    /// Other terms hold.
    Changed,
    /// Its host is gone.
    Gone,
    /// Its namespace is.
    Ended,
}

impl Pace {
    /// These terms hold from now on, also for commands that wait.
    pub fn set(&self, bounds: Bounds) {
        self.bound.set(!bounds.terms.is_free());
        self.terms.replace(Rc::new(bounds));
        self.wake();
    }

    /// Lets those who wait go on, to be refused.
    pub fn end(&self) {
        self.ended.set(true);
        self.wake();
    }

    fn wake(&self) {
        for line in &self.lines {
            line.wake.notify_one();
        }
    }

    /// Waits until a command may start. `Err` when its host is `gone` meanwhile. Costs one look
    /// where nothing is said.
    pub async fn enter(
        &self,
        direction: Direction,
        bytes: u64,
        gone: &Cell<bool>,
    ) -> Result<Pass, Status> {
        if !self.bound.get() {
            return Ok(Pass::default());
        }
        let wish = Wish {
            direction,
            bytes,
            gone,
        };
        let came = reactor::turn_started();
        let pass = self.have_turn(&wish).await;
        let waited = reactor::turn_started() - came;
        if waited > Duration::ZERO {
            self.delayed.set(self.delayed.get().wrapping_add(1));
            let sum = self.delay_ns.get().wrapping_add(waited.as_nanos() as u64);
            self.delay_ns.set(sum);
        }
        pass
    }

    async fn have_turn(&self, wish: &Wish<'_>) -> Result<Pass, Status> {
        let line = &self.lines[wish.direction as usize];
        let _first = line.first.lock().await;
        loop {
            let bounds = Rc::clone(&self.terms.borrow());
            let done = async {
                self.pass_limits(&bounds, line, wish).await?;
                self.pass_place(&bounds, line, wish).await
            };
            match done.await {
                Ok(pass) => return Ok(pass),
                Err(Interrupted::Changed) => {}
                Err(Interrupted::Ended) => return Ok(Pass::default()),
                Err(Interrupted::Gone) => return Err(Status::ABORTED_QUEUE_DELETION),
            }
        }
    }

    /// Waits for each limit in turn: what waits for the first takes nothing from the next.
    async fn pass_limits(
        &self,
        bounds: &Rc<Bounds>,
        line: &Line,
        wish: &Wish<'_>,
    ) -> Result<(), Interrupted> {
        let mut now = reactor::turn_started();
        for limiter in &bounds.terms.limiters {
            self.look(bounds, wish)?;
            while let Err(opens_ns) = limiter.take(wish.direction, wish.bytes, now.as_nanos()) {
                now = line.wait_until(Instant::from_nanos(opens_ns)).await;
                self.look(bounds, wish)?;
            }
        }
        Ok(())
    }

    /// Waits for its turn at the place, unless it has been promised one.
    async fn pass_place(
        &self,
        bounds: &Rc<Bounds>,
        line: &Line,
        wish: &Wish<'_>,
    ) -> Result<Pass, Interrupted> {
        let (Some(part), Some(place)) = (&bounds.terms.part, &bounds.place) else {
            return Ok(Pass::default());
        };
        let cost = qos::cost(wish.bytes);
        let pass = || Ok(Pass(Some((Rc::clone(place), cost))));
        let mut promised = part
            .share
            .take_promised(cost, reactor::turn_started().as_nanos());
        let wake = Rc::clone(&line.wake);
        let ticket = match promised {
            Ok(()) => None,
            Err(_) => Some(place.0.borrow_mut().join(&part.share, cost, wake)),
        };
        while let (Err(opens_ns), Some(ticket)) = (promised, ticket) {
            if place.start(ticket, cost) {
                place.wake_next();
                return pass();
            }
            let opens = opens_ns.map_or(Instant::from_nanos(u64::MAX), Instant::from_nanos);
            let now = line.wait_until(opens).await;
            let looked = self.look(bounds, wish);
            if looked.is_ok() {
                promised = part.share.take_promised(cost, now.as_nanos());
            }
            if looked.is_err() || promised.is_ok() {
                place.leave(ticket);
            }
            looked?;
        }
        let now = reactor::turn_started().as_nanos();
        place.0.borrow_mut().start_promised(cost, now);
        pass()
    }

    /// Whether a command still waits for this.
    fn look(&self, bounds: &Rc<Bounds>, wish: &Wish<'_>) -> Result<(), Interrupted> {
        if self.ended.get() {
            Err(Interrupted::Ended)
        } else if wish.gone.get() {
            Err(Interrupted::Gone)
        } else if !Rc::ptr_eq(bounds, &self.terms.borrow()) {
            Err(Interrupted::Changed)
        } else {
            Ok(())
        }
    }
}

impl Line {
    /// Waits until then, or until there is something to look at; gives the time it is.
    async fn wait_until(&self, until: Instant) -> Instant {
        let now = reactor::now();
        if until > now {
            let period = (until - now).min(LOOK_PERIOD);
            // Either way it is time to look again.
            let _ = reactor::timeout(period, self.wake.notified()).await;
        }
        reactor::now()
    }
}
