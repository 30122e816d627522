//! [`Kernel`]: the safe face of the operations, for one instruction set.
#![allow(
    unsafe_code,
    reason = "calls functions that need a CPU feature; see the SAFETY lines"
)]

use std::fmt;
use std::sync::OnceLock;

use crate::field::{Coefficient, power_of_two};
use crate::recover::{Column, Plan, Survivors, Unrecoverable};
use crate::table::{Sweeps, Table, tables};

/// The most data columns that P and Q can protect: the generator has that many distinct powers.
pub const MAX_DATA_COLUMNS: usize = 255;

/// From this many bytes in all columns, parity and data, [`Locality::Auto`] takes the stripe to
/// be in memory: it would fill the better part of a core's share of any last-level cache.
const MEMORY_BYTES: usize = 8 << 20;

/// Where the columns of a stripe are, and where its parity should go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Locality {
    /// Decided by size: stripes of 8 MiB or more count as being in memory.
    #[default]
    Auto,
    /// In a cache: parity is written to the cache too.
    Temporal,
    /// In memory: reads follow few streams at a time, and parity is written past the caches
    /// (where it is aligned to 64 bytes). For data that nobody has touched lately, as in a scrub.
    NonTemporal,
}

/// Agreement of stored parity with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mismatch {
    /// True when P is not what the data say.
    pub p: bool,
    /// True when Q is not what the data say.
    pub q: bool,
}

impl Mismatch {
    /// True when both agree.
    pub fn none(self) -> bool {
        !self.p && !self.q
    }
}

/// The parity operations for one instruction set that this CPU has.
#[derive(Clone, Copy)]
pub struct Kernel {
    table: &'static Table,
    locality: Locality,
}

