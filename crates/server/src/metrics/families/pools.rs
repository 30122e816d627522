//! Drives, what they say of their health, and the pools on them.

use api::{DriveHealth, Name};
use node::{DriveCounts, DriveStatus, PoolFacts, PoolState};
use prometheus::proto::Metric;

use super::{Page, counter, gauge, truth};
use crate::metrics::{KnownPool, Sample};
use crate::words::hexadecimal;

/// Bytes in a block of a pool.
const BLOCK_BYTES: f64 = 4096.0;

/// Bytes that one of NVMe's data units stands for: a thousand units of 512 bytes.
const DATA_UNIT_BYTES: f64 = 512_000.0;

/// A figure's name, what it says, and where it is.
type Figure<T> = (&'static str, &'static str, fn(&T) -> f64);

const DRIVE_COUNTS: [Figure<DriveCounts>; 5] = [
    ("read_bytes", "Bytes read from the drive.", |drive| {
        drive.read_bytes as f64
    }),
    ("write_bytes", "Bytes written to the drive.", |drive| {
        drive.write_bytes as f64
    }),
    ("read_operations", "Reads of the drive.", |drive| {
        drive.reads as f64
    }),
    ("write_operations", "Writes to the drive.", |drive| {
        drive.writes as f64
    }),
    ("errors", "Operations that the drive failed.", |drive| {
        drive.errors as f64
    }),
];

pub(super) fn drives(page: &mut Page, sample: &Sample) {
    for (name, help, of) in DRIVE_COUNTS {
        let series = sample.measures.drives.iter();
        let series = series.map(|(drive, counts)| counter(&[("drive", drive)], of(counts)));
        page.counters(&format!("drive_{name}_total"), help, series.collect());
    }
    let online = sample.known.drives.iter();
    let online = online.map(|(drive, online)| gauge(&of_drive(drive), truth(*online)));
    page.gauges(
        "drive_online",
        "1 where the drive is open.",
        online.collect(),
    );
}

const HEALTH_COUNTS: [Figure<DriveHealth>; 4] = [
    (
        "health_read_bytes",
        "Bytes read in the drive's life, by its own count.",
        |health| health.data_units_read as f64 * DATA_UNIT_BYTES,
    ),
    (
        "health_write_bytes",
        "Bytes written in the drive's life, by its own count.",
        |health| health.data_units_written as f64 * DATA_UNIT_BYTES,
    ),
    (
        "media_write_bytes",
        "Bytes that the flash programmed in the drive's life.",
        |health| health.media_written_billions as f64 * 1e9,
    ),
    (
        "late_operations",
        "Requests that an emulated drive completed late.",
        |health| health.completed_late as f64,
    ),
];

const HEALTH_GAUGES: [Figure<DriveHealth>; 3] = [
    (
        "available_spare_ratio",
        "Spare flash left, 0 to 1.",
        |health| f64::from(health.available_spare_percent) / 100.0,
    ),
    (
        "wear_ratio",
        "Share of the warranted writes that is used; may pass 1.",
        |health| f64::from(health.percentage_used) / 100.0,
    ),
    (
        "write_amplification_ratio",
        "Media writes per host write.",
        |health| health.write_amplification_thousandths as f64 / 1e3,
    ),
];

pub(super) fn health(page: &mut Page, sample: &Sample) {
    let known = &sample.known.health;
    for (name, help, of) in HEALTH_COUNTS {
        let series = known.iter();
        let series = series.map(|(drive, health)| counter(&of_drive(drive), of(health)));
        page.counters(&format!("drive_{name}_total"), help, series.collect());
    }
    for (name, help, of) in HEALTH_GAUGES {
        let series = known.iter();
        let series = series.map(|(drive, health)| gauge(&of_drive(drive), of(health)));
        page.gauges(&format!("drive_{name}"), help, series.collect());
    }
}

