//! `flashyard snapshot send`: a snapshot, or what changed since an earlier one, as a stream.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use api::{
    Extent, Extents, ExtentsQuery, Limit, Limits, Snapshot, SnapshotName, Volume, VolumeSpec,
};
use clap::Args;
use client::Client;
use reactor::{Reactor, ReactorConfig, Task, blocking, spawn};
use stream::{Header, Origin, Record, Totals, Writer};

use super::error::CopyError;
use super::object::{Object, upload};
use super::onlooker::Onlooker;
use super::transfer::{BATCH_BYTES, BATCH_PARTS, Contents, PART_BYTES, Part, Remote, Wanted};
use super::{Access, address, size};
use crate::connection::{Done, Node};
use crate::output;
use crate::progress::Progress;

/// Send a snapshot to standard output or an S3 store, or what changed since an earlier one
///
/// The stream goes to `volume receive` on another node, to a file, or to an object. It is
/// compressed and has checksums, and is not encrypted. Reads from a clone that is there for the
/// time.
#[derive(Args)]
pub struct SendSnapshot {
    /// The snapshot, as NAME or POOL/NAME
    pub(super) name: SnapshotName,
    /// Send only what may differ from this snapshot of the pool, which the receiver has to have
    #[arg(long, value_name = "NAME")]
    pub(super) since: Option<SnapshotName>,
    /// Store the stream as this object, which is there once all was sent; `AWS_` variables of the
    /// environment tell endpoint, region and credentials
    #[arg(long, value_name = "s3://BUCKET/KEY")]
    pub(super) to: Option<Object>,
    /// Replace an object that is there
    #[arg(long, requires = "to")]
    pub(super) overwrite: bool,
    #[command(flatten)]
    pub(super) access: Access,
    /// Data is written as it is: nothing is gained where the reader is this process.
    #[arg(skip)]
    pub(super) plain: bool,
    /// Bytes a second that are read at most.
    #[arg(skip)]
    pub(super) bandwidth: Option<u64>,
}

/// Extents as the node tells them, cut into parts.
struct Listing {
    client: Client,
    name: SnapshotName,
    query: ExtentsQuery,
    extents: VecDeque<Extent>,
    /// There are no more on the node.
    all: bool,
}

impl SendSnapshot {
    pub fn run(&self, node: &Node) -> Done {
        let (written, totals) = match &self.to {
            Some(object) => self.to_object(&node.client, object)?,
            None => self.to_standard_output(&node.client)?,
        };
        let Totals {
            data_bytes,
            zero_bytes,
            ..
        } = totals;
        let since = self.since.as_ref();
        let since = since.map_or(String::new(), |since| format!(" since {since}"));
        output::tell(&format_args!(
            "flashyard: snapshot {}{since}: {} of data and {} of zeroes sent in {written} bytes",
            self.name,
            size(data_bytes),
            size(zero_bytes)
        ));
        Ok(())
    }

    fn to_standard_output(&self, client: &Client) -> Result<(u64, Totals), CopyError> {
        if output::is_terminal() {
            let message = "standard output is a terminal; allowed: a file or a pipe";
            return Err(CopyError::Refused(message.to_owned()));
        }
        let output = output::stream().map_err(CopyError::Output)?;
        self.send(client, output, || Onlooker::Terminal(Progress::start()))
    }

    fn to_object(&self, client: &Client, object: &Object) -> Result<(u64, Totals), CopyError> {
        let stream_bytes_max = stream::bytes_max(client.snapshot(&self.name)?.bytes);
        upload(object, self.overwrite, stream_bytes_max, |pipe| {
            self.send(client, pipe, || Onlooker::Terminal(Progress::start()))
        })
    }

    /// Writes the stream; gives how many bytes it has, and of what.
    pub(super) fn send(
        &self,
        client: &Client,
        output: File,
        onlooker: impl FnOnce() -> Onlooker,
    ) -> Result<(u64, Totals), CopyError> {
        let snapshot = client.snapshot(&self.name)?;
        // Of the snapshot's pool, where no other is named.
        let in_pool = |name: &SnapshotName| SnapshotName {
            pool: name.pool.clone().or_else(|| Some(snapshot.pool.clone())),
            ..name.clone()
        };
        let since = self.since.as_ref().map(in_pool);
        let base = since.as_ref().map(|since| client.snapshot(since));
        let base = base.transpose()?;
        let volume = snapshot.volume.as_ref();
        let volume = volume.map(|volume| client.volume(volume)).transpose()?;
        let block_bytes = volume.as_ref().map(|volume| volume.block_bytes);
        let block_bytes = block_bytes.unwrap_or_default();
        let header = header(&snapshot, volume.as_ref(), base.as_ref())?;
        let name = in_pool(&self.name);
        let query = ExtentsQuery {
            since,
            ..ExtentsQuery::default()
        };
        let mut listing = Listing {
            client: client.clone(),
            name: name.clone(),
            query,
            extents: VecDeque::new(),
            all: false,
        };
        // A snapshot that the other cannot be compared with is refused before anything is made.
        listing.more()?;
        let onlooker = onlooker();
        let mut aside = self.access.aside(client);
        let connecting = self.access.host(client, &mut aside)?;
        let clone = VolumeSpec {
            snapshot: Some(name),
            block_bytes,
            hosts: vec![connecting.name.clone()],
            tenant: volume.and_then(|volume| volume.tenant),
            ..VolumeSpec::default()
        };
        let called = self.access.name()?;
        let clone = client.create_volume(&called, &clone)?;
        aside.volume = Some(called);
        self.limit(client, &clone)?;
        let address = address(client, &clone, &connecting)?;
        let writer = Writer::new(output, &header).map_err(CopyError::Output)?;
        let writer = match self.plain {
            true => writer.plain(),
            false => writer,
        };
        let reactor = Reactor::io_uring(ReactorConfig::default())?;
        reactor.run(async move {
            let remote = Remote::connect(&address, connecting).await?;
            let sent = transferred(&remote, listing, writer, header.volume_bytes, &onlooker).await;
            remote.disconnect().await;
            sent
        })
    }

