//! What requests show of the drives that answer them, and what is said of it.

use crate::drives::array::Array;
use crate::drives::drive::Drive;
use crate::drives::health::{Kind as Request, Verdict};
use crate::ids::DriveId;
use crate::reporting::event::{DriveChange, PoolEvent};
use crate::reporting::status::DriveHealth;
use block::BlockDevice;
use reactor::Instant;

impl<D: BlockDevice> Array<D> {
    pub fn tell(&self, index: usize, drive: [u8; 16], change: DriveChange) {
        let id = DriveId(drive);
        self.events.push(PoolEvent::Drive { id, index, change });
    }

    /// A drive has answered a request that began at `begun`.
    pub fn measured(&self, index: usize, drive: &Drive<D>, kind: Request, begun: Instant) {
        let now = reactor::turn_started();
        let time = now.saturating_since(begun);
        if !drive.health.measured(kind, time) {
            return;
        }
        let live = self.live();
        let others = live.iter().filter(|(other, _)| *other != index);
        let mut others: Vec<u64> = others
            .filter_map(|(_, drive)| drive.health.median_us(kind))
            .collect();
        let change = match drive.health.judge(kind, &mut others, now) {
            None => return,
            Some(Verdict::Steady) => DriveChange::Steady,
            Some(Verdict::Slow {
                median_us,
                others_us,
            }) => DriveChange::Slow {
                median_us,
                others_us,
            },
        };
        self.tell(index, drive.id, change);
    }

    /// A drive failed to read.
    pub fn read_failed(&self, index: usize, drive: &Drive<D>) {
        if drive.health.read_failed() {
            self.tell_errors(index, drive);
        }
    }

    /// Blocks came back from a drive other than they were written.
    pub fn corrupt(&self, index: usize, blocks: u64) {
        if let Some(drive) = self.drive(index)
            && drive.health.corrupt(blocks)
        {
            self.tell_errors(index, &drive);
        }
    }

    pub fn health(&self, index: usize) -> DriveHealth {
        let drive = self.drive(index);
        drive.map_or(DriveHealth::default(), |drive| DriveHealth {
            read_median_us: drive.health.median_us(Request::Read),
            write_median_us: drive.health.median_us(Request::Write),
            slow: drive.health.is_slow(),
            read_errors: drive.health.read_errors(),
            corrupt_blocks: drive.health.corrupt_blocks(),
        })
    }

    fn tell_errors(&self, index: usize, drive: &Drive<D>) {
        let change = DriveChange::Errors {
            read_errors: drive.health.read_errors(),
            corrupt_blocks: drive.health.corrupt_blocks(),
        };
        self.tell(index, drive.id, change);
    }
}
