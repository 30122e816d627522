//! [`Study`]: one load on one namespace of one drive, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::closed_form;
use crate::error::ProfileError;
use crate::event::{EventModel, Translation};
use crate::flash::{Cleaned, Flash, FlashCounters};
use crate::load::{Load, Pattern};
use crate::outcome::{Measured, Outcome};
use crate::placement::{Parts, Placement};
use crate::precondition::Precondition;
use crate::profile::Profile;
use crate::requests::{Request, Requests};
use crate::timeline::Timeline;

/// How closely time is modelled. All three agree within 3% on the published figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Formulas: microseconds of work, no percentiles.
    ClosedForm,
    /// The translation layer, page by page, with one time per resource.
    #[default]
    Timeline,
    /// The translation layer with queues and events.
    Event,
}

/// One load on one namespace of one drive.
///
/// ```
/// use ssd::{Fidelity, Load, Study, profiles};
///
/// # fn main() -> Result<(), ssd::ProfileError> {
/// let profile = profiles::named("cm7-r-7.68")?;
/// let load = Load::new("randwrite", 0, 4096)?.with_depth(8, 4);
/// let iops = |namespace_bytes| {
///     let mut study = Study::new(&profile, namespace_bytes, load);
///     study.fidelity = Fidelity::ClosedForm;
///     study.run(&mut |_| true).map(|outcome| outcome.map_or(0.0, |it| it.iops))
/// };
/// // Flash that no namespace has makes random writes cheaper.
/// assert!(iops(6_400_000_000_000)? > 1.5 * iops(7_680_000_000_000)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Study<'a> {
    /// The drive.
    pub profile: &'a Profile,
    /// Bytes of the one namespace that is allocated.
    pub namespace_bytes: u64,
    /// What the host asks of it.
    pub load: Load,
    /// The state before.
    pub precondition: Precondition,
    /// How writes are placed apart.
    pub placement: Placement,
    /// How closely time is modelled.
    pub fidelity: Fidelity,
    /// Capacity factor, at most 1.
    pub scale: f64,
    /// What is random follows from this.
    pub seed: u64,
    /// How long to measure, in namespace writes (a load without writes: in requests of one for
    /// each page).
    pub passes: f64,
    /// Warm-up before measuring, as a share of what is measured; the write buffer's fill comes
    /// on top, unless it is 0.
    pub warm_up: f64,
}

/// Warm-up where nothing else is said.
const WARM_UP: f64 = 0.25;

/// Requests between two looks at whether to go on.
const CHECK_EVERY: u64 = 1 << 16;

/// Requests that a load without writes is measured over, per pass.
const READS_PER_PASS: f64 = 1_000_000.0;