    /// Has the clone read as slowly as the copy is to be made.
    fn limit(&self, client: &Client, clone: &Volume) -> Result<(), CopyError> {
        let Some(bytes) = self.bandwidth else {
            return Ok(());
        };
        let read = Limit {
            bytes_per_second: Some(bytes),
            ..Limit::default()
        };
        let limits = Limits {
            read,
            ..Limits::default()
        };
        client.limit_volume(&clone.name, &limits)?;
        Ok(())
    }
}

fn header(
    snapshot: &Snapshot,
    volume: Option<&Volume>,
    base: Option<&Snapshot>,
) -> Result<Header, CopyError> {
    let block_bytes = volume.map(|volume| volume.block_bytes);
    Ok(Header {
        volume_bytes: snapshot.bytes,
        block_bytes: block_bytes.unwrap_or_default().bytes(),
        volume: volume.map(|it| it.name.to_string()).unwrap_or_default(),
        snapshot: origin(snapshot)?,
        base: base.map(origin).transpose()?,
    })
}

fn origin(snapshot: &Snapshot) -> Result<Origin, CopyError> {
    if snapshot.uuid.is_nil() {
        return Err(CopyError::Refused(format!(
            "the node tells no identity of snapshot {}: it has an earlier version",
            snapshot.name
        )));
    }
    Ok(Origin {
        name: snapshot.name.clone(),
        uuid: snapshot.uuid.into_bytes(),
    })
}

impl Listing {
    /// Asks for the next extents, if there are none left and may be more.
    fn more(&mut self) -> Result<(), CopyError> {
        while self.extents.is_empty() && !self.all {
            let found = self.client.snapshot_extents(&self.name, &self.query)?;
            let Extents { extents, next, .. } = found;
            let from = self.query.from.unwrap_or(0);
            // The first may begin before.
            let behind = |extent: Extent| {
                let start = extent.start.max(from);
                let bytes = (extent.start + extent.bytes).saturating_sub(start);
                (bytes > 0).then_some(Extent {
                    start,
                    bytes,
                    ..extent
                })
            };
            self.extents = extents.into_iter().filter_map(behind).collect();
            self.query.from = next;
            self.all = next.is_none();
        }
        Ok(())
    }

    /// What is to be read next: nothing at the end.
    fn batch(&mut self) -> Result<Vec<Wanted>, CopyError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_PARTS && bytes < BATCH_BYTES {
            self.more()?;
            let Some(extent) = self.extents.front_mut() else {
                break;
            };
            let part = match extent.zeroes {
                true => extent.bytes,
                false => extent.bytes.min(PART_BYTES),
            };
            batch.push(Wanted {
                start: extent.start,
                bytes: part,
                zeroes: extent.zeroes,
            });
            bytes += if extent.zeroes { 0 } else { part };
            extent.start += part;
            extent.bytes -= part;
            if extent.bytes == 0 {
                self.extents.pop_front();
            }
        }
        Ok(batch)
    }
}

type Written = io::Result<Writer<File>>;

/// Reads what is listed while what was read before is written.
async fn transferred(
    remote: &Remote,
    mut listing: Listing,
    writer: Writer<File>,
    volume_bytes: u64,
    onlooker: &Onlooker,
) -> Result<(u64, Totals), CopyError> {
    let mut writing: Task<Written> = spawn(async move { Ok(writer) });
    loop {
        let asked = blocking(move || {
            let batch = listing.batch();
            (listing, batch)
        });
        let (back, batch) = remote.beside(onlooker, asked).await?;
        listing = back;
        let batch = batch?;
        let Some(first) = batch.first() else {
            break;
        };
        onlooker.at(first.start as f64 / volume_bytes as f64);
        let parts = remote.beside(onlooker, remote.read(batch)).await??;
        let writer = remote.beside(onlooker, writing).await?;
        let writer = writer.map_err(CopyError::Output)?;
        writing = spawn(blocking(move || written(writer, parts)));
    }
    let writer = remote.beside(onlooker, writing).await?;
    let writer = writer.map_err(CopyError::Output)?;
    let finished = remote
        .beside(onlooker, blocking(move || writer.finish()))
        .await?;
    let (_, totals, written) = finished.map_err(CopyError::Output)?;
    Ok((written, totals))
}

fn written(mut writer: Writer<File>, parts: Vec<Part>) -> Written {
    for Part { start, contents } in &parts {
        let start = *start;
        writer.write(&match contents {
            Contents::Data(bytes) => Record::Data { start, bytes },
            Contents::Zeroes(bytes) => Record::Zeroes {
                start,
                bytes: *bytes,
            },
        })?;
    }
    Ok(writer)
}
