//! [`Refusals`]: who was refused, told without letting a flood of refusals drown anything else.
//!
//! The first refusals of an address for a reason are told as they happen, each host and subsystem
//! once. What follows is counted, and told once a minute, then ever less often while it goes on.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use access::Nqn;
use reactor::Instant;

use crate::report::{RefusalReason, TargetEvent};

/// How many refusals of one address for one reason are told at once: a host that may use none of
/// its volumes.
const TOLD_AT_ONCE: usize = 8;

/// Addresses and reasons that are told apart; the rest is counted together.
const TOLD_APART: usize = 64;

/// How long refusals are counted before they are told; doubles while they go on.
const PERIOD: Duration = Duration::from_secs(60);
const PERIOD_MAX: Duration = Duration::from_secs(3600);

/// A refusal as far as it is known whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The host, if it gave a name that is one.
    pub host_nqn: Option<Nqn>,
    pub host_address: SocketAddr,
    /// What it wanted, if it gave a name that is one.
    pub subsystem_nqn: Option<Nqn>,
    pub reason: RefusalReason,
}

/// The refusals of one core that were not told yet.
#[derive(Default)]
pub(crate) struct Refusals {
    known: Vec<Counted>,
    /// Of addresses beyond those that are told apart.
    rest: Option<Counted>,
}

/// Refusals of one address for one reason.
struct Counted {
    latest: Refused,
    told: Vec<(Option<Nqn>, Option<Nqn>)>,
    untold: u64,
    since: Instant,
    period: Duration,
}

impl Refusals {
    /// Notes a refusal; gives the event, if it is to be told now.
    pub fn note(&mut self, refused: Refused, now: Instant) -> Option<TargetEvent> {
        let address = refused.host_address.ip();
        let found = self.known.iter_mut();
        let same = |counted: &&mut Counted| counted.is_of(address, refused.reason);
        if let Some(counted) = { found }.find(same) {
            return counted.add(refused);
        }
        if self.known.len() < TOLD_APART {
            let mut counted = Counted::new(refused.clone(), now);
            let event = counted.add(refused);
            self.known.push(counted);
            return event;
        }
        let rest = self.rest.get_or_insert_with(|| {
            let mut rest = Counted::new(refused.clone(), now);
            rest.told = vec![(None, None); TOLD_AT_ONCE];
            rest
        });
        rest.add(refused)
    }

    /// What was counted long enough. To be asked now and then.
    pub fn due(&mut self, now: Instant) -> Vec<TargetEvent> {
        let all = self.known.iter_mut().chain(&mut self.rest);
        let told = all.filter_map(|counted| counted.due(now)).collect();
        self.known.retain(|counted| !counted.is_over(now));
        self.rest.take_if(|rest| rest.is_over(now));
        told
    }
}

impl Counted {
    fn new(first: Refused, now: Instant) -> Counted {
        Counted {
            latest: first,
            told: Vec::new(),
            untold: 0,
            since: now,
            period: PERIOD,
        }
    }

    fn is_of(&self, address: IpAddr, reason: RefusalReason) -> bool {
        self.latest.host_address.ip() == address && self.latest.reason == reason
    }

    fn add(&mut self, refused: Refused) -> Option<TargetEvent> {
        let names = (refused.host_nqn.clone(), refused.subsystem_nqn.clone());
        self.latest = refused;
        if self.told.len() < TOLD_AT_ONCE && !self.told.contains(&names) {
            self.told.push(names);
            return Some(self.event(1));
        }
        self.untold += 1;
        None
    }

    fn due(&mut self, now: Instant) -> Option<TargetEvent> {
        if self.untold == 0 || now - self.since < self.period {
            return None;
        }
        let times = std::mem::take(&mut self.untold);
        let event = self.event(times);
        self.since = now;
        self.period = (self.period * 2).min(PERIOD_MAX);
        Some(event)
    }

    /// Nothing was counted for a whole period: the next refusal is news again.
    fn is_over(&self, now: Instant) -> bool {
        self.untold == 0 && now - self.since >= self.period
    }

    fn event(&self, times: u64) -> TargetEvent {
        let Refused {
            host_nqn,
            host_address,
            subsystem_nqn,
            reason,
        } = self.latest.clone();
        TargetEvent::HostRefused {
            host_nqn,
            host_address,
            subsystem_nqn,
            reason,
            times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: u32, host: &str, reason: RefusalReason) -> Refused {
        let address = IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + address));
        Refused {
            host_nqn: host.parse().ok(),
            host_address: SocketAddr::new(address, 4000),
            subsystem_nqn: None,
            reason,
        }
    }

    fn times(event: &TargetEvent) -> u64 {
        match event {
            TargetEvent::HostRefused { times, .. } => *times,
            _ => 0,
        }
    }

    const HOST: &str = "nqn.2026-11.example:host";

    #[test]
    fn each_host_is_told_once_and_the_rest_is_counted() {
        let mut refusals = Refusals::default();
        let start = Instant::default();
        let reason = RefusalReason::NotAllowed;
        assert!(refusals.note(refused(1, HOST, reason), start).is_some());
        let other = "nqn.2026-11.example:other";
        assert!(refusals.note(refused(1, other, reason), start).is_some());
        for _ in 0..1000 {
            assert_eq!(refusals.note(refused(1, HOST, reason), start), None);
        }
        let again = RefusalReason::TlsRequired;
        assert!(refusals.note(refused(1, HOST, again), start).is_some());
        assert!(refusals.note(refused(2, HOST, reason), start).is_some());
        assert_eq!(refusals.due(start + PERIOD / 2), []);
        let told = refusals.due(start + PERIOD);
        assert_eq!(told.iter().map(times).collect::<Vec<_>>(), [1000]);
        // It goes on: told half as often.
        let now = start + PERIOD;
        assert_eq!(refusals.note(refused(1, HOST, reason), now), None);
        assert_eq!(refusals.due(now + PERIOD), []);
        assert_eq!(refusals.due(now + PERIOD * 2).len(), 1);
        // After a silent period it is news again.
        let later = now + PERIOD * 10;
        assert_eq!(refusals.due(later), []);
        assert!(refusals.note(refused(1, HOST, reason), later).is_some());
    }

    /// However many addresses, names and refusals there are: a bounded number of events.
    #[test]
    fn a_flood_makes_few_events() {
        let mut refusals = Refusals::default();
        let mut told = 0;
        let mut counted = 0;
        let start = Instant::default();
        for second in 0..3600_u32 {
            let now = start + Duration::from_secs(second.into());
            for number in 0..200 {
                let host = format!("nqn.2026-11.example:{second}-{number}");
                let refused = refused(number, &host, RefusalReason::Stopping);
                if let Some(event) = refusals.note(refused, now) {
                    told += 1;
                    counted += times(&event);
                }
            }
            for event in refusals.due(now) {
                told += 1;
                counted += times(&event);
            }
        }
        assert!(told < 65 * 16, "{told} events");
        for event in refusals.due(start + Duration::from_secs(7200)) {
            counted += times(&event);
        }
        assert_eq!(counted, 3600 * 200);
    }
}
