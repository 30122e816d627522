use super::*;
use crate::profiles;
use crate::random::Random;

fn device() -> Device {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    Device::new(&profile, 0.0002, DeviceOptions::default()).unwrap()
}

fn page(first: u64) -> PageRange {
    PageRange { first, count: 1 }
}

/// Random writes of twice the namespace, one at a time; the amplification of the second half.
fn wear(device: &mut Device, nsid: u32) -> f64 {
    let pages = device.namespaces().get(nsid).unwrap().pages;
    let mut random = Random::new(1);
    let mut before = device.flash_counters();
    let mut now = 0;
    for number in 0..2 * pages {
        if number == pages {
            before = device.flash_counters();
        }
        let at = page(u64::from(random.below(pages as u32)));
        now = device.write(now, nsid, at, 0).unwrap();
    }
    device.flash_counters().since(&before).write_amplification()
}

#[test]
fn capacity_in_no_namespace_is_spare() {
    let mut amplifications = Vec::new();
    for share in [1.0, 6.4 / 7.68] {
        let mut device = device();
        let bytes = (device.capacity().total_bytes as f64 * share) as u64 / 4096 * 4096;
        let nsid = device.create(NamespaceRequest::of_bytes(bytes)).unwrap();
        device.precondition(Precondition::SteadyRandom, 1);
        amplifications.push(wear(&mut device, nsid));
    }
    assert!((amplifications[0] - 3.69).abs() < 0.2, "{amplifications:?}");
    assert!((amplifications[1] - 1.96).abs() < 0.1, "{amplifications:?}");
}

#[test]
fn deleting_a_namespace_gives_its_space_to_the_others() {
    let mut device = device();
    let half = device.capacity().total_bytes / 2;
    let first = device.create(NamespaceRequest::of_bytes(half)).unwrap();
    let rest = device.capacity().unallocated_bytes;
    let second = device.create(NamespaceRequest::of_bytes(rest)).unwrap();
    device.precondition(Precondition::SteadyRandom, 1);
    let together = wear(&mut device, first);
    device.delete(second).unwrap();
    assert_eq!(device.capacity().unallocated_bytes, rest);
    let alone = wear(&mut device, first);
    assert!(alone < together / 1.5, "{alone} against {together}");
}

#[test]
fn health_counts_what_was_done_and_survives_a_restart() {
    let mut device = device();
    let nsid = device.create(NamespaceRequest::of_bytes(64 << 20)).unwrap();
    for at in 0..1000 {
        device
            .write(
                at,
                nsid,
                PageRange {
                    first: at,
                    count: 8,
                },
                0,
            )
            .unwrap();
        device.read(at, nsid, page(at)).unwrap();
    }
    let health = device.health();
    assert_eq!(
        (health.host_write_commands, health.host_read_commands),
        (1000, 1000)
    );
    assert_eq!(health.data_units_written, 64);
    assert_eq!(health.data_units_read, 8);
    assert_eq!(device.endurance_log().media_written_billions, 1);
    let mut again = self::device();
    again.restore(device.state()).unwrap();
    assert_eq!(again.health(), health);
    assert_eq!(again.namespaces().get(nsid), device.namespaces().get(nsid));
    let profile = profiles::named("xd6-3.84").unwrap();
    let mut other = Device::new(&profile, 0.0002, DeviceOptions::default()).unwrap();
    assert!(other.restore(device.state()).is_err());
}

#[test]
fn reads_of_deallocated_pages_cost_no_flash() {
    let mut device = device();
    let nsid = device.create(NamespaceRequest::of_bytes(1 << 20)).unwrap();
    device.precondition(Precondition::Sequential, 1);
    assert_eq!(device.mapped_share(nsid), Ok(1.0));
    let mapped = device.read(0, nsid, page(7)).unwrap();
    let now = 1_000_000_000;
    device.deallocate(now, nsid, page(7)).unwrap();
    let unmapped = device.read(2 * now, nsid, page(7)).unwrap() - 2 * now;
    assert!(mapped > 60_000 && unmapped < 20_000, "{mapped} {unmapped}");
    assert!(device.mapped_share(nsid).unwrap() < 1.0);
}

#[test]
fn requests_beyond_a_namespace_or_to_none_are_refused() {
    let mut device = device();
    let nsid = device.create(NamespaceRequest::of_bytes(1 << 20)).unwrap();
    let beyond = PageRange {
        first: 255,
        count: 2,
    };
    assert_eq!(
        device.read(0, nsid, beyond),
        Err(NamespaceError::OutOfRange(nsid))
    );
    assert_eq!(
        device.write(0, nsid, beyond, 0),
        Err(NamespaceError::OutOfRange(nsid))
    );
    assert_eq!(
        device.deallocate(0, 9, page(0)),
        Err(NamespaceError::Unknown(9))
    );
    let wrapping = PageRange {
        first: u64::MAX,
        count: u64::MAX,
    };
    assert_eq!(
        device.read(0, nsid, wrapping),
        Err(NamespaceError::OutOfRange(nsid))
    );
}
