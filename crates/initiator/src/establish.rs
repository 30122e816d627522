//! From an address to a controller that takes commands (NVMe 2.0 §3.5, §6.3; NVMe/TCP 1.0 §3.1).

use std::rc::Rc;
use std::time::Duration;

use access::{Nqn, TlsPsk};
use block::Buffer;
use nvme::authentication::requirement;
use nvme::copy::CopyFormat;
use nvme::event::config;
use nvme::fabrics::{
    CONTROLLER_ID_DYNAMIC, Capabilities, Configuration, Connect, ConnectData, DISCOVERY_NQN,
    Property, PropertyOffset, connect_attributes, controller_status,
};
use nvme::feature::{Feature, Features, HostBehaviour, QueueCount};
use nvme::identify::{Cns, ControllerData, IDENTIFY_BYTES, Identify, controller_type};
use nvme::{AdminOpcode, CompletionEntry, SglDescriptor, SubmissionEntry};
use reactor::sync::Notify;
use reactor::{now, sleep, timeout};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::authentication::authenticate;
use crate::connection::{ADMIN_CAPSULE_BYTES, Data, KeyedSettings, Settings};
use crate::queue::QueuePair;
use crate::{ConnectOptions, Credentials, Endpoint, Error, LossReason, Transport};

/// Commands in flight on the admin queue.
const ADMIN_DEPTH: u16 = 31;
/// R2Ts that may be outstanding for one command.
const READY_TO_TRANSFER_MAX: u16 = 16;
/// Write data in a capsule over RDMA at most: each place of a queue has locked memory for as much.
const RDMA_CAPSULE_BYTES_MAX: u32 = 8192;
/// Events asked for, where the controller has them.
const EVENTS: u32 = config::NAMESPACE_ATTRIBUTE
    | config::ANA_CHANGE
    | config::DISCOVERY_CHANGE
    | config::CROSS_RESET
    | config::SMART_COMMON;

/// A connected controller: what one successful attempt to connect yields.
pub(crate) struct Session {
    pub(crate) controller_id: u16,
    pub(crate) data: Rc<ControllerData>,
    pub(crate) admin: QueuePair,
    pub(crate) io: Vec<QueuePair>,
    /// One of the queues is gone, and with it the controller.
    pub(crate) lost: Rc<Notify>,
}

/// How the queues of a controller are connected.
struct Way<'a> {
    endpoint: Endpoint,
    options: &'a ConnectOptions,
    psk: Option<TlsPsk>,
    lost: Rc<Notify>,
}

impl Way<'_> {
    /// Connects a queue of a controller, or of one to be, whose capsules take so much data.
    async fn open(
        &self,
        queue_id: u16,
        controller_id: u16,
        depth: u16,
        in_capsule_bytes: u32,
    ) -> Result<QueuePair, Error> {
        let in_capsule_bytes = match self.options.in_capsule {
            true => in_capsule_bytes,
            false => 0,
        };
        let (address, lost) = (self.endpoint.address, Rc::clone(&self.lost));
        match self.endpoint.transport {
            Transport::Tcp => {
                let settings = settings(self.options, depth, in_capsule_bytes);
                QueuePair::over_tcp(address, settings, self.psk.as_ref(), lost).await
            }
            Transport::Rdma => {
                let settings = KeyedSettings {
                    depth,
                    in_capsule_bytes: in_capsule_bytes.min(RDMA_CAPSULE_BYTES_MAX),
                };
                let ids = (queue_id, controller_id);
                QueuePair::over_rdma(address, ids, settings, lost).await
            }
        }
    }

    /// Data that capsules of an admin queue take. Over RDMA, Linux's controllers take none there.
    fn admin_capsule_bytes(&self) -> u32 {
        match self.endpoint.transport {
            Transport::Tcp => ADMIN_CAPSULE_BYTES,
            Transport::Rdma => 0,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close(LossReason::Disconnected);
    }
}

impl Session {
    /// Ends all queues.
    pub(crate) fn close(&self, reason: LossReason) {
        for queue in self.io.iter().chain([&self.admin]) {
            queue.close(reason);
        }
    }

    /// Connects as [`establish`](Session::establish) does, within the time that the options allow.
    pub(crate) async fn establish_in_time(
        endpoint: Endpoint,
        subsystem_nqn: &str,
        options: &ConnectOptions,
    ) -> Result<Session, Error> {
        let attempt = Session::establish(endpoint, subsystem_nqn, options);
        let answer = timeout(options.connect_timeout, attempt).await;
        answer.unwrap_or(Err(Error::ConnectionLost(LossReason::Silent)))
    }

