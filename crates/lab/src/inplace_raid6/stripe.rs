//! What happens within one stripe: reading around lost columns, and keeping parity.

use std::ops::Range;

use block::{BlockDevice, Buffer, Durability, IoError};
use parity::{Column, Survivors};

use super::InplaceRaid6;
use super::layout::{Band, Piece};
use crate::join::join_all;

/// P and Q of a band, for those of the two that have a drive to go to.
type Parity = (Option<Buffer>, Option<Buffer>);

impl<D: BlockDevice> InplaceRaid6<D> {
    /// The rows of a column, into `buffer`; false if its drive is lost or does not give them.
    async fn read_into(
        &self,
        stripe: u64,
        rows: &Range<u64>,
        column: Column,
        buffer: Buffer,
    ) -> (Buffer, bool) {
        let member = self.member(stripe, column);
        if member.lost.get() {
            return (buffer, false);
        }
        self.count(|traffic| {
            traffic.reads += 1;
            traffic.read_blocks += rows.end - rows.start;
        });
        let start = self.layout.lba(stripe, rows.start);
        let (buffer, result) = member.drive.read(start, buffer).await;
        if result == Err(IoError::DeviceGone) {
            member.lost.set(true);
        }
        (buffer, result.is_ok() && !member.lost.get())
    }

    /// The rows of each of `columns`, side by side; `None` for those that cannot be read.
    async fn read_columns(
        &self,
        stripe: u64,
        rows: &Range<u64>,
        columns: impl Iterator<Item = Column>,
    ) -> Vec<Option<Buffer>> {
        let read = |column| async move {
            let buffer = Buffer::new(self.bytes_of(rows));
            let (buffer, whole) = self.read_into(stripe, rows, column, buffer).await;
            whole.then_some(buffer)
        };
        join_all(columns.map(read)).await
    }

    /// Writes the rows of a column; a drive that fails to is lost.
    async fn write_column(
        &self,
        stripe: u64,
        rows: &Range<u64>,
        (column, data): (Column, Buffer),
        durability: Durability,
    ) {
        let member = self.member(stripe, column);
        if member.lost.get() {
            return;
        }
        self.count(|traffic| {
            traffic.writes += 1;
            traffic.written_blocks += rows.end - rows.start;
        });
        let start = self.layout.lba(stripe, rows.start);
        if member.drive.write(start, data, durability).await.1.is_err() {
            member.lost.set(true);
        }
    }

    /// Computes the `wanted` data columns, which are `None` in `data`, from the rest and from
    /// `p`, reading Q if it takes that.
    async fn recover(
        &self,
        stripe: u64,
        rows: &Range<u64>,
        (data, p): (&[Option<Buffer>], Option<Buffer>),
        wanted: &[usize],
    ) -> Result<Vec<Buffer>, IoError> {
        let lost = data.iter().filter(|column| column.is_none()).count();
        let q = if lost > usize::from(p.is_some()) {
            self.read_columns(stripe, rows, std::iter::once(Column::Q))
                .await
                .pop()
                .flatten()
        } else {
            None
        };
        let data: Vec<Option<&[u8]>> = data.iter().map(Option::as_deref).collect();
        let survivors = Survivors {
            data: &data,
            p: p.as_deref(),
            q: q.as_deref(),
        };
        let mut recovered: Vec<Buffer> = wanted
            .iter()
            .map(|_| Buffer::new(self.bytes_of(rows)))
            .collect();
        let mut into: Vec<(Column, &mut [u8])> = wanted
            .iter()
            .zip(&mut recovered)
            .map(|(&column, buffer)| (Column::Data(column), &mut buffer[..]))
            .collect();
        match parity::recover(survivors, &mut into) {
            Ok(()) => Ok(recovered),
            Err(_) => Err(IoError::UnrecoveredRead),
        }
    }

    /// Reads a piece of a request, reconstructing it if need be.
    pub(super) async fn read_piece(
        &self,
        piece: &Piece,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let Piece {
            stripe,
            column,
            rows,
            ..
        } = piece;
        let wanted = Column::Data(*column);
        let (mut buffer, whole) = self.read_into(*stripe, rows, wanted, buffer).await;
        if whole {
            return (buffer, Ok(()));
        }
        // Nobody may change any column of these rows between the reads of the others.
        let _rows = self.rows.hold(*stripe, rows.clone()).await;
        let others = (0..self.layout.data_columns()).filter(|other| other != column);
        let columns = others.map(Column::Data).chain([Column::P]);
        let mut data = self.read_columns(*stripe, rows, columns).await;
        let p = data.pop().flatten();
        data.insert(*column, None);
        let recovered = self.recover(*stripe, rows, (&data, p), &[*column]).await;
        let result = recovered.map(|columns| {
            for recovered in columns {
                buffer.copy_from_slice(&recovered);
            }
        });
        (buffer, result)
    }

