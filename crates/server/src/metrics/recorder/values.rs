//! What is kept of an object at one time: six figures, in sixteen bytes with their time.

use api::{HistoryKind, HistoryMetric};

/// Figures of an object.
pub const VALUES: usize = 6;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 4 + 2 * VALUES;

/// Figures of an object at one time, as [`metrics_of`] its kind names them; nothing where there is
/// none.
pub type Values = [Option<f64>; VALUES];

/// Codes for each doubling of a value: neighbours differ by 0.07%.
const CODES_A_DOUBLING: f64 = 1024.0;

/// What the figures of a kind are.
pub fn metrics_of(kind: HistoryKind) -> [HistoryMetric; VALUES] {
    use HistoryMetric as Of;
    match kind {
        HistoryKind::Node | HistoryKind::Volume => [
            Of::ReadIops,
            Of::WriteIops,
            Of::ReadBytesPerSecond,
            Of::WriteBytesPerSecond,
            Of::ReadLatencyP99Us,
            Of::WriteLatencyP99Us,
        ],
        HistoryKind::Pool => [
            Of::UsedBytes,
            Of::UsableBytes,
            Of::ReadBytesPerSecond,
            Of::WriteBytesPerSecond,
            Of::Iops,
            Of::MissingDrives,
        ],
        HistoryKind::Drive => [
            Of::Online,
            Of::PercentageUsed,
            Of::AvailableSparePercent,
            Of::Errors,
            Of::ReadBytesPerSecond,
            Of::WriteBytesPerSecond,
        ],
    }
}

/// The figures of a longer interval from those of its parts, oldest first.
pub fn together(kind: HistoryKind, parts: &[Values]) -> Values {
    let mut all = Values::default();
    for (index, metric) in metrics_of(kind).into_iter().enumerate() {
        let values = parts.iter().filter_map(|part| part[index]);
        all[index] = one(metric, values);
    }
    all
}

fn one(metric: HistoryMetric, values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    use HistoryMetric as Of;
    match metric {
        Of::ReadIops
        | Of::WriteIops
        | Of::Iops
        | Of::ReadBytesPerSecond
        | Of::WriteBytesPerSecond => {
            let count = values.clone().count();
            (count > 0).then(|| values.sum::<f64>() / count as f64)
        }
        Of::ReadLatencyP99Us | Of::WriteLatencyP99Us | Of::MissingDrives => values.reduce(f64::max),
        Of::UsedBytes | Of::UsableBytes | Of::PercentageUsed | Of::AvailableSparePercent => {
            values.last()
        }
        Of::Online => values.reduce(f64::min),
        Of::Errors => values.reduce(|sum, more| sum + more),
    }
}

/// A record: the number of its interval since 1970, then a code for each figure.
pub fn encode(interval: u32, values: &Values) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let (time, codes) = record.split_at_mut(4);
    time.copy_from_slice(&interval.to_le_bytes());
    for (code, value) in codes.chunks_exact_mut(2).zip(values) {
        code.copy_from_slice(&code_of(*value).to_le_bytes());
    }
    record
}

/// The figures of a record, if it is of that interval.
pub fn decode(record: &[u8], interval: u32) -> Option<Values> {
    let (time, codes) = record.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*time) != interval {
        return None;
    }
    let mut values = Values::default();
    for (value, code) in values.iter_mut().zip(codes.as_chunks::<2>().0) {
        *value = value_of(u16::from_le_bytes(*code));
    }
    Some(values)
}

/// 0 stands for nothing. The others are logarithms, so that counts and bytes have the same share of
/// error.
fn code_of(value: Option<f64>) -> u16 {
    let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) else {
        return 0;
    };
    let code = value.ln_1p() / std::f64::consts::LN_2 * CODES_A_DOUBLING;
    1 + code.round().min(f64::from(u16::MAX - 1)) as u16
}

fn value_of(code: u16) -> Option<f64> {
    let power = f64::from(code.checked_sub(1)?) / CODES_A_DOUBLING;
    let value = (power * std::f64::consts::LN_2).exp_m1();
    // No more digits than there are: they would be three quarters of an answer.
    let digits = if value >= 1000.0 { 1.0 } else { 1000.0 };
    Some((value * digits).round() / digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read is within a thousandth of what was written, from fractions to 2^63, and small
    /// whole numbers are what they were to a hundredth.
    #[test]
    fn figures_keep_three_digits() {
        let mut value = 0.01;
        while value < 2f64.powi(63) {
            let values = [Some(value); VALUES];
            let read = decode(&encode(7, &values), 7).unwrap();
            for found in read.into_iter().map(Option::unwrap) {
                let near = (found - value).abs() <= value * 0.001 + 0.001;
                assert!(near, "{value} became {found}");
            }
            value *= 1.37;
        }
        for whole in 0..=100u8 {
            let values = [Some(f64::from(whole)); VALUES];
            let read = decode(&encode(7, &values), 7).unwrap()[0].unwrap();
            assert_eq!(read.round(), f64::from(whole));
        }
    }

    /// Nothing stays nothing, and no number is taken for one.
    #[test]
    fn a_gap_is_no_zero() {
        let values = [None, Some(0.0), Some(f64::NAN), Some(-1.0), None, Some(1.0)];
        let read = decode(&encode(7, &values), 7).unwrap();
        assert_eq!(read, [None, Some(0.0), None, None, None, Some(1.0)]);
        assert_eq!(decode(&encode(7, &values), 8), None);
        assert_eq!(decode(&[0; 3], 0), None);
    }

    /// Rates are averaged, latencies and losses shown at their worst, states as they were last.
    #[test]
    fn a_longer_interval_hides_no_worst() {
        let part = |value| [Some(value); VALUES];
        let parts = [part(4.0), [None; VALUES], part(8.0), part(6.0)];
        let volume = together(HistoryKind::Volume, &parts);
        assert_eq!(volume, [6.0, 6.0, 6.0, 6.0, 8.0, 8.0].map(Some));
        let pool = together(HistoryKind::Pool, &parts);
        assert_eq!(pool, [6.0, 6.0, 6.0, 6.0, 6.0, 8.0].map(Some));
        let drive = together(HistoryKind::Drive, &parts);
        assert_eq!(drive, [4.0, 6.0, 6.0, 18.0, 6.0, 6.0].map(Some));
        assert_eq!(together(HistoryKind::Node, &[]), [None; VALUES]);
    }
}