    /// Connects to the subsystem, enables the controller and creates the I/O queues.
    async fn establish(
        endpoint: Endpoint,
        subsystem_nqn: &str,
        options: &ConnectOptions,
    ) -> Result<Session, Error> {
        let way = Way {
            endpoint,
            options,
            psk: options.psk(subsystem_nqn)?,
            lost: Rc::new(Notify::new()),
        };
        let capsule_bytes = way.admin_capsule_bytes();
        let admin = way.open(0, 0, ADMIN_DEPTH, capsule_bytes).await?;
        let mut session = Session {
            controller_id: CONTROLLER_ID_DYNAMIC,
            data: Rc::new(ControllerData::new_zeroed()),
            admin,
            io: Vec::new(),
            lost: Rc::clone(&way.lost),
        };
        session.controller_id = session
            .connect_queue(0, ADMIN_DEPTH, subsystem_nqn, options, &session.admin)
            .await?;
        let capabilities =
            Capabilities(session.property(PropertyOffset::CAPABILITIES, true).await?);
        session.enable(capabilities).await?;
        session.data = session.identify().await?;
        if options.async_events {
            session.configure_events().await?;
        }
        session.enable_copy().await?;
        if options.io_queues > 0 && !session.is_discovery(subsystem_nqn) {
            session
                .create_queues(&way, subsystem_nqn, capabilities)
                .await?;
        }
        Ok(session)
    }

    /// Versions before 1.4 do not tell the type, and have the well-known name alone.
    fn is_discovery(&self, subsystem_nqn: &str) -> bool {
        subsystem_nqn == DISCOVERY_NQN || self.data.controller_type == controller_type::DISCOVERY
    }

    async fn connect_queue(
        &self,
        queue_id: u16,
        depth: u16,
        subsystem_nqn: &str,
        options: &ConnectOptions,
        queue: &QueuePair,
    ) -> Result<u16, Error> {
        let keep_alive = options
            .keep_alive
            .filter(|_| queue_id == 0)
            .unwrap_or_default();
        // A queue of n entries holds n - 1 commands, so SQSIZE, which is 0's based, is the depth.
        let mut connect = Connect::new(queue_id, depth, keep_alive.as_millis() as u32);
        connect.attributes = connect_attributes::DISABLE_FLOW_CONTROL;
        let data = ConnectData::new(
            options.host_id,
            self.controller_id,
            subsystem_nqn,
            &options.host_nqn,
        );
        let data = Data::Out(Buffer::copy_of(data.as_bytes()));
        let (_, completion) = queue.submit(*connect.entry(), data).await;
        let completion = completion?;
        let result = completion.result.get() as u32;
        if !completion.status().is_success() {
            return Err(Error::Refused {
                queue_id,
                status: completion.status(),
                result,
            });
        }
        let asked = requirement::AUTHENTICATE | requirement::AUTHENTICATE_AND_SECURE;
        self.prove(queue_id, subsystem_nqn, options, queue, result & asked != 0)
            .await?;
        Ok(result as u16)
    }

    /// Authenticates a queue where the controller asks for it.
    async fn prove(
        &self,
        queue_id: u16,
        subsystem_nqn: &str,
        options: &ConnectOptions,
        queue: &QueuePair,
        asked: bool,
    ) -> Result<(), Error> {
        let credentials = match (asked, &options.credentials) {
            (true, Some(credentials)) => credentials,
            (true, None) => return Err(Error::SecretRequired),
            (
                false,
                Some(Credentials {
                    controller: Some(_),
                    ..
                }),
            ) => {
                return Err(Error::ControllerUnproved);
            }
            (false, _) => return Ok(()),
        };
        let host_nqn = name("host NQN", &options.host_nqn)?;
        let subsystem_nqn = name("subsystem NQN", subsystem_nqn)?;
        authenticate(queue, queue_id, credentials, host_nqn, subsystem_nqn).await
    }

    async fn enable(&self, capabilities: Capabilities) -> Result<(), Error> {
        let set = Property::set(PropertyOffset::CONFIGURATION, Configuration::ENABLE.0);
        command(&self.admin, *set.entry(), Data::None).await?;
        let ready = controller_status::READY;
        self.wait_for_status(
            ready,
            Duration::from_millis(capabilities.ready_timeout_ms()),
        )
        .await
    }