impl Kernel {
    /// The fastest that this CPU has; looked up once.
    pub fn best() -> Kernel {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Kernel::available().next().unwrap_or(Kernel::portable()))
    }

    /// All that this CPU can run, the fastest first and the portable one last.
    pub fn available() -> impl Iterator<Item = Kernel> {
        tables()
            .into_iter()
            .filter(|(_, runs)| *runs)
            .map(|(table, _)| Kernel::of(table))
    }

    /// The one that every CPU can run.
    pub fn portable() -> Kernel {
        Kernel::of(Table::portable())
    }

    /// The same kernel, told where columns are.
    pub fn with_locality(self, locality: Locality) -> Kernel {
        Kernel { locality, ..self }
    }

    /// The instruction set: `portable`, `ssse3`, `avx2`, `avx2+gfni`, `avx512`, `avx512+gfni` or
    /// `neon`.
    pub fn name(self) -> &'static str {
        self.table.name
    }

    /// Adds `source` to `destination`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn xor_into(self, destination: &mut [u8], source: &[u8]) {
        assert_eq!(
            destination.len(),
            source.len(),
            "columns of different lengths"
        );
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe { (self.table.xor_into)(destination, source) }
    }

    /// Computes P, the sum of `data`; all zeroes if there are none.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn generate_p(self, data: &[&[u8]], p: &mut [u8]) {
        check_lengths(data, p.len());
        let sweeps = self.sweeps(data.len() + 1, p.len());
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe { (sweeps.generate_p)(data, p) }
    }

    /// Computes P, the sum of `data`, and Q, the sum of 2^i times data column i.
    ///
    /// # Panics
    /// When the lengths differ or there are more than [`MAX_DATA_COLUMNS`] columns.
    pub fn generate_pq(self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        check_count(data.len());
        check_lengths(data, p.len());
        assert_eq!(p.len(), q.len(), "columns of different lengths");
        let sweeps = self.sweeps(data.len() + 2, p.len());
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe { (sweeps.generate_pq)(data, p, q) }
    }

    /// Adds data column number `column` to the parity of other columns: starting from zeroes,
    /// the order of columns does not matter, nor does it matter in which pieces they come.
    ///
    /// # Panics
    /// When the lengths differ or `column` is not below [`MAX_DATA_COLUMNS`].
    pub fn accumulate_pq(self, column: usize, data: &[u8], p: &mut [u8], q: &mut [u8]) {
        check_count(column + 1);
        check_lengths(&[data, q], p.len());
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe { (self.table.accumulate_pq)(Coefficient::of(power_of_two(column)), data, p, q) }
    }

    /// Lets P and Q follow data column number `column` as it changes from `old` to `new`.
    ///
    /// # Panics
    /// When the lengths differ or `column` is not below [`MAX_DATA_COLUMNS`].
    pub fn update_pq(self, column: usize, old: &[u8], new: &[u8], p: &mut [u8], q: &mut [u8]) {
        check_count(column + 1);
        check_lengths(&[old, new, q], p.len());
        let coefficient = Coefficient::of(power_of_two(column));
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe { (self.table.update_pq)(coefficient, (old, new), p, q) }
    }

    /// Computes those lost columns of a stripe that are `wanted`, into the slices beside them.
    ///
    /// Lost are the columns that `survivors` has as `None`. As many data columns may be lost as
    /// there are parity columns left; of two lost columns, only one may be wanted. A stripe with
    /// P only is one whose Q is lost and never wanted.
    ///
    /// # Errors
    /// When the survivors do not determine the wanted columns; nothing is written then.
    ///
    /// # Panics
    /// When the lengths differ or there are more than [`MAX_DATA_COLUMNS`] columns.
    pub fn recover(
        self,
        survivors: Survivors<'_>,
        wanted: &mut [(Column, &mut [u8])],
    ) -> Result<(), Unrecoverable> {
        check_count(survivors.data.len());
        let plan = Plan::new(&survivors, wanted.iter().map(|(column, _)| *column))?;
        let Some(bytes) = wanted.first().map(|(_, column)| column.len()) else {
            return Ok(());
        };
        let lengths = survivors.columns().map(<[u8]>::len);
        for length in lengths.chain(wanted.iter().map(|(_, column)| column.len())) {
            assert_eq!(length, bytes, "columns of different lengths");
        }
        let sweeps = self.sweeps(survivors.data.len() + 2, bytes);
        let (first, second) = match wanted {
            [(_, first)] => (&mut **first, None),
            [(_, first), (_, second), ..] => (&mut **first, Some(&mut **second)),
            [] => return Ok(()),
        };
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe {
            match plan {
                Plan::Sum { parity } => {
                    (sweeps.restore)(survivors.data, parity, first);
                }
                Plan::Solve(equations) => (sweeps.solve)(&equations, first, second),
            }
        }
        Ok(())
    }

    /// True when P is the sum of `data`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn verify_p(self, data: &[&[u8]], p: &[u8]) -> bool {
        check_lengths(data, p.len());
        let sweeps = self.sweeps(data.len() + 1, p.len());
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        unsafe { !(sweeps.check_p)(data, p) }
    }

    /// Which of P and Q are not what `data` says.
    ///
    /// # Panics
    /// When the lengths differ or there are more than [`MAX_DATA_COLUMNS`] columns.
    pub fn verify_pq(self, data: &[&[u8]], p: &[u8], q: &[u8]) -> Mismatch {
        check_count(data.len());
        check_lengths(data, p.len());
        assert_eq!(p.len(), q.len(), "columns of different lengths");
        let sweeps = self.sweeps(data.len() + 2, p.len());
        // SAFETY: a kernel exists only for a CPU that can run it; the lengths are equal.
        let (p, q) = unsafe { (sweeps.check_pq)(data, p, q) };
        Mismatch { p, q }
    }

    fn of(table: &'static Table) -> Kernel {
        Kernel {
            table,
            locality: Locality::Auto,
        }
    }

    fn sweeps(self, columns: usize, bytes: usize) -> &'static Sweeps {
        let in_memory = match self.locality {
            Locality::Auto => columns.saturating_mul(bytes) >= MEMORY_BYTES,
            Locality::Temporal => false,
            Locality::NonTemporal => true,
        };
        if in_memory {
            &self.table.streamed
        } else {
            &self.table.cached
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Kernel({}, {:?})",
            self.table.name, self.locality
        )
    }
}

fn check_lengths(columns: &[&[u8]], bytes: usize) {
    for column in columns {
        assert_eq!(column.len(), bytes, "columns of different lengths");
    }
}

fn check_count(columns: usize) {
    assert!(
        columns <= MAX_DATA_COLUMNS,
        "more than {MAX_DATA_COLUMNS} data columns"
    );
}
