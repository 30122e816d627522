//! Figures about the node: gathered once a second, and shown from there.
//!
//! Whoever asks is answered from the last [`Sample`], so that neither many askers nor slow ones
//! cost the data path anything.

mod families;
mod gather;
pub mod graphite;
mod history;
pub mod recorder;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{ErrorBody, ErrorCode, Metrics};
use prometheus::TextEncoder;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use self::gather::{
    Known, KnownLimits, KnownPool, KnownReplication, KnownSchedule, KnownVolume, Sample,
};
use self::history::History;
use self::recorder::Recorder;

/// Threads that read what is recorded, at once: they wait for a disk, and state has to be written
/// meanwhile.
const HISTORY_READERS: usize = 2;

/// The latest figures, those of the last hour, and those that are recorded.
pub struct Figures {
    latest: Mutex<Option<Arc<Sample>>>,
    history: Mutex<History>,
    recorder: Recorder,
    turns: Semaphore,
    /// What became of figures for a Graphite receiver.
    pub pushes: graphite::Pushes,
}

impl Figures {
    /// None yet, to be recorded in that directory.
    pub fn recorded_in(directory: &Path) -> io::Result<Figures> {
        Ok(Figures {
            latest: Mutex::default(),
            history: Mutex::default(),
            recorder: Recorder::start(directory)?,
            turns: Semaphore::new(HISTORY_READERS),
            pushes: graphite::Pushes::default(),
        })
    }

    /// What records them.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Waits until few others read what is recorded.
    pub async fn history_turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// The latest sample.
    pub fn latest(&self) -> Result<Arc<Sample>, ErrorBody> {
        let latest = lock(&self.latest).clone();
        latest.ok_or_else(|| ErrorBody::new(ErrorCode::NotReady, "no figures yet: ask in a second"))
    }

    /// All figures in Prometheus' text format.
    pub fn text(&self) -> Result<String, ErrorBody> {
        let families = families::of(&*self.latest()?);
        let text = TextEncoder::new().encode_to_string(&families);
        text.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))
    }

    /// The node's last intervals of this many seconds.
    pub fn shown(&self, interval_seconds: u32) -> Result<Metrics, ErrorBody> {
        // What is wrong is wrong also before there are figures.
        lock(&self.history).check(interval_seconds)?;
        let latest = self.latest()?;
        lock(&self.history).shown(interval_seconds, &latest)
    }

    /// Takes the next sample.
    pub fn add(&self, sample: Arc<Sample>) {
        lock(&self.history).add(&sample);
        *lock(&self.latest) = Some(sample);
    }
}

/// What is behind these locks is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
