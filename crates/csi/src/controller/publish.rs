//! Who may use a volume: publishing lets one host connect, unpublishing is the fence.

use std::collections::HashMap;

use access::Nqn;
use api::{ANY_HOST, Host, HostSpec, Name, ObjectState, PortTransport, Volume};
use client::Client;
use tonic::Status;

use super::Work;
use crate::access_mode::Use;
use crate::lookup::At;
use crate::names::host_name;
use crate::node::connection;
use crate::parameters::{self, Demands};
use crate::proto::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse,
};
use crate::refusal::{given, if_there, is_absent, status};

impl Work {
    pub(super) fn publish(
        &self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        let identifier = given("volume_id", &request.volume_id)?;
        let node = given("node_id", &request.node_id)?;
        let asked = Use::of(request.volume_capability.as_ref())?;
        if request.readonly {
            return Err(Status::invalid_argument(
                "readonly is true, and nodes protect no volume from writes; allowed: false",
            ));
        }
        let _turn = self.turns.take(identifier)?;
        let at = self.nodes.volume(identifier)?;
        let nqn: Nqn = node.parse().map_err(|error| {
            Status::not_found(format!("node_id {node:?} is no host NQN: {error}"))
        })?;
        if at.found.state == ObjectState::Offline {
            let why = at.found.reason.as_deref().unwrap_or("its pool is offline");
            return Err(Status::unavailable(format!("the volume is offline: {why}")));
        }
        let hosts = at.client.hosts().map_err(|error| status(&error))?.items;
        let own = hosts.iter().find(|host| host.nqn == nqn.as_str());
        let demands = Demands::of(&request.volume_context);
        let proof = self.proof((&nqn, own), demands, &at.found.name)?;
        let transport = request.volume_context.get(connection::TRANSPORT);
        let transport = transport
            .map(|word| parameters::transport(word))
            .transpose()?;
        let way = (transport.unwrap_or_default(), proof.is_under_tls());
        let mut publish_context = context(&at, way)?;
        alone(&at.found, &hosts, own.map(|host| &host.name), &asked)?;
        let host = match own {
            Some(host) => host.name.clone(),
            None => introduced(&at.client, &nqn)?,
        };
        proof.demand(&at.client, &host)?;
        let allowed = at.client.allow_host(&at.found.name, &host);
        let allowed = allowed.map_err(|error| status(&error))?;
        if let Err(other) = alone(&allowed, &hosts, Some(&host), &asked)
            && !at.found.hosts.contains(&host)
        {
            // Another controller was as quick: neither host gets the volume before one is asked
            // for again.
            let denied = at.client.deny_host(&at.found.name, &host);
            denied.map_err(|error| status(&error))?;
            return Err(other);
        }
        proof.tell(&mut publish_context);
        Ok(ControllerPublishVolumeResponse { publish_context })
    }

    pub(super) fn unpublish(
        &self,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<ControllerUnpublishVolumeResponse, Status> {
        let identifier = given("volume_id", &request.volume_id)?;
        let _turn = self.turns.take(identifier)?;
        let Some(at) = if_there(self.nodes.volume(identifier))? else {
            // Nobody writes to what is gone.
            return Ok(ControllerUnpublishVolumeResponse {});
        };
        let hosts = at.client.hosts().map_err(|error| status(&error))?.items;
        let mut names: Vec<Name> = match request.node_id.as_str() {
            "" => at.found.hosts.clone(),
            nqn => hosts
                .into_iter()
                .filter(|host| host.nqn == nqn)
                .map(|host| host.name)
                .collect(),
        };
        if request.node_id.is_empty() && names.is_empty() {
            names.extend(ANY_HOST.parse());
        }
        // Also of a host that is off the list: an earlier call may not have waited for its end.
        for host in &names {
            // Answers once the host's connections have ended, with the last command on them.
            match at.client.deny_host(&at.found.name, host) {
                Err(error) if !is_absent(&error) => return Err(status(&error)),
                _ => {}
            }
        }
        Ok(ControllerUnpublishVolumeResponse {})
    }
}

/// Whether nobody but the host called `own` has the volume, where only one may.
fn alone(volume: &Volume, hosts: &[Host], own: Option<&Name>, asked: &Use) -> Result<(), Status> {
    let mut others = volume.hosts.iter().filter(|name| Some(*name) != own);
    let Some(name) = others.next().filter(|_| !asked.is_shared()) else {
        return Ok(());
    };
    let mode = asked.mode.as_str_name();
    let message = match hosts.iter().find(|host| host.name == *name) {
        Some(Host { nqn, .. }) => {
            format!("the volume is published to {nqn}: access mode {mode} is of one node")
        }
        None if name.as_str() == ANY_HOST => format!(
            "every host may connect to the volume: `flashyard volume deny {} any` takes that back",
            volume.name
        ),
        None => format!("the volume is published to {name}: access mode {mode} is of one node"),
    };
    Err(Status::failed_precondition(message))
}

/// Has the node know the host called `nqn`; gives the name it gets.
fn introduced(client: &Client, nqn: &Nqn) -> Result<Name, Status> {
    let name = host_name(nqn.as_str())?;
    let spec = HostSpec {
        nqn: nqn.as_str().to_owned(),
        tenant: None,
    };
    let added = client.add_host(&name, &spec);
    Ok(added.map_err(|error| status(&error))?.name)
}

/// What a host needs to know to connect by a transport, under TLS or in the clear.
fn context(
    at: &At<Volume>,
    (transport, tls): (PortTransport, bool),
) -> Result<HashMap<String, String>, Status> {
    let told = at
        .client
        .status_for(&at.found.name)
        .map_err(|error| status(&error))?;
    let served = match transport {
        PortTransport::Tcp => &told.nvme_addresses,
        PortTransport::Rdma => &told.nvme_rdma_addresses,
    };
    let under_tls =
        |address| transport == PortTransport::Tcp && told.nvme_tls_addresses.contains(address);
    let usable = served.iter().filter(|address| under_tls(address) == tls);
    let addresses: Vec<&str> = usable.map(String::as_str).collect();
    if addresses.is_empty() {
        return Err(Status::failed_precondition(format!(
            "node {} has no port over {} {} TLS that hosts could use",
            told.name,
            transport.word().to_uppercase(),
            if tls { "under" } else { "without" }
        )));
    }
    Ok(HashMap::from([
        (
            connection::TRANSPORT.to_owned(),
            transport.word().to_owned(),
        ),
        (connection::NQN.to_owned(), at.found.nqn.clone()),
        (connection::NSID.to_owned(), at.found.nsid.to_string()),
        (connection::ADDRESSES.to_owned(), addresses.join(" ")),
    ]))
}