    /// Writes a band of `request`: what it needs to know first, then data and parity together.
    pub(super) async fn write_band(
        &self,
        band: &Band,
        request: &[u8],
        durability: Durability,
    ) -> Result<(), IoError> {
        let Band {
            stripe,
            rows,
            parts,
        } = band;
        let _rows = self.rows.hold(*stripe, rows.clone()).await;
        let bytes = self.bytes_of(rows);
        let new: Vec<(usize, &[u8])> = parts
            .iter()
            .map(|&(column, at)| {
                (
                    column,
                    &request[at as usize * self.block_bytes()..][..bytes],
                )
            })
            .collect();
        let parities = [Column::P, Column::Q]
            .iter()
            .filter(|parity| self.has(*stripe, **parity));
        let others = self.layout.data_columns() - new.len();
        let updated = if new.len() + parities.count() <= others {
            self.updated_parity(*stripe, rows, &new).await
        } else {
            None
        };
        let (p, q) = match updated {
            Some(parity) => parity,
            None => self.generated_parity(*stripe, rows, &new).await?,
        };
        let data = new
            .iter()
            .map(|&(column, data)| (Column::Data(column), Buffer::copy_of(data)));
        let parity = [(Column::P, p), (Column::Q, q)];
        let parity = parity
            .into_iter()
            .filter_map(|(column, data)| Some((column, data?)));
        let writes = data.chain(parity);
        join_all(writes.map(|write| self.write_column(*stripe, rows, write, durability))).await;
        if self.lost_drives() > 2 {
            Err(IoError::WriteFault)
        } else {
            Ok(())
        }
    }

    /// Parity that follows the change: reads the old data and the old parity. `None` if some of
    /// it cannot be read.
    async fn updated_parity(
        &self,
        stripe: u64,
        rows: &Range<u64>,
        new: &[(usize, &[u8])],
    ) -> Option<Parity> {
        let parities = [Column::P, Column::Q].map(|parity| self.has(stripe, parity));
        let written = new.iter().map(|(column, _)| Column::Data(*column));
        let columns = written.chain([Column::P, Column::Q]);
        let mut old = self.read_columns(stripe, rows, columns).await;
        let q = old.pop()?;
        let p = old.pop()?;
        if [p.is_some(), q.is_some()] != parities {
            return None;
        }
        let zeroes = || Buffer::zeroed(self.bytes_of(rows));
        let (mut new_p, mut new_q) = (p.unwrap_or_else(zeroes), q.unwrap_or_else(zeroes));
        for ((column, new), old) in new.iter().zip(old) {
            parity::update_pq(*column, &old?, new, &mut new_p, &mut new_q);
        }
        Some((parities[0].then_some(new_p), parities[1].then_some(new_q)))
    }

    /// Parity of the new data and of the columns that stay, which it reads; those that cannot be
    /// read are recovered from all the rest.
    async fn generated_parity(
        &self,
        stripe: u64,
        rows: &Range<u64>,
        new: &[(usize, &[u8])],
    ) -> Result<Parity, IoError> {
        let is_new = |column: &usize| new.iter().any(|(written, _)| written == column);
        let all = 0..self.layout.data_columns();
        let staying: Vec<usize> = all.clone().filter(|column| !is_new(column)).collect();
        let columns = staying.iter().copied().map(Column::Data);
        let mut data: Vec<Option<Buffer>> = all.clone().map(|_| None).collect();
        for (&column, read) in staying
            .iter()
            .zip(self.read_columns(stripe, rows, columns).await)
        {
            data[column] = read;
        }
        let unread: Vec<usize> = staying
            .into_iter()
            .filter(|&column| data[column].is_none())
            .collect();
        if !unread.is_empty() {
            let columns = new
                .iter()
                .map(|(column, _)| Column::Data(*column))
                .chain([Column::P]);
            let mut old = self.read_columns(stripe, rows, columns).await;
            let p = old.pop().flatten();
            for ((column, _), old) in new.iter().zip(old) {
                data[*column] = old;
            }
            let recovered = self.recover(stripe, rows, (&data, p), &unread).await?;
            for (column, recovered) in unread.into_iter().zip(recovered) {
                data[column] = Some(recovered);
            }
        }
        let mut columns: Vec<&[u8]> = data
            .iter()
            .map(|column| column.as_deref().unwrap_or_default())
            .collect();
        for &(column, new) in new {
            columns[column] = new;
        }
        let (mut p, mut q) = (
            Buffer::new(self.bytes_of(rows)),
            Buffer::new(self.bytes_of(rows)),
        );
        parity::generate_pq(&columns, &mut p, &mut q);
        Ok((Some(p), Some(q)))
    }
}