const POOL_GAUGES: [Figure<PoolFacts>; 9] = [
    (
        "usable_bytes",
        "Capacity of the pool, without redundancy and reserves.",
        |facts| facts.status.usable_bytes as f64,
    ),
    ("used_bytes", "Used bytes of the pool.", |facts| {
        facts.status.used_bytes as f64
    }),
    (
        "deleted_bytes",
        "Reclaiming: of the used bytes, those of deleted volumes and snapshots.",
        |facts| facts.status.deleted_bytes as f64,
    ),
    (
        "reserved_bytes",
        "Reserved for thick volumes, beyond their used bytes.",
        |facts| facts.status.reserved_bytes as f64,
    ),
    (
        "quarantined_bytes",
        "Bytes in quarantine for some minutes after the pool was taken by force.",
        |facts| facts.status.quarantined_bytes as f64,
    ),
    ("map_bytes", "Bytes of the pool's maps.", |facts| {
        facts.status.map_bytes as f64
    }),
    (
        "map_cached_bytes",
        "Of the bytes of the pool's maps, those in memory.",
        |facts| facts.status.map_cache_bytes as f64,
    ),
    (
        "degraded",
        "1 where members of the pool are missing.",
        |facts| truth(facts.status.state != PoolState::Online),
    ),
    (
        "drives_to_spare",
        "Redundancy left: drives that may still fail, whichever they are.",
        |facts| facts.status.drives_to_spare as f64,
    ),
];

const POOL_COUNTS: [Figure<PoolFacts>; 8] = [
    (
        "host_write_bytes",
        "Bytes that hosts wrote and had acknowledged.",
        |facts| facts.counters.host_blocks_written as f64 * BLOCK_BYTES,
    ),
    (
        "stripe_write_bytes",
        "Bytes written to drives for stripes: data, headers, padding, redundancy.",
        |facts| facts.counters.stripe_blocks_written as f64 * BLOCK_BYTES,
    ),
    (
        "map_write_bytes",
        "Bytes written to drives for maps, redundancy included.",
        |facts| facts.counters.map_blocks_written as f64 * BLOCK_BYTES,
    ),
    (
        "relocated_bytes",
        "Live bytes that garbage collection moved.",
        |facts| facts.counters.relocated_blocks as f64 * BLOCK_BYTES,
    ),
    (
        "rebalanced_bytes",
        "Bytes copied to other drives, redundancy included, for each to have its share.",
        |facts| facts.counters.rebalanced_blocks as f64 * BLOCK_BYTES,
    ),
    (
        "reconstructed_reads",
        "Blocks that were rebuilt from the rest of their row to be read.",
        |facts| facts.counters.reconstructed_reads as f64,
    ),
    (
        "repaired_blocks",
        "Blocks found bad, rebuilt and written back.",
        |facts| facts.counters.repaired_blocks as f64,
    ),
    (
        "unrecovered_reads",
        "Reads that failed even with redundancy: lost data.",
        |facts| facts.counters.unrecovered_reads as f64,
    ),
];

pub(super) fn pools(page: &mut Page, sample: &Sample) {
    let known = &sample.known.pools;
    let open = || {
        let open = known.iter();
        open.filter_map(|(name, pool)| Some((name, pool.facts.as_ref()?)))
    };
    for (name, help, of) in POOL_GAUGES {
        let series = open().map(|(pool, facts)| gauge(&of_pool(pool), of(facts)));
        page.gauges(&format!("pool_{name}"), help, series.collect());
    }
    for (name, help, of) in POOL_COUNTS {
        let series = open().map(|(pool, facts)| counter(&of_pool(pool), of(facts)));
        page.counters(&format!("pool_{name}_total"), help, series.collect());
    }
    segments(page, open().collect());
    let online = known.iter().map(|(name, pool)| {
        let serves = |facts: &PoolFacts| facts.status.state != PoolState::Offline;
        gauge(
            &of_pool(name),
            truth(pool.facts.as_ref().is_some_and(serves)),
        )
    });
    page.gauges(
        "pool_online",
        "1 where the pool can be written.",
        online.collect(),
    );
    let provisioned = known.keys().map(|name| {
        let volumes = sample.known.volumes.values();
        let volumes = volumes.filter(|volume| volume.pool.as_ref() == Some(name));
        let bytes: u64 = volumes.map(|volume| volume.capacity_bytes).sum();
        gauge(&of_pool(name), bytes as f64)
    });
    page.gauges(
        "pool_provisioned_bytes",
        "Provisioned bytes: the sizes of the pool's volumes together.",
        provisioned.collect(),
    );
}

