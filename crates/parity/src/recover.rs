//! Which equations give the lost columns of a stripe.

use std::fmt;

use crate::field::{inverse, multiply, power_of_two};
use crate::operations::Equations;

/// A column of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// The data column of this number.
    Data(usize),
    /// The sum of all data columns.
    P,
    /// The sum of 2^i times data column i.
    Q,
}

impl fmt::Display for Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Data(number) => write!(formatter, "data column {number}"),
            Column::P => formatter.write_str("P"),
            Column::Q => formatter.write_str("Q"),
        }
    }
}

/// A stripe of which some columns, the `None`s, are lost.
#[derive(Clone, Copy, Debug)]
pub struct Survivors<'a> {
    /// The data columns in order.
    pub data: &'a [Option<&'a [u8]>],
    /// P.
    pub p: Option<&'a [u8]>,
    /// Q; `None` also where a stripe has none.
    pub q: Option<&'a [u8]>,
}

impl<'a> Survivors<'a> {
    /// Every column that is left.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'a [u8]> {
        self.data.iter().copied().chain([self.p, self.q]).flatten()
    }

    fn is_lost(&self, column: Column) -> Result<bool, Unrecoverable> {
        let survivor = match column {
            Column::Data(number) => self
                .data
                .get(number)
                .copied()
                .ok_or(Unrecoverable::NoSuchColumn(column))?,
            Column::P => self.p,
            Column::Q => self.q,
        };
        Ok(survivor.is_none())
    }
}

/// Why lost columns cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unrecoverable {
    /// More data columns are lost than parity columns are left.
    TooManyLost {
        /// Lost data columns.
        data: usize,
        /// Parity columns left.
        parity: usize,
    },
    /// The stripe has no such column.
    NoSuchColumn(Column),
    /// A wanted column is among the survivors.
    NotLost(Column),
    /// A column is wanted twice.
    WantedTwice(Column),
}

impl fmt::Display for Unrecoverable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unrecoverable::TooManyLost { data, parity } => {
                write!(
                    formatter,
                    "{data} data columns lost with {parity} parity columns left"
                )
            }
            Unrecoverable::NoSuchColumn(column) => write!(formatter, "the stripe has no {column}"),
            Unrecoverable::NotLost(column) => write!(formatter, "{column} is not lost"),
            Unrecoverable::WantedTwice(column) => write!(formatter, "{column} is wanted twice"),
        }
    }
}

impl std::error::Error for Unrecoverable {}

/// How to compute the wanted columns.
pub(crate) enum Plan<'a> {
    /// One column that is the sum of the data columns left and of `parity`.
    Sum { parity: Option<&'a [u8]> },
    /// Up to two columns as combinations of both syndromes.
    Solve(Equations<'a>),
}

impl<'a> Plan<'a> {
    /// Checks that the survivors determine the `wanted` columns, and how.
    pub fn new(
        survivors: &Survivors<'a>,
        wanted: impl Iterator<Item = Column> + Clone,
    ) -> Result<Plan<'a>, Unrecoverable> {
        for (number, column) in wanted.clone().enumerate() {
            if !survivors.is_lost(column)? {
                return Err(Unrecoverable::NotLost(column));
            }
            if wanted.clone().take(number).any(|earlier| earlier == column) {
                return Err(Unrecoverable::WantedTwice(column));
            }
        }
        let lost = LostData::find(survivors)?;
        let mut coefficients = [(0, 0); 2];
        for (coefficients, column) in coefficients.iter_mut().zip(wanted) {
            *coefficients = lost.coefficients(column, survivors.p.is_some());
        }
        if coefficients == [(1, 0), (0, 0)] {
            return Ok(Plan::Sum {
                parity: survivors.p,
            });
        }
        let Survivors { data, p, q } = *survivors;
        Ok(Plan::Solve(Equations {
            data,
            p,
            q,
            coefficients,
        }))
    }
}

/// The powers of two that stand before the lost data columns in Q.
enum LostData {
    None,
    One(u8),
    Two(usize, [u8; 2]),
}

impl LostData {
    fn find(survivors: &Survivors<'_>) -> Result<LostData, Unrecoverable> {
        let parity = [survivors.p, survivors.q].into_iter().flatten().count();
        let data = survivors
            .data
            .iter()
            .filter(|column| column.is_none())
            .count();
        if data > parity {
            return Err(Unrecoverable::TooManyLost { data, parity });
        }
        let lost = survivors
            .data
            .iter()
            .enumerate()
            .filter(|(_, column)| column.is_none());
        let mut numbers = lost.map(|(number, _)| number);
        Ok(match (numbers.next(), numbers.next()) {
            (Some(x), Some(y)) => LostData::Two(x, [power_of_two(x), power_of_two(y)]),
            (Some(x), None) => LostData::One(power_of_two(x)),
            (None, _) => LostData::None,
        })
    }

    /// What to multiply the syndromes by to get a lost `column`.
    ///
    /// The syndromes are the sums of all that is left, stored parity included: with x and y lost,
    /// `p = x + y` and `q = 2^i x + 2^j y`. A syndrome whose parity column is itself lost lacks
    /// only that, so the lost parity is the syndrome plus what the lost data column adds to it.
    fn coefficients(&self, column: Column, has_p: bool) -> (u8, u8) {
        match (self, column) {
            (LostData::None, Column::P) => (1, 0),
            (LostData::None, _) => (0, 1),
            (LostData::One(_), Column::Data(_)) if has_p => (1, 0),
            (LostData::One(power), Column::Data(_)) => (0, inverse(*power)),
            (LostData::One(power), Column::P) => (1, inverse(*power)),
            (LostData::One(power), Column::Q) => (*power, 1),
            (LostData::Two(first, [x, y]), wanted) => {
                // q + 2^j p = (2^i + 2^j) x, and the other way round for y.
                let other = if wanted == Column::Data(*first) {
                    *y
                } else {
                    *x
                };
                let scale = inverse(x ^ y);
                (multiply(other, scale), scale)
            }
        }
    }
}
