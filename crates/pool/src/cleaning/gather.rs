//! What still lives in a segment that is being cleaned: found by its headers, read in runs.

use crate::format::stripe::{Header, Place, Record};
use crate::join::{join, join_all};
use crate::location::{BLOCK_BYTES, Entry, LayerBlock, Location, Mapping};
use crate::map::tree;
use crate::segments::attempts::Stuck;
use crate::segments::runs::{Live, Rows, cut, runs};
use crate::segments::victim::Victim;
use crate::segments::zones::Zone;
use crate::shard::core::Core;
use crate::stripes::item::{Move, place};
use crate::volumes::Root;
use block::{BlockDevice, Buffer, IoError};
use std::collections::BTreeSet;

/// Rows of which headers are sought at once, at most.
const ROWS_MAX: u32 = 512;
/// So many map nodes are read at once.
const LOOKUPS: usize = 32;

impl<D: BlockDevice + 'static> Core<D> {
    /// Takes some rows of a victim: marks the blocks that live as moving and reads them. Returns
    /// how many blocks have been looked at.
    pub async fn gather(&self, victim: &mut Victim, moves: &mut Vec<Move>) -> Result<u32, IoError> {
        let data = self.array.shape(victim.columns.len()).data as u32;
        let first = victim.row;
        let mut live = Vec::new();
        let rows = match victim.ahead.take() {
            Some(rows) => rows,
            None => self.first_column(victim).await,
        };
        let headers = self.headers(victim, &rows).await?;
        let blocks = self.blocks_of(victim, &headers);
        let unmapped = self.mark_live(&blocks, &mut live).await?;
        victim.note_unmapped(unmapped);
        victim.live = victim.live.saturating_sub(live.len() as u64);
        let reads = runs(&live).map(|run| self.read_live(victim, run, &rows));
        // The next headers come with these blocks, so that they need not be waited for.
        let (read, ahead) = join(join_all(reads), self.first_column(victim)).await;
        victim.ahead = (victim.row < victim.rows).then_some(ahead);
        let moved: usize = read.iter().map(Vec::len).sum();
        moves.extend(read.into_iter().flatten());
        victim.accounted += moved as u64 + self.replaced(victim, blocks, &live).await;
        Ok((victim.row - first) * data)
    }

    /// Takes blocks of a victim of which its headers do not tell: marks those that live as moving
    /// and reads them.
    pub async fn gather_known(
        &self,
        victim: &Victim,
        mut blocks: Vec<Live>,
    ) -> Result<Vec<Move>, IoError> {
        blocks.sort_unstable_by_key(|live| (live.owner, live.entry.at));
        let mut live = Vec::new();
        self.mark_live(&blocks, &mut live).await?;
        let nothing = Rows {
            first: 0,
            buffer: Buffer::new(0),
            read: false,
        };
        let reads = runs(&live).map(|run| self.read_live(victim, run, &nothing));
        Ok(join_all(reads).await.into_iter().flatten().collect())
    }

    /// How many of some blocks the maps still have where they are, although updates have replaced
    /// them; `live` are those that none had.
    async fn replaced(&self, victim: &Victim, blocks: Vec<Live>, live: &[Live]) -> u64 {
        let lives: BTreeSet<Location> = live.iter().map(|live| live.entry.at).collect();
        let replaced: Vec<(Live, Root)> = {
            let state = self.state.borrow();
            if victim.tables_version != state.tables.version() {
                return 0;
            }
            let root = |found: &Live| {
                let owner = found.owner;
                state.updates.get(owner.layer, owner.block)?;
                Some((*found, state.tables.layers.get(owner.layer)?.root?))
            };
            let others = blocks
                .iter()
                .filter(|found| !lives.contains(&found.entry.at));
            others.filter_map(root).collect()
        };
        let mut count = 0;
        for some in replaced.chunks(LOOKUPS) {
            let lookups = some
                .iter()
                .map(|(found, root)| tree::lookup(self, *root, found.owner.block));
            for ((found, _), mapping) in some.iter().zip(join_all(lookups).await) {
                count += u64::from(mapping == Ok(Some(Mapping::Block(found.entry))));
            }
        }
        count
    }

    /// Reads what the next piece has of the first column; nothing at the victim's end.
    async fn first_column(&self, victim: &Victim) -> Rows {
        let data = self.array.shape(victim.columns.len()).data as u32;
        let rows = (self.settings.cleaner_piece_blocks / data).clamp(1, ROWS_MAX);
        let rows = rows.min(victim.rows.saturating_sub(victim.row));
        let buffer = Buffer::new(rows as usize * BLOCK_BYTES);
        let zone = victim.columns.first().copied().flatten();
        let (buffer, read) = match rows {
            0 => (buffer, Ok(())),
            _ => self.array.read_zone(zone, victim.row, buffer).await,
        };
        Rows {
            first: victim.row,
            buffer,
            read: read.is_ok(),
        }
    }

    /// The headers of the stripes that begin in these rows; moves the victim on behind them.
    async fn headers(&self, victim: &mut Victim, rows: &Rows) -> Result<Vec<Header>, IoError> {
        let mut headers = Vec::new();
        let bounds = self.bounds(victim.columns.len());
        while let Some(block) = rows.block(victim.row) {
            let place = Place {
                segment: victim.number,
                generation: victim.generation,
                row: victim.row,
                incarnation: self.incarnation.get(),
            };
            let decoded = Header::decode(&self.secret, place, true, bounds, block);
            let header = match decoded.filter(|_| rows.read) {
                Some(header) => Some(header),
                None => self.read_header(&victim.columns, place).await?,
            };
            victim.row += header.as_ref().map_or(1, |header| header.rows);
            victim.whole &= header.is_some();
            headers.extend(header);
        }
        Ok(headers)
    }

    /// The header of the stripe that begins at a place, from its own column or made of the others.
    /// `None` if there is none to be had, as where a stripe was torn.
    ///
    /// Fails with [`IoError::NotReady`] if a drive may yet have it.
    pub async fn read_header(
        &self,
        columns: &[Option<Zone>],
        place: Place,
    ) -> Result<Option<Header>, IoError> {
        let bounds = self.bounds(columns.len());
        let decode = |block: &[u8]| Header::decode(&self.secret, place, true, bounds, block);
        let zone = columns.first().copied().flatten();
        let one = Buffer::new(BLOCK_BYTES);
        let (one, read) = self.array.read_zone(zone, place.row, one).await;
        if let Some(header) = decode(&one).filter(|_| read.is_ok()) {
            return Ok(Some(header));
        }
        let valid = |block: &[u8]| decode(block).is_some();
        let rebuilt = self.array.rebuild(columns, 0, place.row, read, &valid);
        match rebuilt.await {
            Ok(block) => Ok(decode(&block)),
            Err(IoError::NotReady) => Err(IoError::NotReady),
            Err(_) => Ok(None),
        }
    }

    /// This shard's blocks in some stripes, sorted by their owners.
    fn blocks_of(&self, victim: &Victim, headers: &[Header]) -> Vec<Live> {
        let state = self.state.borrow();
        let mut blocks: Vec<Live> = Vec::new();
        for header in headers {
            let mut index = 0;
            for record in &header.records {
                let at = place(victim.number, header.place.row, header.rows, index + 1);
                index += usize::from(record.crc().is_some());
                if let Some((owner, crc)) = record.owner()
                    && state.share.owner(owner.block) == state.share.shard
                {
                    // At most one of them has it here.
                    let holders = state.tables.holders(owner.layer);
                    blocks.extend(holders.map(|layer| Live {
                        owner: LayerBlock { layer, ..owner },
                        entry: Entry { at, crc },
                    }));
                }
            }
        }
        blocks.sort_unstable_by_key(|live| (live.owner, live.entry.at));
        blocks
    }

    /// Marks those of some blocks that the map still points at as moving; they come in the order in
    /// which they lie. Returns those that cannot be looked up for good: they stay.
    async fn mark_live(
        &self,
        blocks: &[Live],
        live: &mut Vec<Live>,
    ) -> Result<Vec<LayerBlock>, IoError> {
        let mut unmapped = Vec::new();
        let mut unknown: Vec<Live> = Vec::new();
        let said = self.peek_own(blocks.iter().map(|live| live.owner));
        for (found, said) in blocks.iter().zip(said) {
            match said {
                Some(mapping) if mapping == Some(Mapping::Block(found.entry)) => {
                    if self.mark(found) {
                        live.push(*found);
                    }
                }
                Some(_) => {}
                None => unknown.push(*found),
            }
        }
        for some in unknown.chunks(LOOKUPS) {
            // The nodes come from the drives side by side; the marks are made one by one.
            let lookups = some.iter().map(|live| self.find_own(live.owner));
            for (found, result) in some.iter().zip(join_all(lookups).await) {
                if let Err(error) = result
                    && error != IoError::UnrecoveredRead
                {
                    return Err(error);
                }
                match self.begin_block_move(found).await {
                    Ok(true) => live.push(*found),
                    Ok(false) => {}
                    Err(IoError::UnrecoveredRead) => unmapped.push(found.owner),
                    Err(error) => return Err(error),
                }
            }
        }
        live.sort_unstable_by_key(|live| (live.entry.at.column, live.entry.at.row));
        Ok(unmapped)
    }

    /// Marks a block as moving. False if it is already on its way: then this is an older copy.
    fn mark(&self, live: &Live) -> bool {
        let mut state = self.state.borrow_mut();
        state.moving.begin(live.owner, live.entry.at)
    }

    /// Marks a block as moving if it lives at `entry`. The mark comes before the look, so that a
    /// write that lands in between takes it off again.
    async fn begin_block_move(&self, found: &Live) -> Result<bool, IoError> {
        let Live { owner, entry } = *found;
        if !self.mark(found) {
            return Ok(false);
        }
        let mapping = self.find_own(owner).await;
        let here = mapping == Ok(Some(Mapping::Block(entry)));
        let mut state = self.state.borrow_mut();
        let still = state.moving.from(owner);
        if here && still == Some(entry.at) {
            return Ok(true);
        }
        state.moving.end(owner);
        mapping.map(|_| false)
    }

    /// Reads blocks of one column, with what lies between them; those that cannot be had stay.
    async fn read_live(&self, victim: &Victim, run: &[Live], known: &Rows) -> Vec<Move> {
        let (blocks, read) = match known.copies(run) {
            Some(blocks) => (blocks, true),
            None => self.read_run_of(victim, run).await,
        };
        let mut moves = Vec::with_capacity(run.len());
        for (live, own) in run.iter().zip(blocks) {
            let Live { owner, entry } = *live;
            let right = read && crc_fast::crc32_iscsi(&own) == entry.crc;
            let found = match right {
                true => Some(own),
                false => self.rescue(victim, live).await,
            };
            let Some(buffer) = found else {
                continue;
            };
            let record = Record::Moved {
                layer: owner.layer,
                block: owner.block,
                crc: entry.crc,
                from: entry.at,
                generation: victim.generation,
            };
            let again = victim.moved;
            moves.push(Move {
                record,
                buffer,
                again,
            });
        }
        moves
    }

    /// Reads a run of blocks; false if their drive would not.
    async fn read_run_of(&self, victim: &Victim, run: &[Live]) -> (Vec<Buffer>, bool) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return (Vec::new(), true);
        };
        let (first, last) = (first.entry, last.entry);
        let rows = (last.at.row - first.at.row + 1) as usize;
        let zone = victim.columns.get(usize::from(first.at.column));
        let buffer = Buffer::new(rows * BLOCK_BYTES);
        let zone = zone.copied().flatten();
        let (buffer, read) = self.array.read_zone(zone, first.at.row, buffer).await;
        (cut(buffer, run), read.is_ok())
    }

    /// Reads a block whose own copy is bad. If it cannot be had it stays where it is.
    async fn rescue(&self, victim: &Victim, live: &Live) -> Option<Buffer> {
        let one = Buffer::new(BLOCK_BYTES);
        let (one, result) = self
            .array
            .read_block(&victim.columns, live.entry, one)
            .await;
        if result.is_ok() {
            return Some(one);
        }
        let mut state = self.state.borrow_mut();
        state.moving.end(live.owner);
        if let Err(error) = result {
            state.attempts.fail(victim.number, Stuck::by(error));
        }
        drop(state);
        if result == Err(IoError::UnrecoveredRead) {
            self.lose_block(live.owner);
        }
        None
    }
}