    /// Waits until one of the bits `wanted` of CSTS is set.
    async fn wait_for_status(&self, wanted: u32, limit: Duration) -> Result<(), Error> {
        let deadline = now() + limit.max(Duration::from_millis(500));
        loop {
            let status = self.property(PropertyOffset::STATUS, false).await? as u32;
            if status & wanted != 0 {
                return Ok(());
            }
            if status & controller_status::FATAL != 0 || now() >= deadline {
                return Err(Error::NotReady(status));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Tells the controller to shut down and waits, within reason, until it has.
    pub(crate) async fn shut_down(&self) -> Result<(), Error> {
        let configuration = Configuration::ENABLE.with_shutdown(1);
        let set = Property::set(PropertyOffset::CONFIGURATION, configuration.0);
        command(&self.admin, *set.entry(), Data::None).await?;
        let complete = controller_status::SHUTDOWN_COMPLETE;
        self.wait_for_status(complete, Duration::from_secs(2)).await
    }

    async fn property(&self, offset: PropertyOffset, wide: bool) -> Result<u64, Error> {
        let get = Property::get(offset, wide);
        let (_, completion) = command(&self.admin, *get.entry(), Data::None).await?;
        Ok(completion.result.get())
    }

    async fn identify(&self) -> Result<Rc<ControllerData>, Error> {
        let identify = Identify::new(Cns::CONTROLLER, 0);
        let data = Data::In(Buffer::zeroed(IDENTIFY_BYTES));
        let (data, _) = command(&self.admin, *identify.entry(), data).await?;
        let buffer = data.into_buffer().unwrap_or_else(|| Buffer::new(0));
        ControllerData::read_from_bytes(&buffer)
            .map(Rc::new)
            .map_err(|_| Error::Nonsense("Identify Controller data"))
    }

    async fn configure_events(&self) -> Result<(), Error> {
        let wanted = EVENTS & (self.data.async_events.get() | config::SMART_COMMON);
        let entry = set_feature_entry(Feature::ASYNC_EVENT_CONFIGURATION, wanted);
        command(&self.admin, entry, Data::None).await?;
        Ok(())
    }

    async fn create_queues(
        &mut self,
        way: &Way<'_>,
        subsystem_nqn: &str,
        capabilities: Capabilities,
    ) -> Result<(), Error> {
        let options = way.options;
        let wanted = (options.io_queues - 1).into();
        let wanted = QueueCount {
            submission: wanted,
            completion: wanted,
        };
        let entry = set_feature_entry(Feature::NUMBER_OF_QUEUES, wanted.value());
        let (_, completion) = command(&self.admin, entry, Data::None).await?;
        let granted = QueueCount::from_value(completion.result.get() as u32);
        let granted = granted
            .submission
            .get()
            .min(granted.completion.get())
            .saturating_add(1);
        let entries_max = capabilities.queue_entries_max().saturating_sub(1).max(1);
        let depth = options
            .queue_depth
            .min(u16::try_from(entries_max).unwrap_or(u16::MAX));
        let capsule_bytes = self.io_capsule_bytes();
        for queue_id in 1..=options.io_queues.min(granted) {
            let queue = way
                .open(queue_id, self.controller_id, depth, capsule_bytes)
                .await?;
            self.io.push(queue.clone());
            self.connect_queue(queue_id, depth, subsystem_nqn, options, &queue)
                .await?;
        }
        Ok(())
    }

    /// Enables Copy from other namespaces, where the controller has that and is to be told so.
    async fn enable_copy(&self) -> Result<(), Error> {
        let bit = 1 << CopyFormat::NAMED.0;
        if self.data.copy_formats.get() & bit == 0 {
            return Ok(());
        }
        let mut behaviour = HostBehaviour::new_zeroed();
        behaviour.copy_formats = bit.into();
        let entry = set_feature_entry(Feature::HOST_BEHAVIOUR, 0);
        let data = Data::Out(Buffer::copy_of(behaviour.as_bytes()));
        command(&self.admin, entry, data).await.map(|_| ())
    }

    /// Data that fits into a command capsule on an I/O queue: IOCCSZ less the command itself, if
    /// it starts right behind it.
    fn io_capsule_bytes(&self) -> u32 {
        let command = size_of::<SubmissionEntry>() as u32;
        let capsule = self.data.command_capsule_units.get().saturating_mul(16);
        let directly_behind = self.data.capsule_data_offset.get() == 0;
        if directly_behind {
            capsule.saturating_sub(command)
        } else {
            0
        }
    }
}

fn name(option: &'static str, text: &str) -> Result<Nqn, Error> {
    text.parse().map_err(|_| Error::Option {
        option,
        found: text.to_owned(),
        allowed: "an NQN is required",
    })
}

fn settings(options: &ConnectOptions, depth: u16, in_capsule_bytes: u32) -> Settings {
    Settings {
        depth,
        header_digest: options.header_digest,
        data_digest: options.data_digest,
        in_capsule_bytes,
        ready_to_transfer_max: READY_TO_TRANSFER_MAX,
    }
}

/// Submits a command that must succeed.
pub(crate) async fn command(
    queue: &QueuePair,
    entry: SubmissionEntry,
    data: Data,
) -> Result<(Data, CompletionEntry), Error> {
    let (data, completion) = queue.submit(entry, data).await;
    let completion = completion?;
    let status = completion.status();
    if status.is_success() {
        Ok((data, completion))
    } else {
        Err(Error::Command(status))
    }
}

/// Set Features with a value and no data.
pub(crate) fn set_feature_entry(feature: Feature, value: u32) -> SubmissionEntry {
    feature_entry(AdminOpcode::SET_FEATURES, feature, value)
}

/// Get Features without data.
pub(crate) fn get_feature_entry(feature: Feature, value: u32) -> SubmissionEntry {
    feature_entry(AdminOpcode::GET_FEATURES, feature, value)
}

fn feature_entry(opcode: AdminOpcode, feature: Feature, value: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(opcode.0, 0, SglDescriptor::transport(0));
    let mut features = *Features::of(&entry);
    features.feature = feature;
    features.value = value.into();
    entry = *features.entry();
    entry
}
