//! [`Sample`]: repetitions of one figure, their mean, and what the mean is worth.

/// Two-sided 95% points of Student's distribution for 1 to 30 degrees of freedom.
const STUDENT_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Beyond 30 degrees of freedom: a little more than the normal distribution's 1.960, so that
/// an interval is rather too wide.
const STUDENT_95_MANY: f64 = 2.042;

/// The 95% point for so many degrees of freedom, which need not be whole.
fn student(degrees: f64) -> f64 {
    let whole = degrees.floor().max(1.0) as usize;
    STUDENT_95
        .get(whole - 1)
        .copied()
        .unwrap_or(STUDENT_95_MANY)
}

/// Values of independent repetitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    values: Vec<f64>,
}

/// A 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half its width.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

impl Sample {
    /// The repetitions' values.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Sample {
        Sample {
            values: values.into_iter().collect(),
        }
    }

    /// True without repetitions.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The repetitions' values, in order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// How many repetitions.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The mean; 0 without repetitions.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    /// The variance of the mean; `None` with fewer than two repetitions.
    fn variance_of_mean(&self) -> Option<f64> {
        let count = self.values.len();
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        (count > 1).then(|| squares / (count - 1) as f64 / count as f64)
    }

    /// Where the true mean is; `None` with fewer than two repetitions.
    pub fn interval(&self) -> Option<Interval> {
        let half = student(self.values.len() as f64 - 1.0) * self.variance_of_mean()?.sqrt();
        Some(Interval {
            low: self.mean() - half,
            high: self.mean() + half,
        })
    }

    /// Where the true difference of the means is, `other` less this (Welch); `None` when either
    /// has fewer than two repetitions.
    pub fn difference(&self, other: &Sample) -> Option<Interval> {
        let (own, theirs) = (self.variance_of_mean()?, other.variance_of_mean()?);
        let half = welch((own, self.count()), (theirs, other.count()));
        let difference = other.mean() - self.mean();
        Some(Interval {
            low: difference - half,
            high: difference + half,
        })
    }

    /// Where the true ratio of the means is, this over `base`: Welch's interval of the difference
    /// of their logarithms, whose variances are the means' relative ones. `None` when either has
    /// fewer than two repetitions, or a mean is not above zero.
    pub fn ratio(&self, base: &Sample) -> Option<Interval> {
        let relative = |sample: &Sample| {
            let mean = Some(sample.mean()).filter(|mean| *mean > 0.0)?;
            Some((sample.variance_of_mean()? / mean.powi(2), sample.count()))
        };
        let half = welch(relative(self)?, relative(base)?).exp();
        let ratio = self.mean() / base.mean();
        Some(Interval {
            low: ratio / half,
            high: ratio * half,
        })
    }
}

/// Half the interval of a difference of two means, of which each is given as its variance and the
/// number of repetitions.
fn welch((own, own_count): (f64, usize), (theirs, their_count): (f64, usize)) -> f64 {
    let variance = own + theirs;
    let share = |variance: f64, count: usize| variance.powi(2) / (count - 1) as f64;
    let spread = share(own, own_count) + share(theirs, their_count);
    let degrees = if spread > 0.0 {
        variance.powi(2) / spread
    } else {
        1.0
    };
    student(degrees) * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_textbook_sample() {
        // Five values with mean 10 and standard deviation 1.5811: 10 +- 2.776 * 0.7071.
        let sample = Sample::new([8.0, 9.0, 10.0, 11.0, 12.0]);
        let interval = sample.interval().unwrap();
        assert!((interval.low - 8.037).abs() < 0.001, "{interval:?}");
        assert!((interval.high - 11.963).abs() < 0.001, "{interval:?}");
        assert!((interval.half() - 1.963).abs() < 0.001);
    }

    #[test]
    fn one_repetition_says_nothing_about_its_worth() {
        let one = Sample::new([8.0]);
        assert_eq!(one.mean(), 8.0);
        assert_eq!(one.interval(), None);
        assert_eq!(one.difference(&Sample::new([1.0, 2.0])), None);
    }

    #[test]
    fn differences_follow_welch() {
        let a = Sample::new([27.5, 21.0, 19.0, 23.6, 17.0, 17.9]);
        let b = Sample::new([27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2]);
        // Means 21 and 23.3; by hand: standard error 1.7612, 6.84 degrees of freedom, of which 6
        // are taken: 2.3 +- 2.447 * 1.7612.
        let interval = a.difference(&b).unwrap();
        let half = interval.half();
        assert!((interval.low + half - 2.3).abs() < 1e-9, "{interval:?}");
        assert!((half - 4.31).abs() < 0.15, "{interval:?}");
        assert!(interval.low < 0.0 && interval.high > 0.0);
    }

    #[test]
    fn the_interval_of_a_ratio_is_that_of_the_logarithms() {
        let base = Sample::new([90.0, 100.0, 110.0]);
        let twice = Sample::new([180.0, 200.0, 220.0]);
        // Both means are good to 5.77%: by hand, 4 degrees of freedom, 2.776 * 0.0816 = 0.2267.
        let interval = twice.ratio(&base).unwrap();
        assert!(
            (interval.high / 2.0 - 0.2267_f64.exp()).abs() < 1e-3,
            "{interval:?}"
        );
        assert!(
            (interval.low * interval.high - 4.0).abs() < 1e-9,
            "{interval:?}"
        );
        assert_eq!(twice.ratio(&Sample::new([1.0])), None);
        assert_eq!(twice.ratio(&Sample::new([0.0, 0.0])), None);
    }

    #[test]
    fn equal_repetitions_make_an_interval_of_no_width() {
        let (a, b) = (Sample::new([5.0, 5.0]), Sample::new([6.0, 6.0, 6.0]));
        let interval = a.difference(&b).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 1.0));
    }
}
