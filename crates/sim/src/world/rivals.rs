//! Two hosts and one pool: one stands still at any moment, another takes the pool by force, the
//! first goes on as if nothing had happened.

use super::{BLOCK, OPERATIONS_MAX, Served, World, race};
use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use reactor::Reactor;
use std::collections::BTreeSet;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// A byte that no stamp has everywhere.
const FORBIDDEN: u8 = 0xdb;
/// What was let through before a host stood still reaches the drives within this time.
pub(super) const REQUESTS_LAST: Duration = Duration::from_millis(3900);

/// How the former holder comes to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Its clock went on: what was stopped was a process.
    Stopped,
    /// Its clock stood still as well: what was stopped was a whole virtual machine.
    Frozen,
}

impl World {
    /// A life in which the pool changes hands, if the first holder does not close it before.
    pub fn live_with_rival(self: &Rc<Self>) -> Result<(), String> {
        let absent = self.misfortune(false);
        self.serving.take();
        self.power.switch_on(OPERATIONS_MAX);
        self.power
            .pause_after(self.random.below(16 << self.random.below(9)));
        let first = self.reactor();
        let outcome = first.run(async {
            // What it does goes on when it does.
            let work = reactor::spawn(self.clone().work(absent.clone(), false, false));
            race(self.power.paused(), work).await
        });
        if let Some(result) = outcome {
            drop(first);
            self.end_host();
            return self.fault.take().map_or(result, Err);
        }
        self.count(|report| report.takeovers += 1);
        self.host.set(self.host.get() + 1);
        let former = self.serving.take();
        let result = self.take_over(&first, former, absent);
        self.deposed.set(None);
        drop(first);
        self.end_host();
        self.fault.take().map_or(result, Err)
    }

    fn take_over(
        self: &Rc<Self>,
        first: &Reactor,
        former: Option<Served>,
        absent: BTreeSet<usize>,
    ) -> Result<(), String> {
        let fuse = match self.random.once_in(2) {
            true => OPERATIONS_MAX,
            false => self.random.below(16 << self.random.below(10)),
        };
        self.power.switch_on(fuse);
        let second = self.reactor();
        let world = self.clone();
        let mut work: Pin<Box<dyn Future<Output = Result<(), String>>>> =
            Box::pin(world.work(absent, false, true));
        let rest = match self.random.once_in(3) {
            true => Rest::Frozen,
            false => Rest::Stopped,
        };
        let mut time = REQUESTS_LAST.mul_f64(self.random.below(1000) as f64 / 1000.0);
        let mut stood_still = Duration::ZERO;
        let mut landed = false;
        loop {
            let slice = async { race(self.until_cut(time), work.as_mut()).await };
            let done = second.run(slice);
            let ended = done.is_some() || !self.power.is_on();
            stood_still += time;
            if !std::mem::replace(&mut landed, true) {
                self.drives.borrow().iter().for_each(super::SimDrive::land);
            }
            if let Some(result) = done {
                result?;
            }
            if !ended && self.serving.borrow().is_none() {
                // The other one has not got it yet.
                time = Duration::from_secs(1);
                continue;
            }
            if self.power.is_on() {
                self.go_on(first, former.as_ref(), rest, stood_still)?;
                stood_still = Duration::ZERO;
            }
            if ended {
                return Ok(());
            }
            time = Duration::from_micros(self.random.below(1 << self.random.below(20)));
        }
    }

    /// The former holder goes on for a while.
    fn go_on(
        &self,
        first: &Reactor,
        former: Option<&Served>,
        rest: Rest,
        stood_still: Duration,
    ) -> Result<(), String> {
        if rest == Rest::Stopped {
            first.stand_still(stood_still);
        }
        self.deposed.set(Some(rest));
        let time = Duration::from_micros(self.random.below(1 << self.random.below(22)));
        let insists = async {
            match former {
                Some(pool) => self.insist(pool).await,
                None => pending().await,
            }
        };
        first.run(async { race(self.until_cut(time), insists).await });
        self.deposed.set(None);
        match self.violation.take() {
            Some(found) => Err(found),
            None => Ok(()),
        }
    }

    /// Some time, or less if the power fails.
    async fn until_cut(&self, time: Duration) {
        let sleep = reactor::sleep(time);
        // It ends either way.
        let _ = race(self.power.failed(), sleep).await;
    }

    /// What a former holder's hosts do: everything but give up.
    async fn insist(&self, pool: &Served) {
        loop {
            let volumes: Vec<u32> = pool.volumes().iter().map(|volume| volume.id.0).collect();
            for id in volumes {
                let Ok(device) = pool.volume(pool::VolumeId(id)) else {
                    continue;
                };
                let blocks = 1 + self.random.below(16);
                let last = device.geometry().block_count.saturating_sub(blocks);
                let start = Lba(self.random.below(last + 1));
                let mut buffer = Buffer::new(blocks as usize * BLOCK);
                buffer.fill(FORBIDDEN);
                let answer = match self.random.below(4) {
                    0 => {
                        // A read may have its reason to answer; it must do no harm.
                        let _ = device.read(start, buffer).await;
                        continue;
                    }
                    1 => device.deallocate(BlockRange::new(start, blocks)).await,
                    _ => device.write(start, buffer, Durability::Durable).await.1,
                };
                if answer.is_ok() {
                    self.acknowledged_late();
                }
            }
            if self.random.once_in(4) {
                let _ = pool.checkpoint().await;
            }
            reactor::sleep(Duration::from_micros(20)).await;
        }
    }

    /// A deposed holder has acknowledged a write that it began then. Only one whose clock stood
    /// still may.
    fn acknowledged_late(&self) {
        if self.deposed.get() == Some(Rest::Stopped) {
            let found = "a host that had lost the pool acknowledged a write".to_owned();
            self.violation.replace(Some(found));
        }
    }
}
