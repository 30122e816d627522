//! [`Recorder`]: figures of 30 days, in a file beside the state.
//!
//! A thread of its own writes them, every ten seconds. A disk that is slow, full or gone costs
//! figures, which are counted; nothing waits for it.

mod file;
mod rows;
mod values;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use std::{io, thread};

use api::{HistoryKind, HistorySeries, Name, ObjectHistory};

use self::file::HistoryFile;
pub use self::file::{FILE_BYTES_MAX, TIERS};
use self::rows::Row;
use self::values::{Values, metrics_of};
use super::{Sample, lock};

/// The file of histories, in the state directory.
const FILE_NAME: &str = "history.ring";

/// What became of figures, and what their file takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Intervals that were written.
    pub written: u64,
    /// Intervals that were not, because the disk refused them or was slow.
    pub failed: u64,
    /// Objects of the last interval that there was no place for.
    pub left_out: u64,
    /// Objects that have a place.
    pub objects: u64,
    /// Bytes of the disk that the file takes.
    pub bytes: u64,
}

/// Records figures, and gives them back.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    /// One interval waits at most.
    queue: SyncSender<(u32, Vec<Row>)>,
}

#[derive(Debug, Default)]
struct Shared {
    path: PathBuf,
    problem: Mutex<Option<String>>,
    written: AtomicU64,
    failed: AtomicU64,
    left_out: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Recorder {
    /// Begins to record in a file in that directory.
    pub fn start(directory: &Path) -> io::Result<Recorder> {
        let shared = Arc::new(Shared {
            path: directory.join(FILE_NAME),
            ..Shared::default()
        });
        let (queue, batches) = sync_channel(1);
        let writer = Arc::clone(&shared);
        thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || writer.write_all(&batches))?;
        Ok(Recorder { shared, queue })
    }

    /// What became of figures.
    pub fn counts(&self) -> HistoryCounts {
        let shared = &self.shared;
        let value = |of: &AtomicU64| of.load(Ordering::Relaxed);
        HistoryCounts {
            written: value(&shared.written),
            failed: value(&shared.failed),
            left_out: value(&shared.left_out),
            objects: value(&shared.objects),
            bytes: value(&shared.bytes),
        }
    }

    /// Why figures are not written, if they are not.
    pub fn problem(&self) -> Option<String> {
        lock(&self.shared.problem).clone()
    }

    fn record(&self, interval: u32, rows: Vec<Row>) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send((interval, rows)) {
            self.shared.failed("the disk does not answer");
        }
    }

    /// Records the interval that ended with the sample `now`, if one has since `before`, which is
    /// `now` afterwards.
    pub fn take(&self, before: &mut Option<Arc<Sample>>, now: Arc<Sample>, node: &Name) {
        if let Some(before) = &before {
            if interval_of(before.time) == interval_of(now.time) {
                return;
            }
            let ended = interval_of(now.time).saturating_sub(1);
            self.record(ended, rows::rows(node, before, &now));
        }
        *before = Some(now);
    }

    /// The histories of objects; it waits for the disk.
    pub fn histories(
        &self,
        (kind, names): (HistoryKind, Vec<Name>),
        tier: usize,
        span: (u32, u32),
    ) -> io::Result<Vec<ObjectHistory>> {
        let file = match HistoryFile::open_to_read(&self.shared.path) {
            // Nothing was recorded yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let one = |name: Name| {
            let values = match &file {
                Some(file) => file.history((kind, &name), tier, span)?,
                None => vec![Values::default(); span.1 as usize],
            };
            Ok(shown(kind, name, &values))
        };
        names.into_iter().map(one).collect()
    }
}

fn shown(kind: HistoryKind, name: Name, values: &[Values]) -> ObjectHistory {
    let metrics = metrics_of(kind).into_iter().enumerate();
    let series = metrics.map(|(index, metric)| HistorySeries {
        metric,
        values: values.iter().map(|values| values[index]).collect(),
    });
    ObjectHistory {
        name,
        series: series.collect(),
    }
}