fn segments(page: &mut Page, pools: Vec<(&Name, &PoolFacts)>) {
    let series = pools.iter().flat_map(|(pool, facts)| {
        let found = &facts.status.segments;
        let states = [
            ("free", found.free),
            ("ready", found.ready),
            ("open", found.open),
            ("cleaning", found.cleaning),
            ("map", found.map),
            ("closed", found.closed.iter().sum()),
        ];
        states
            .map(|(state, count)| gauge(&[("pool", pool.as_str()), ("state", state)], count as f64))
    });
    let help = "Segments of the pool by what they are.";
    page.gauges("pool_segments", help, series.collect());
    let series = pools.iter().flat_map(|(pool, facts)| {
        let bins = facts.status.segments.closed.iter().enumerate();
        bins.map(|(index, count)| {
            let below = format!("{:.1}", (index + 1) as f64 / 10.0);
            let labels = [("pool", pool.as_str()), ("live_below", below.as_str())];
            gauge(&labels, *count as f64)
        })
    });
    let help =
        "Full segments by the share of them that lives: up to this one, above the one before.";
    page.gauges("pool_closed_segments", help, series.collect());
}

const MEMBER_GAUGES: [Figure<DriveStatus>; 3] = [
    ("bytes", "Size of the member.", |member| member.bytes as f64),
    (
        "active",
        "0 where the member has failed or is absent.",
        |member| truth(member.active),
    ),
    (
        "slow",
        "1 where the member takes three times as long as the others.",
        |member| truth(member.health.slow),
    ),
];

const MEMBER_COUNTS: [Figure<DriveStatus>; 2] = [
    ("read_errors", "Reads that failed.", |member| {
        member.health.read_errors as f64
    }),
    (
        "corrupt_blocks",
        "Blocks that came back other than they were written.",
        |member| member.health.corrupt_blocks as f64,
    ),
];

pub(super) fn members(page: &mut Page, sample: &Sample) {
    for (name, help, of) in MEMBER_GAUGES {
        let series = each_member(sample, |labels, member| gauge(labels, of(member)));
        page.gauges(&format!("pool_member_{name}"), help, series);
    }
    for (name, help, of) in MEMBER_COUNTS {
        let series = each_member(sample, |labels, member| counter(labels, of(member)));
        page.counters(&format!("pool_member_{name}_total"), help, series);
    }
}

fn each_member(
    sample: &Sample,
    shown: impl Fn(super::Labels, &DriveStatus) -> Metric,
) -> Vec<Metric> {
    let mut series = Vec::new();
    for (name, KnownPool { facts, members }) in &sample.known.pools {
        for member in facts.iter().flat_map(|facts| &facts.status.drives) {
            let drive = members.get(&hexadecimal(&member.id.0));
            let index = member.index.to_string();
            let labels = [
                ("pool", name.as_str()),
                ("member", index.as_str()),
                ("drive", drive.map_or("", |drive| drive.as_str())),
            ];
            series.push(shown(&labels, member));
        }
    }
    series
}

fn of_drive(name: &Name) -> [(&str, &str); 1] {
    [("drive", name.as_str())]
}

fn of_pool(name: &Name) -> [(&str, &str); 1] {
    [("pool", name.as_str())]
}