impl<'a> Study<'a> {
    /// A study of `load` on a namespace of `namespace_bytes` with everything else as usual:
    /// steady state of the load's own pattern, default timing, one pass.
    pub fn new(profile: &'a Profile, namespace_bytes: u64, load: Load) -> Study<'a> {
        let precondition = match load.pattern {
            Pattern::Random => Precondition::SteadyRandom,
            Pattern::Sequential => Precondition::Sequential,
        };
        Study {
            profile,
            namespace_bytes,
            load,
            precondition,
            placement: Placement::default(),
            fidelity: Fidelity::default(),
            scale: profile.study_scale().min(1.0),
            seed: 1,
            passes: 1.0,
            warm_up: WARM_UP,
        }
    }

    /// Runs it. `progress` is told the share done, 0 to 1, now and then, and says whether to go
    /// on; `Ok(None)` when it said no.
    pub fn run(
        &self,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<Outcome>, ProfileError> {
        let pages = self.namespace_pages()?;
        if self.fidelity == Fidelity::ClosedForm {
            return Ok(Some(closed_form::outcome(self)));
        }
        let geometry = self.profile.geometry(self.scale)?;
        let Placement { handles, isolation } = self.placement;
        let mut flash = Flash::with_handles(geometry, handles, isolation)
            .map_err(|error| ProfileError::Load(error.to_string()))?;
        if self.is_uniform() {
            let live: Vec<u32> = (0..pages).collect();
            self.precondition.apply(&mut flash, &live, self.seed);
        } else if self.precondition == Precondition::Sequential {
            let parts = Parts::new(self.placement, &self.load, pages);
            for page in 0..pages {
                flash.write_placed(page, parts.handle(page));
            }
            flash.reset_counters();
        }
        let run = Run::new(self, flash, pages);
        let measured = match self.fidelity {
            Fidelity::Event => run.events(progress),
            _ => run.timeline(progress),
        };
        Ok(measured.map(|measured| Outcome::new(self, &measured)))
    }

    /// Whether any block is written as often, and placed as any other: what formulas know.
    pub fn is_uniform(&self) -> bool {
        self.placement.handles == 1 && self.load.hot.is_none()
    }

    /// The namespace's size in pages of the scaled drive.
    fn namespace_pages(&self) -> Result<u32, ProfileError> {
        self.profile.validate()?;
        self.load.validate()?;
        let capacity = self.profile.capacity_bytes();
        let refuse = |reason: String| Err(ProfileError::Load(reason));
        if self.namespace_bytes == 0 || self.namespace_bytes > capacity {
            return refuse(format!(
                "a namespace of {} bytes on a drive of {capacity}",
                self.namespace_bytes
            ));
        }
        if !(self.passes.is_finite() && self.passes > 0.0 && self.passes <= 1000.0) {
            return refuse(format!(
                "{} passes; it has to be above 0, at most 1000",
                self.passes
            ));
        }
        let by_formula = self.fidelity == Fidelity::ClosedForm
            || !matches!(
                self.precondition,
                Precondition::Sequential | Precondition::Purge
            );
        if by_formula && !self.is_uniform() {
            return refuse(
                "hot data or several handles: there is no formula for these; use another \
                 fidelity than closed-form, and sequential or purge before it with a warm-up of \
                 some passes"
                    .to_owned(),
            );
        }
        if !(0.0..=100.0).contains(&self.warm_up) {
            return refuse(format!(
                "warm-up of {}; it has to be from 0 to 100",
                self.warm_up
            ));
        }
        let geometry = self.profile.geometry(self.scale)?;
        let share = self.namespace_bytes as f64 / capacity as f64;
        let pages = (f64::from(geometry.logical_pages) * share).round() as u32;
        let needed = u64::from(self.load.pages()) * u64::from(self.load.jobs);
        if u64::from(pages) < needed {
            return refuse(format!(
                "the namespace has {pages} pages at scale {:.6}; the load needs {needed}",
                self.scale
            ));
        }
        Ok(pages)
    }

    /// Bytes of the namespace as it is scaled, per byte of the real one, exactly.
    pub(crate) fn live_tb(&self) -> f64 {
        self.namespace_bytes as f64 / crate::profile::TERABYTE
    }
}

/// A study under way.
struct Run {
    load: Load,
    flash: Flash,
    parts: Parts,
    requests: Requests,
    profile: Profile,
    /// Requests of warm-up, and in all.
    warm_up: u64,
    total: u64,
    /// Where the counters stood when measuring began.
    counters: FlashCounters,
}

impl Run {
    fn new(study: &Study, flash: Flash, pages: u32) -> Run {
        let load = study.load;
        let writes = 1.0 - load.read_share();
        let measured = if load.read_percent == 100 {
            READS_PER_PASS / f64::from(load.pages()).sqrt() * study.passes
        } else {
            f64::from(pages) * study.passes / f64::from(load.pages()) / writes
        };
        let measured = measured.ceil() as u64 + 16 * u64::from(load.outstanding());
        let buffer = u64::from(study.profile.controller.buffer_pages / load.pages());
        let buffer = (buffer as f64 / writes.max(0.01)) as u64 * 2;
        let warm_up = match study.warm_up {
            0.0 => 0,
            share => (measured as f64 * share) as u64 + buffer,
        };
        Run {
            load,
            flash,
            parts: Parts::new(study.placement, &load, pages),
            requests: Requests::new(load, pages, study.seed ^ 0x5eed),
            profile: study.profile.clone(),
            warm_up,
            total: warm_up + measured,
            counters: FlashCounters::default(),
        }
    }

    fn timeline(mut self, progress: &mut dyn FnMut(f64) -> bool) -> Option<Measured> {
        let pages = self.flash.geometry().pages_per_superblock;
        let mut timeline = Timeline::new(&self.profile, pages);
        let mut measured = Measured::new(self.total - self.warm_up);
        let mut outstanding = BinaryHeap::with_capacity(self.load.outstanding() as usize);
        for _ in 0..self.load.outstanding() {
            let request = self.requests.next();
            outstanding.push(Reverse((
                self.start(&mut timeline, 0, request),
                0,
                request.reads,
            )));
        }
        for number in 0..self.total {
            if number % CHECK_EVERY == 0 && !progress(number as f64 / self.total as f64) {
                return None;
            }
            let mut first = outstanding.peek_mut()?;
            let Reverse((now, issued_at, reads)) = *first;
            if number == self.warm_up {
                self.begin(&mut measured, now);
            } else if number > self.warm_up {
                measured.record(reads, now - issued_at);
                if measured.interval_ends() {
                    measured.end_interval(now, self.flash.counters());
                }
            }
            let request = self.requests.next();
            *first = Reverse((self.start(&mut timeline, now, request), now, request.reads));
            drop(first);
            measured.ended_at_ns = now;
        }
        Some(self.end(measured))
    }

    #[inline]
    fn start(&mut self, timeline: &mut Timeline, now: u64, request: Request) -> u64 {
        let pages = self.load.pages();
        if request.reads {
            let flash = &self.flash;
            let physical = (request.page..request.page + pages).filter_map(|at| flash.lookup(at));
            timeline.read(now, pages, physical)
        } else {
            let cleaned = write_pages(&mut self.flash, &self.parts, request.page, pages);
            timeline.write(now, pages, cleaned)
        }
    }

    fn events(mut self, progress: &mut dyn FnMut(f64) -> bool) -> Option<Measured> {
        let slots = self.load.outstanding();
        let pages = self.flash.geometry().pages_per_superblock;
        let mut model = EventModel::new(&self.profile, pages, slots);
        let mut measured = Measured::new(self.total - self.warm_up);
        let mut under_way = vec![(Request::default(), 0_u64); slots as usize];
        for slot in 0..slots {
            let request = self.requests.next();
            under_way[slot as usize] = (request, 0);
            issue(&mut model, slot, 0, request, self.load.pages());
        }
        for number in 0..self.total {
            if number % CHECK_EVERY == 0 && !progress(number as f64 / self.total as f64) {
                return None;
            }
            let mut translation = Mapped {
                run: &mut self,
                under_way: &under_way,
            };
            let (slot, now) = model.next_completion(&mut translation)?;
            let (request, issued_at) = under_way[slot as usize];
            if number == self.warm_up {
                self.begin(&mut measured, now);
            } else if number > self.warm_up {
                measured.record(request.reads, now - issued_at);
                if measured.interval_ends() {
                    measured.end_interval(now, self.flash.counters());
                }
            }
            let request = self.requests.next();
            under_way[slot as usize] = (request, now);
            issue(&mut model, slot, now, request, self.load.pages());
            measured.ended_at_ns = now;
        }
        Some(self.end(measured))
    }

    fn begin(&mut self, measured: &mut Measured, now: u64) {
        self.counters = self.flash.counters();
        measured.begin(now, self.counters);
    }

    fn end(self, mut measured: Measured) -> Measured {
        measured.counters = self.flash.counters().since(&self.counters);
        measured.mapped_pages = self.flash.mapped_pages();
        measured
    }
}

fn issue(model: &mut EventModel, slot: u32, now: u64, request: Request, pages: u32) {
    if request.reads {
        model.read(slot, now, pages);
    } else {
        model.write(slot, now, pages);
    }
}

/// Writes a run of pages, and adds up what cleaning did.
fn write_pages(flash: &mut Flash, parts: &Parts, first: u32, pages: u32) -> Cleaned {
    let mut sum = Cleaned::default();
    for page in first..first + pages {
        let cleaned = flash.write_placed(page, parts.handle(page));
        sum.copied += cleaned.copied;
        sum.erased += cleaned.erased;
    }
    sum
}

/// The run's translation layer, and which request each slot stands for.
struct Mapped<'a> {
    run: &'a mut Run,
    under_way: &'a [(Request, u64)],
}

impl Translation for Mapped<'_> {
    fn physical(&mut self, slot: u32, into: &mut Vec<u32>) {
        let first = self.under_way[slot as usize].0.page;
        let pages = first..first + self.run.load.pages();
        into.extend(pages.filter_map(|page| self.run.flash.lookup(page)));
    }

    fn write(&mut self, slot: u32) -> Cleaned {
        let first = self.under_way[slot as usize].0.page;
        let pages = self.run.load.pages();
        let run = &mut *self.run;
        write_pages(&mut run.flash, &run.parts, first, pages)
    }
}

#[cfg(test)]
#[path = "study_tests.rs"]
mod tests;
