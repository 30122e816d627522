//! Get and Set Features (NVMe 2.0 §5.15, §5.27).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use block::{BlockDevice, Buffer};
use nvme::Status;
use nvme::command::ALL_NAMESPACES;
use nvme::copy::CopyFormat;
use nvme::event::config;
use nvme::feature::{
    Feature, Features as Command, HostBehaviour, QueueCount, Select, Timestamp, capability,
};
use reactor::Instant;
use zerocopy::{FromBytes, FromZeros, IntoBytes, little_endian::U16};

use super::Controller;
use super::event::IO_EVENTS;
use super::identify::TEMPERATURE_WARNING;
use crate::home::Behaviour;
use crate::session::Session;
use crate::transport::Reply;

/// Values that hosts have set.
#[derive(Debug)]
pub(crate) struct Features {
    pub event_configuration: u32,
    arbitration: u32,
    error_recovery: u32,
    temperature_over: u16,
    temperature_under: u16,
    atomicity: u32,
    /// What the host set, and when.
    timestamp: Option<(u64, Instant)>,
    pub behaviour: Behaviour,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            event_configuration: 0,
            arbitration: 0,
            error_recovery: 0,
            temperature_over: TEMPERATURE_WARNING,
            temperature_under: 0,
            atomicity: 0,
            timestamp: None,
            behaviour: Behaviour::default(),
        }
    }
}

/// CDF2E, the bit of that format in CDFE.
const COPY_FROM_OTHERS: u16 = 1 << CopyFormat::NAMED.0;

type Outcome = Result<Reply, Status>;

impl<D: BlockDevice + 'static> Controller<D> {
    pub(super) fn get_features(&self, command: &Command, session: &Session<D>) -> Outcome {
        let feature = command.feature;
        if !self.has_feature(feature) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        match Select(command.select & 0b111) {
            Select::CURRENT => self.current(command, session),
            // Nothing is saved, so the saved value is the default one (NVMe 2.0 §5.15.1).
            Select::DEFAULT | Select::SAVED => self.default_value(command, session),
            Select::CAPABILITIES => Ok(Reply::result(u64::from(match feature {
                Feature::HOST_IDENTIFIER | Feature::VOLATILE_WRITE_CACHE => 0,
                _ => capability::CHANGEABLE,
            }))),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    fn has_feature(&self, feature: Feature) -> bool {
        let always = matches!(
            feature,
            Feature::ASYNC_EVENT_CONFIGURATION
                | Feature::KEEP_ALIVE_TIMER
                | Feature::HOST_IDENTIFIER
        );
        let io = matches!(
            feature,
            Feature::ARBITRATION
                | Feature::POWER_MANAGEMENT
                | Feature::TEMPERATURE_THRESHOLD
                | Feature::ERROR_RECOVERY
                | Feature::NUMBER_OF_QUEUES
                | Feature::WRITE_ATOMICITY
                | Feature::TIMESTAMP
                | Feature::HOST_BEHAVIOUR
        );
        let cache = feature == Feature::VOLATILE_WRITE_CACHE && self.has_write_cache();
        always || cache || io && !self.is_discovery()
    }

    /// Values hold for all of a controller, but for error recovery. A namespace, if one is named,
    /// is to be there even so.
    fn check_scope(&self, command: &Command) -> Result<(), Status> {
        let nsid = command.namespace_id.get();
        if nsid == 0 || nsid == ALL_NAMESPACES {
            return Ok(());
        }
        let view = self.subsystem();
        if view.is_none_or(|view| view.namespace(nsid).is_none()) {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        match command.feature {
            Feature::ERROR_RECOVERY => Ok(()),
            _ => Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.do_not_retry()),
        }
    }

    fn current(&self, command: &Command, session: &Session<D>) -> Outcome {
        let features = self.features.borrow();
        let value = match command.feature {
            Feature::ARBITRATION => features.arbitration,
            Feature::POWER_MANAGEMENT => 0,
            Feature::TEMPERATURE_THRESHOLD => features.threshold(command.value.get())?.into(),
            Feature::ERROR_RECOVERY => features.error_recovery,
            Feature::VOLATILE_WRITE_CACHE => 1,
            Feature::NUMBER_OF_QUEUES => queue_count(session).value(),
            Feature::WRITE_ATOMICITY => features.atomicity,
            Feature::ASYNC_EVENT_CONFIGURATION => features.event_configuration,
            Feature::KEEP_ALIVE_TIMER => self.keep_alive_ms.get(),
            Feature::TIMESTAMP => return data(features.timestamp().as_bytes(), command),
            Feature::HOST_BEHAVIOUR => {
                let mut said = HostBehaviour::new_zeroed();
                said.retry_delays = features.behaviour.keeps_delays().into();
                if features.behaviour.copies_from_others() {
                    said.copy_formats = COPY_FROM_OTHERS.into();
                }
                return data(said.as_bytes(), command);
            }
            _ => return data(&self.host_id, command),
        };
        Ok(Reply::result(u64::from(value)))
    }

    fn default_value(&self, command: &Command, session: &Session<D>) -> Outcome {
        let defaults = Features::default();
        let value = match command.feature {
            Feature::NUMBER_OF_QUEUES => queue_count(session).value(),
            Feature::TEMPERATURE_THRESHOLD => defaults.threshold(command.value.get())?.into(),
            Feature::VOLATILE_WRITE_CACHE => 1,
            Feature::TIMESTAMP => return data(Timestamp::new(0, 0).as_bytes(), command),
            Feature::HOST_BEHAVIOUR => return data(&[0; size_of::<HostBehaviour>()], command),
            Feature::HOST_IDENTIFIER => return data(&[0; 16], command),
            _ => 0,
        };
        Ok(Reply::result(u64::from(value)))
    }

    pub(super) fn set_features(
        &self,
        command: &Command,
        bytes: Option<&[u8]>,
        session: &Session<D>,
    ) -> Outcome {
        let feature = command.feature;
        if !self.has_feature(feature) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        if command.save & 0x80 != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry());
        }
        self.check_scope(command)?;
        let value = command.value.get();
        let mut features = self.features.borrow_mut();
        match feature {
            Feature::ARBITRATION => features.arbitration = value,
            Feature::POWER_MANAGEMENT if value & 0x1f == 0 => {}
            Feature::POWER_MANAGEMENT => return Err(Status::INVALID_FIELD.do_not_retry()),
            Feature::TEMPERATURE_THRESHOLD => features.set_threshold(value)?,
            Feature::ERROR_RECOVERY => features.error_recovery = value & 0xffff,
            Feature::VOLATILE_WRITE_CACHE if value & 1 != 0 => {}
            Feature::NUMBER_OF_QUEUES => {
                let asked = QueueCount::from_value(value);
                if asked.submission.get() == u16::MAX || asked.completion.get() == u16::MAX {
                    return Err(Status::INVALID_FIELD.do_not_retry());
                }
                if !self.queues.borrow().is_empty() {
                    return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
                }
                return Ok(Reply::result(u64::from(queue_count(session).value())));
            }
            Feature::WRITE_ATOMICITY => features.atomicity = value & 1,
            Feature::ASYNC_EVENT_CONFIGURATION => {
                // What OAES has, and no other.
                let known = match self.is_discovery() {
                    true => config::DISCOVERY_CHANGE,
                    false => config::SMART_MASK | IO_EVENTS,
                };
                features.event_configuration = value & known;
            }
            Feature::KEEP_ALIVE_TIMER => {
                self.set_keep_alive(value);
                self.last_seen.set(reactor::now());
            }
            Feature::TIMESTAMP => {
                let stamp = bytes.and_then(|bytes| Timestamp::ref_from_prefix(bytes).ok());
                let (stamp, _) = stamp.ok_or(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
                features.timestamp = Some((stamp.milliseconds(), reactor::now()));
            }
            Feature::HOST_BEHAVIOUR => {
                let behaviour = bytes.and_then(|bytes| HostBehaviour::ref_from_prefix(bytes).ok());
                let (set, _) = behaviour.ok_or(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
                // What else a host may enable, extended telemetry say, is not there.
                let copies_from_others = set.copy_formats.get() & COPY_FROM_OTHERS != 0;
                let keeps_delays = set.retry_delays & 1 != 0;
                features.behaviour.set(keeps_delays, copies_from_others);
            }
            // The host identifier comes with Connect (NVMe 2.0 §5.27.1.25).
            Feature::HOST_IDENTIFIER => {
                return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
            }
            _ => return Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry()),
        }
        Ok(Reply::success())
    }
}

