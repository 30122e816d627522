//! [`CurrentTables`]: the tables as they are now, and what every write asks of them. No I/O.

use crate::volumes::Tables;
use std::ops::Deref;
use std::sync::Arc;

/// The tables as they are now. A task that was shown them keeps them as they were then.
///
/// They change as a whole, and are counted anew before anybody else looks.
pub(crate) struct CurrentTables {
    tables: Arc<Tables>,
    /// Blocks that they promise.
    promised: u64,
    /// There are layers that nobody needs.
    unneeded: bool,
    /// How often they were changed.
    version: u64,
}

impl Deref for CurrentTables {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl CurrentTables {
    pub fn new(tables: Arc<Tables>) -> CurrentTables {
        CurrentTables {
            promised: tables.promised_blocks(),
            unneeded: tables.has_unneeded(),
            version: 1,
            tables,
        }
    }

    /// The tables of this instant, to be shown to others.
    pub fn shown(&self) -> Arc<Tables> {
        self.tables.clone()
    }

    /// Changes them. They are as they were if `change` fails, however far it came.
    pub fn change<T, E>(
        &mut self,
        change: impl FnOnce(&mut Tables) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.tables.clone();
        let changed = change(Arc::make_mut(&mut self.tables));
        match changed {
            Ok(_) => self.changed(),
            Err(_) => self.tables = before,
        }
        changed
    }

    /// Puts others in their place; returns what they were.
    pub fn replace(&mut self, tables: Arc<Tables>) -> Arc<Tables> {
        let before = std::mem::replace(&mut self.tables, tables);
        self.changed();
        before
    }

    fn changed(&mut self) {
        self.promised = self.tables.promised_blocks();
        self.unneeded = self.tables.has_unneeded();
        self.version += 1;
    }

    /// Blocks promised to volumes, as [`Tables::promised_blocks`] counts them.
    pub fn promised(&self) -> u64 {
        debug_assert_eq!(self.promised, self.promised_blocks(), "counted anew");
        self.promised
    }

    /// There are layers to be rid of, as [`Tables::has_unneeded`] finds out.
    pub fn unneeded(&self) -> bool {
        self.unneeded
    }

    /// No two tables that were here one after the other have the same.
    pub fn version(&self) -> u64 {
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;
    use crate::volumes::tests::volume;

    /// Adds a volume that reserves space, then fails or not.
    fn add(tables: &mut Tables, fails: bool) -> Result<VolumeId, &'static str> {
        let layer = tables.add_layer(None).map_err(|_| "used up")?;
        let id = VolumeId(tables.take_id().map_err(|_| "used up")?);
        let mut volume = volume(layer);
        volume.reserved = true;
        tables.volumes.insert(id, volume);
        match fails {
            true => Err("refused"),
            false => Ok(id),
        }
    }

    #[test]
    fn tables_are_counted_when_they_change_and_shown_as_they_were() {
        let mut current = CurrentTables::new(Arc::default());
        assert_eq!((current.promised(), current.unneeded()), (0, false));
        let (empty, first) = (current.shown(), current.version());
        let id = current.change(|tables| add(tables, false)).unwrap();
        let promised = current.volumes.get(id).unwrap().blocks;
        assert!(promised > 0 && current.promised() == promised);
        assert!(current.version() > first && empty.volumes.len() == 0);
        let layer = current.volumes.get(id).unwrap().layer;
        let gone: Result<_, ()> = current.change(|tables| Ok(tables.volumes.remove(id)));
        assert_eq!(gone.unwrap().unwrap().layer, layer);
        assert_eq!((current.promised(), current.unneeded()), (0, true));
    }

    #[test]
    fn a_change_that_fails_half_way_changes_nothing() {
        let mut current = CurrentTables::new(Arc::default());
        current.change(|tables| add(tables, false)).unwrap();
        let (before, version) = (current.shown(), current.version());
        assert_eq!(current.change(|tables| add(tables, true)), Err("refused"));
        assert!(*before == *current && current.version() == version);
        assert_eq!(current.promised(), before.promised_blocks());
    }
}
