//! `flashyard volume receive`: a stream becomes a volume, or brings one to a later snapshot.
//!
//! What comes in is written to a volume aside. Once all of it is there and was right, the volume
//! becomes that at one instant, and a snapshot says of what it is a copy. So whatever ends a
//! receive early leaves the volume as it was.

mod incoming;
mod names;
mod plan;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use api::{Name, Snapshot, SnapshotSpec, VolumeRollback, VolumeSpec};
use clap::Args;
use client::Client;
use reactor::{Reactor, ReactorConfig};
use stream::{Header, Reader};
use uuid::Uuid;

use self::incoming::transferred;
use self::names::Names;
pub use self::plan::in_pool;
use self::plan::{Ground, Plan};
use super::aside::Aside;
use super::error::CopyError;
use super::object::{Object, download};
use super::onlooker::Onlooker;
use super::transfer::Remote;
use super::{Access, address, name};
use crate::connection::{Done, Node};
use crate::progress::Progress;
use crate::snapshot;

/// Receive what `snapshot send` wrote: make a volume, or bring one up to date
///
/// Takes it from standard input, or from an object of an S3 store. The volume changes once all of
/// it has come, and gets a snapshot of the same name, on which the next stream builds.
#[derive(Args)]
pub struct Receive {
    /// The volume
    pub(super) name: Name,
    /// The pool that holds it, for a volume that is made
    #[arg(long)]
    pub(super) pool: Option<Name>,
    /// Name of the snapshot that is taken; else that of the one that was sent
    #[arg(long, value_name = "NAME")]
    pub(super) snapshot: Option<Name>,
    /// A host that may see a volume that is made, or `any` for every host; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(super) allow: Vec<Name>,
    /// The tenant that a volume that is made belongs to
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<Name>,
    /// Delete first what a receive of this volume has left that was killed
    #[arg(long)]
    pub(super) restart: bool,
    /// Take the stream from this object; `AWS_` variables of the environment tell endpoint, region
    /// and credentials
    #[arg(long, value_name = "s3://BUCKET/KEY")]
    pub(super) from: Option<Object>,
    #[command(flatten)]
    pub(super) access: Access,
    /// The volume is the replica of the one with this identity: nobody else writes to it, and it is
    /// made what the stream says whatever it is.
    #[arg(skip)]
    pub(super) replica_of: Option<Uuid>,
}

impl Receive {
    pub fn run(&self, node: &Node) -> Done {
        let taken = match &self.from {
            Some(object) => download(object, |pipe| {
                self.receive(&node.client, pipe, || Onlooker::Terminal(Progress::start()))
            })?,
            None => self.receive_standard_input(&node.client)?,
        };
        node.output
            .show(&taken, |taken| snapshot::list(std::slice::from_ref(taken)));
        Ok(())
    }

    fn receive_standard_input(&self, client: &Client) -> Result<Snapshot, CopyError> {
        if io::stdin().is_terminal() {
            let message = "standard input is a terminal; allowed: what `snapshot send` wrote";
            return Err(CopyError::Refused(message.to_owned()));
        }
        let input = io::stdin().as_fd().try_clone_to_owned();
        let input = File::from(input.map_err(CopyError::Input)?);
        self.receive(client, input, || Onlooker::Terminal(Progress::start()))
    }

    /// Reads a stream, and has the volume be what it says.
    pub(super) fn receive(
        &self,
        client: &Client,
        input: File,
        onlooker: impl FnOnce() -> Onlooker,
    ) -> Result<Snapshot, CopyError> {
        let reader = Reader::new(input)?;
        let header = reader.header().clone();
        let plan = Plan::of(self, client, &header)?;
        plan.names.are_free(client, self.restart, &self.access)?;
        plan.check_unchanged(client)?;
        let onlooker = onlooker();
        let mut aside = self.access.aside(client);
        let connecting = self.access.host(client, &mut aside)?;
        let volume = plan.begin(client, &header, &connecting.name)?;
        aside.volume = Some(plan.names.volume.clone());
        plan.resize(client, &header)?;
        let address = address(client, &volume, &connecting)?;
        let reactor = Reactor::io_uring(ReactorConfig::default())?;
        let bytes = header.volume_bytes;
        reactor.run(async move {
            let remote = Remote::connect(&address, connecting).await?;
            let received = transferred(&remote, reader, bytes, &onlooker).await;
            remote.disconnect().await;
            received
        })?;
        self.finish(client, &plan, &header, &mut aside)
    }

    /// Has the volume become what is aside, and takes the snapshot.
    fn finish(
        &self,
        client: &Client,
        plan: &Plan,
        header: &Header,
        aside: &mut Aside,
    ) -> Result<Snapshot, CopyError> {
        plan.check_unchanged(client)?;
        let Names {
            volume, snapshot, ..
        } = &plan.names;
        let of_aside = SnapshotSpec {
            volume: volume.clone(),
            copy_of: None,
        };
        let whole = client.create_snapshot(snapshot, &of_aside)?;
        let whole = in_pool(&whole)?;
        aside.snapshot = Some(whole.clone());
        match &plan.ground {
            Ground::Nothing { .. } => {
                let made = VolumeSpec {
                    snapshot: Some(whole),
                    block_bytes: plan::block_size(header)?,
                    hosts: self.allow.clone(),
                    tenant: self.tenant.clone(),
                    replica_of: self.replica_of,
                    ..VolumeSpec::default()
                };
                client.create_volume(&self.name, &made)?;
            }
            Ground::Base { .. } => {
                let to = VolumeRollback {
                    snapshot: whole,
                    force: false,
                    allow_shrink: true,
                    replica_of: self.replica_of,
                };
                client.rollback_volume(&self.name, &to)?;
            }
        }
        let copy = SnapshotSpec {
            volume: self.name.clone(),
            copy_of: Some(Uuid::from_bytes(header.snapshot.uuid)),
        };
        let taken = client.create_snapshot(&plan.names.taken, &copy)?;
        aside.delete_snapshot()?;
        Ok(taken)
    }

    /// The name of the snapshot that is taken.
    fn taken(&self, header: &Header) -> Result<Name, CopyError> {
        match &self.snapshot {
            Some(name) => Ok(name.clone()),
            None => name(&header.snapshot.name),
        }
    }
}
