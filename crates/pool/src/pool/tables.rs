//! Changes of volumes leave room in the tables for segments.

use crate::error::PoolError;
use crate::format::body::tables_bytes;
use crate::pool::Pool;
use crate::volumes::Tables;
use block::BlockDevice;

impl<D: BlockDevice + 'static> Pool<D> {
    /// Refuses a change of volumes or snapshots with which their tables would take what is kept for
    /// segments. What makes them smaller passes, however full they are.
    pub(crate) fn check_table_room(
        &self,
        before: &Tables,
        after: &Tables,
    ) -> Result<(), PoolError> {
        let (before, bytes) = (tables_bytes(before), tables_bytes(after) as u64);
        let allowed = self.coordinator.table_room().for_volumes();
        match bytes > before as u64 && bytes > allowed {
            true => Err(PoolError::TablesFull { bytes, allowed }),
            false => Ok(()),
        }
    }
}
