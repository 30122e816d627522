//! What a host is told that shuts its controller down, and how long a silent one is kept then.

use std::time::Duration;

use nvme::fabrics::{Configuration, Connect, Property, PropertyOffset, controller_status};
use nvme_target::TargetSettings;

use crate::io::geometry;
use crate::raw::{Raw, connect_data};
use crate::{Fixture, simulate};

const NORMAL: u8 = 1;
const ABRUPT: u8 = 2;

async fn status(raw: &Raw) -> u32 {
    let status = Property::get(PropertyOffset::STATUS, false);
    raw.command(status.entry(), &[]).await.result.get() as u32
}

/// A normal shutdown is complete when the caches of devices are safe. An abrupt one waits for
/// nothing, and neither does one where nothing caches.
#[test]
fn a_shutdown_is_complete_when_caches_are_safe() {
    for (caches, shutdown, flushes) in [(true, NORMAL, 1), (true, ABRUPT, 0), (false, NORMAL, 0)] {
        simulate(91, async move {
            let mut geometry = geometry(4096, 64);
            geometry.volatile_write_cache = caches;
            let fixture = Fixture::start(TargetSettings::default(), geometry);
            let (raw, _) = Raw::enabled(fixture.address, 0).await;
            fixture.device.delay.set(Duration::from_secs(1));
            raw.configure(Configuration::ENABLE.with_shutdown(shutdown))
                .await;
            let ready = controller_status::READY;
            let complete = ready | controller_status::SHUTDOWN_COMPLETE;
            let at_once = match flushes {
                0 => complete,
                _ => ready | controller_status::SHUTDOWN_OCCURRING,
            };
            assert_eq!(status(&raw).await, at_once, "{caches} {shutdown}");
            reactor::sleep(Duration::from_secs(2)).await;
            assert_eq!(status(&raw).await, complete);
            assert_eq!(fixture.device.flushes.get(), flushes);
            // A reset ends it, and the controller can be enabled again.
            raw.configure(Configuration(0)).await;
            raw.configure(Configuration::ENABLE).await;
            assert_eq!(status(&raw).await, ready);
        });
    }
}

/// The keep alive timer runs for controllers that are enabled. One that is not, or is shut down,
/// is kept for two minutes.
#[test]
fn the_keep_alive_timer_runs_while_a_controller_is_enabled() {
    simulate(92, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let (short, soon, long) = (1000, Duration::from_secs(5), Duration::from_secs(110));
        let (silent, _) = Raw::enabled(fixture.address, short).await;
        assert!(silent.closes_within(soon).await);
        let never = Raw::initialized(fixture.address).await;
        let connect = Connect::new(0, 31, short);
        never.connect(&connect, &connect_data(0xffff)).await;
        let (shut, _) = Raw::enabled(fixture.address, short).await;
        shut.configure(Configuration::ENABLE.with_shutdown(NORMAL))
            .await;
        assert!(!never.closes_within(long).await);
        assert!(!shut.closes_within(Duration::ZERO).await);
        assert!(never.closes_within(Duration::from_secs(20)).await);
        assert!(shut.closes_within(Duration::from_secs(20)).await);
    });
}
