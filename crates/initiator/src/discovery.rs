//! Discovery: which subsystems there are, and where.

use std::net::{IpAddr, SocketAddr};

use nvme::fabrics::DISCOVERY_NQN;
use nvme::log::{
    DiscoveryEntry, DiscoveryHeader, LogPage, SubsystemType, TRANSPORT_RDMA, TRANSPORT_TCP,
};
use nvme::text::{from_padded, from_terminated};
use zerocopy::FromBytes;

use crate::{ConnectOptions, Controller, Endpoint, Error, Transport};

/// How often the log is read anew because it changed while it was read.
const ATTEMPTS: usize = 5;

/// More records than this are no discovery log but a mistake.
const RECORDS_MAX: u64 = 65_536;

/// One record of a discovery log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// How it is reached; `None` for a transport that this library does not speak.
    pub transport: Option<Transport>,
    /// What kind of subsystem it names.
    pub subsystem_type: SubsystemType,
    /// Its NQN.
    pub subsystem_nqn: String,
    /// TRADDR, as the record has it.
    pub address: String,
    /// TRSVCID: the port, as the record has it.
    pub service: String,
    /// PORTID.
    pub port_id: u16,
    /// CNTLID.
    pub controller_id: u16,
    /// Whether a secure channel is required.
    pub secure: bool,
}

impl DiscoveryRecord {
    /// Where to connect to, if the record names a transport of this library, an IP address and a
    /// port.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let address: IpAddr = self.address.parse().ok()?;
        Some(Endpoint {
            transport: self.transport?,
            address: SocketAddr::new(address, self.service.parse().ok()?),
        })
    }
}

/// Connects to the discovery subsystem at `endpoint`, reads its log and disconnects.
///
/// # Errors
/// [`Error`] when there is no discovery controller or its log makes no sense.
pub async fn discover(
    endpoint: impl Into<Endpoint>,
    options: &ConnectOptions,
) -> Result<Vec<DiscoveryRecord>, Error> {
    let options = ConnectOptions {
        keep_alive: None,
        reconnect: None,
        async_events: false,
        ..options.clone()
    };
    let controller = Controller::connect(endpoint, DISCOVERY_NQN, options).await?;
    let records = controller.discovery_log().await;
    controller.disconnect().await;
    records
}

impl Controller {
    /// The discovery log of a discovery controller.
    ///
    /// # Errors
    /// [`Error`] when this is none, or its log makes no sense.
    pub async fn discovery_log(&self) -> Result<Vec<DiscoveryRecord>, Error> {
        for _ in 0..ATTEMPTS {
            let before = self.discovery_header().await?;
            let mut records = Vec::new();
            for index in 0..before.records.get() {
                let at = (1 + index) * size_of::<DiscoveryEntry>() as u64;
                let bytes = self
                    .log_page(LogPage::DISCOVERY, 0, at, size_of::<DiscoveryEntry>())
                    .await?;
                records.push(record_of(&bytes)?);
            }
            let after = self.discovery_header().await?;
            if after.generation == before.generation {
                return Ok(records);
            }
        }
        Err(Error::Nonsense("ever changing discovery log"))
    }

    async fn discovery_header(&self) -> Result<DiscoveryHeader, Error> {
        let bytes = size_of::<DiscoveryHeader>();
        let header = self.log_page(LogPage::DISCOVERY, 0, 0, bytes).await?;
        let header = DiscoveryHeader::read_from_bytes(&header)
            .map_err(|_| Error::Nonsense("discovery log header"))?;
        if header.record_format.get() != 0 || header.records.get() > RECORDS_MAX {
            return Err(Error::Nonsense("discovery log header"));
        }
        Ok(header)
    }
}

fn record_of(bytes: &[u8]) -> Result<DiscoveryRecord, Error> {
    let nonsense = || Error::Nonsense("discovery record");
    let entry = DiscoveryEntry::ref_from_bytes(bytes).map_err(|_| nonsense())?;
    let subsystem_nqn = from_terminated(&entry.subsystem_nqn).ok_or_else(nonsense)?;
    Ok(DiscoveryRecord {
        transport: match entry.transport {
            TRANSPORT_TCP => Some(Transport::Tcp),
            TRANSPORT_RDMA => Some(Transport::Rdma),
            _ => None,
        },
        subsystem_type: entry.subsystem_type,
        subsystem_nqn: subsystem_nqn.to_owned(),
        address: from_padded(&entry.address).to_owned(),
        service: from_padded(&entry.service).to_owned(),
        port_id: entry.port_id.get(),
        controller_id: entry.controller_id.get(),
        secure: entry.requirements & 0b11 == nvme::log::requirements::SECURE_CHANNEL,
    })
}
