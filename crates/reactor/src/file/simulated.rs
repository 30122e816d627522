//! Files of a simulation: how they are held, and how long their operations take.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::File;
use crate::sim::SimulatedFile;
use crate::time::sleep;

/// The longest simulated operation; the shortest takes a tenth of it.
const LATENCY_MAX: Duration = Duration::from_micros(100);

/// An open simulated file, and whether it holds the lock.
pub(super) struct SimulatedHandle {
    pub(super) file: Rc<SimulatedFile>,
    locked: Cell<bool>,
}

impl SimulatedHandle {
    pub(super) fn new(file: Rc<SimulatedFile>) -> SimulatedHandle {
        SimulatedHandle {
            file,
            locked: Cell::new(false),
        }
    }

    /// Takes the file's lock, if it does not hold it; false if another handle does.
    pub(super) fn try_lock(&self) -> bool {
        let taken = self.locked.get() || self.file.try_lock();
        self.locked.set(taken);
        taken
    }
}

impl Drop for SimulatedHandle {
    fn drop(&mut self) {
        if self.locked.get() {
            self.file.unlock();
        }
    }
}

impl File {
    /// Fills `bytes` from `offset`; how many of them the file has.
    pub(super) async fn simulated_read(
        &self,
        handle: &SimulatedHandle,
        bytes: &mut [u8],
        offset: u64,
    ) -> usize {
        self.simulated_latency().await;
        let (first, second) = bytes.split_at_mut(self.first_part(handle, bytes.len()));
        let count = handle.file.read(first, offset);
        if second.is_empty() {
            return count;
        }
        self.simulated_latency().await;
        count + handle.file.read(second, offset + first.len() as u64)
    }

    /// Writes `bytes` at `offset`.
    pub(super) async fn simulated_write(
        &self,
        handle: &SimulatedHandle,
        bytes: &[u8],
        offset: u64,
    ) {
        let (first, second) = bytes.split_at(self.first_part(handle, bytes.len()));
        handle.file.write(first, offset);
        if !second.is_empty() {
            self.simulated_latency().await;
            handle.file.write(second, offset + first.len() as u64);
        }
    }

    /// How much of a transfer is copied at once, before the rest is.
    fn first_part(&self, handle: &SimulatedHandle, length: usize) -> usize {
        match self.context.world() {
            Some(world) if handle.file.is_page_cached() => {
                world.random_below(length as u64 + 1) as usize
            }
            _ => length,
        }
    }

    pub(super) async fn simulated_latency(&self) {
        if let Some(world) = self.context.world() {
            let range = LATENCY_MAX / 10..LATENCY_MAX;
            sleep(world.random_duration(&range)).await;
        }
    }
}
