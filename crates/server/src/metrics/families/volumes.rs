//! What hosts do to volumes.

use node::{Latency, VolumeCounts};
use prometheus::proto::{Bucket, Histogram, Metric, MetricType};

use super::{Page, counter, gauge, labelled, truth};
use crate::metrics::Sample;

/// Where the buckets of latency histograms end, as powers of two of nanoseconds, from 33 µs to
/// 1.07 s: these counts are exact, and eleven of them tell a good day from a bad one.
const BUCKETS: [u32; 11] = [15, 16, 17, 18, 19, 20, 21, 23, 25, 27, 30];

/// A counter's name, what it says, and where it is.
type Count = (&'static str, &'static str, fn(&VolumeCounts) -> u64);

const COUNTS: [Count; 9] = [
    ("read_bytes", "Bytes that hosts read.", |counts| {
        counts.read_bytes
    }),
    ("write_bytes", "Bytes that hosts wrote.", |counts| {
        counts.write_bytes
    }),
    ("read_operations", "Read commands.", |counts| {
        counts.read_latency.count()
    }),
    ("write_operations", "Write commands.", |counts| {
        counts.write_latency.count()
    }),
    ("flush_operations", "Flush commands.", |counts| {
        counts.flushes
    }),
    (
        "deallocate_operations",
        "Dataset Management commands.",
        |counts| counts.deallocates,
    ),
    (
        "other_operations",
        "Write Zeroes, Compare and Verify commands.",
        |counts| counts.others,
    ),
    ("errors", "Commands that ended with an error.", |counts| {
        counts.errors
    }),
    (
        "delayed_operations",
        "Commands that waited for limits, or for volumes that go first.",
        |counts| counts.delayed,
    ),
];

pub(super) fn add(page: &mut Page, sample: &Sample) {
    for (name, help, of) in COUNTS {
        let series = sample.volumes().map(|(volume, _, counts)| {
            let labels = [("volume", volume.as_str())];
            counter(&labels, of(counts) as f64)
        });
        page.counters(&format!("volume_{name}_total"), help, series.collect());
    }
    let delay = sample.volumes().map(|(volume, _, counts)| {
        let labels = [("volume", volume.as_str())];
        counter(&labels, counts.delay.as_secs_f64())
    });
    page.counters(
        "volume_delay_seconds_total",
        "How long these waited together.",
        delay.collect(),
    );
    histograms(
        page,
        sample,
        "read",
        "How long read commands took at the node.",
        |counts| &counts.read_latency,
    );
    histograms(
        page,
        sample,
        "write",
        "How long write commands took at the node.",
        |counts| &counts.write_latency,
    );
    let known = &sample.known.volumes;
    let capacity = known.iter().map(|(name, volume)| {
        let labels = [("volume", name.as_str())];
        gauge(&labels, volume.capacity_bytes as f64)
    });
    page.gauges(
        "volume_capacity_bytes",
        "Size of the volume.",
        capacity.collect(),
    );
    let online = known.iter().map(|(name, volume)| {
        let labels = [("volume", name.as_str())];
        gauge(&labels, truth(volume.online))
    });
    page.gauges(
        "volume_online",
        "1 where hosts can use the volume.",
        online.collect(),
    );
    let info = known.iter().map(|(name, volume)| {
        let pool = volume.pool.as_ref().map_or("", |pool| pool.as_str());
        let tenant = volume.tenant.as_ref().map_or("", |tenant| tenant.as_str());
        let labels = [
            ("volume", name.as_str()),
            ("pool", pool),
            ("tenant", tenant),
        ];
        gauge(&labels, 1.0)
    });
    page.gauges(
        "volume_info",
        "The volume's pool and tenant; always 1.",
        info.collect(),
    );
}

fn histograms(
    page: &mut Page,
    sample: &Sample,
    direction: &str,
    help: &str,
    of: fn(&VolumeCounts) -> &Latency,
) {
    let series = sample
        .volumes()
        .map(|(volume, _, counts)| histogram(volume.as_str(), of(counts)));
    page.add(
        &format!("volume_{direction}_latency_seconds"),
        help,
        MetricType::HISTOGRAM,
        series.collect(),
    );
}

fn histogram(volume: &str, latency: &Latency) -> Metric {
    let bucket = |power: &u32| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound((1u64 << power) as f64 / 1e9);
        bucket.set_cumulative_count(latency.below(*power));
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(BUCKETS.iter().map(bucket).collect());
    histogram.set_sample_count(latency.count());
    histogram.set_sample_sum(latency.sum().as_secs_f64());
    let mut metric = labelled(&[("volume", volume)]);
    metric.set_histogram(histogram);
    metric
}