impl Shared {
    fn write_all(&self, batches: &Receiver<(u32, Vec<Row>)>) {
        let mut file = None;
        while let Ok((interval, rows)) = batches.recv() {
            match self.write(&mut file, interval, &rows) {
                Ok(()) => {
                    self.written.fetch_add(1, Ordering::Relaxed);
                    *lock(&self.problem) = None;
                }
                Err(error) => {
                    // It is opened anew for the next: what a failure left of it is on the disk.
                    file = None;
                    self.failed(&error.to_string());
                }
            }
        }
    }

    fn write(&self, file: &mut Option<HistoryFile>, interval: u32, rows: &[Row]) -> io::Result<()> {
        let file = match file {
            Some(file) => file,
            None => file.insert(HistoryFile::open(&self.path)?),
        };
        let left_out = file.write(interval, rows)?;
        self.left_out.store(left_out as u64, Ordering::Relaxed);
        self.objects.store(file.objects(), Ordering::Relaxed);
        self.bytes.store(file.bytes()?, Ordering::Relaxed);
        Ok(())
    }

    fn failed(&self, reason: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        *lock(&self.problem) = Some(format!("the history of figures is not written: {reason}"));
    }
}

/// The number of the first tier's interval that a time is in.
fn interval_of(time: SystemTime) -> u32 {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = elapsed.map_or(0, |elapsed| elapsed.as_secs());
    u32::try_from(seconds / u64::from(TIERS[0].seconds)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::metrics::gather::tests::{name, sample};

    /// What was recorded is found by kind and name, every figure of it, and nothing else is.
    #[test]
    fn each_object_has_its_figures() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::start(directory.path()).unwrap();
        let node = name("n");
        let (before, mut now) = (sample(), sample());
        now.taken = before.taken + Duration::from_secs(10);
        let drive = now.measures.drives.get_mut("d0").unwrap();
        (drive.read_bytes, drive.errors) = (50_000, 3);
        recorder.record(1000, rows::rows(&node, &before, &now));
        wait(|| recorder.counts().written == 1);
        let first = |kind, named: &str| -> Vec<Option<f64>> {
            let found = recorder
                .histories((kind, vec![name(named)]), 0, (1000, 1))
                .unwrap();
            found[0]
                .series
                .iter()
                .map(|series| series.values[0])
                .collect()
        };
        let idle = [Some(0.0), Some(0.0), Some(0.0), Some(0.0), None, None];
        assert_eq!(first(HistoryKind::Node, "n"), idle);
        assert_eq!(first(HistoryKind::Volume, "v"), idle);
        assert_eq!(first(HistoryKind::Volume, "fast"), [None; 6]);
        let pool = first(HistoryKind::Pool, "fast");
        assert_eq!(pool[5], Some(0.0));
        let used = pool[0].unwrap() / f64::from(1 << 20);
        assert!((used - 1.0).abs() < 0.001, "{used}");
        let drive = first(HistoryKind::Drive, "d0");
        assert_eq!(
            (drive[0], drive[1], drive[3]),
            (Some(1.0), Some(3.0), Some(3.0))
        );
        assert!((drive[4].unwrap() - 5000.0).abs() <= 5.0);
        assert_eq!((recorder.counts().objects, recorder.problem()), (4, None));
        assert!(recorder.counts().bytes > 0);
    }

    /// A file that cannot be written is counted and said, what is there is still read, and it is
    /// written again as soon as that is possible.
    #[test]
    fn a_disk_that_refuses_is_told_of() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::start(directory.path()).unwrap();
        let path = directory.path().join(FILE_NAME);
        std::fs::create_dir(&path).unwrap();
        let rows = || rows::rows(&name("n"), &sample(), &sample());
        recorder.record(1000, rows());
        wait(|| recorder.counts().failed == 1);
        let problem = recorder.problem().unwrap();
        assert!(
            problem.starts_with("the history of figures is not written: "),
            "{problem}"
        );
        std::fs::remove_dir(&path).unwrap();
        recorder.record(1001, rows());
        wait(|| recorder.counts().written == 1);
        assert_eq!(recorder.problem(), None);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    fn wait(done: impl Fn() -> bool) {
        while !done() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