impl Features {
    /// TMPSEL in bits 19:16 is the sensor (0 is the composite one), THSEL in bits 21:20 says over
    /// or under.
    fn threshold(&self, value: u32) -> Result<u16, Status> {
        match (value >> 16 & 0xf, value >> 20 & 0b11) {
            (0, 0) => Ok(self.temperature_over),
            (0, 1) => Ok(self.temperature_under),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    fn set_threshold(&mut self, value: u32) -> Result<(), Status> {
        match (value >> 16 & 0xf, value >> 20 & 0b11) {
            (0 | 0xf, 0) => self.temperature_over = value as u16,
            (0 | 0xf, 1) => self.temperature_under = value as u16,
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        }
        Ok(())
    }

    fn timestamp(&self) -> Timestamp {
        const SET_BY_HOST: u8 = 1 << 1;
        match self.timestamp {
            Some((milliseconds, at)) => {
                let since = reactor::now() - at;
                Timestamp::new(milliseconds + since.as_millis() as u64, SET_BY_HOST)
            }
            None => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                Timestamp::new(now.unwrap_or(Duration::ZERO).as_millis() as u64, 0)
            }
        }
    }
}

fn queue_count<D: BlockDevice + 'static>(session: &Session<D>) -> QueueCount {
    let count = U16::new(session.core.settings.io_queues_max.saturating_sub(1));
    QueueCount {
        submission: count,
        completion: count,
    }
}

/// Feature data, as much of it as the host made room for.
fn data(bytes: &[u8], command: &Command) -> Outcome {
    let length = bytes.len().min(command.data.length.get() as usize);
    let bytes = bytes.get(..length).unwrap_or_default();
    Ok(Reply::data(Buffer::copy_of(bytes)))
}
