//! The snapshot metadata service: which bytes of a snapshot a backup has to copy.

use std::sync::Arc;

use api::{Extent, Extents, ExtentsQuery};
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::Work;
use super::capacity::signed;
use super::create::in_pool;
use super::snapshots::{shown, volumes};
use crate::calls::Service;
use crate::lookup::At;
use crate::proto::snapshot_metadata_server::SnapshotMetadata;
use crate::proto::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use crate::refusal::{given, status};

/// Ranges in a message where the caller does not say, and at most.
const RANGES_A_MESSAGE: u32 = 4096;
/// Messages that wait for a slow caller.
const MESSAGES_AHEAD: usize = 4;

/// What a caller wants to know.
struct Wanted {
    snapshot: String,
    /// Only what may differ from this one.
    base: Option<String>,
    offset: i64,
    max_results: i32,
}

/// What a message says.
struct Part {
    capacity: i64,
    ranges: Vec<BlockMetadata>,
}

/// A snapshot on its node, and where the next answer of that begins.
struct Listing {
    at: At<api::Snapshot>,
    query: ExtentsQuery,
}

type Answers<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl SnapshotMetadata for Service<Work> {
    type GetMetadataAllocatedStream = Answers<GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Answers<GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let asked = request.into_inner();
        given("snapshot_id", &asked.snapshot_id)?;
        let wanted = Wanted {
            snapshot: asked.snapshot_id,
            base: None,
            offset: asked.starting_offset,
            max_results: asked.max_results,
        };
        let message = |part: Part| GetMetadataAllocatedResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes: part.capacity,
            block_metadata: part.ranges,
        };
        answered(Arc::clone(&self.0), wanted, message).await
    }

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let asked = request.into_inner();
        given("base_snapshot_id", &asked.base_snapshot_id)?;
        given("target_snapshot_id", &asked.target_snapshot_id)?;
        let wanted = Wanted {
            snapshot: asked.target_snapshot_id,
            base: Some(asked.base_snapshot_id),
            offset: asked.starting_offset,
            max_results: asked.max_results,
        };
        let message = |part: Part| GetMetadataDeltaResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes: part.capacity,
            block_metadata: part.ranges,
        };
        answered(Arc::clone(&self.0), wanted, message).await
    }
}

/// Answers in messages. What is refused is refused at once; a node is asked for more when the
/// caller has taken what there was.
async fn answered<T: Send + 'static>(
    work: Arc<Work>,
    wanted: Wanted,
    message: fn(Part) -> T,
) -> Result<Response<Answers<T>>, Status> {
    let begun = tokio::task::spawn_blocking(move || work.begin(wanted)).await;
    let failed = |error| Status::internal(format!("the call's thread failed: {error}"));
    let (mut listing, first) = begun.map_err(failed)??;
    let (sender, answers) = mpsc::channel(MESSAGES_AHEAD);
    drop(tokio::task::spawn_blocking(move || {
        let mut found = Ok(first);
        while told(&sender, found, message)
            && let Some(from) = listing.query.from
        {
            found = listing.more(from);
        }
    }));
    Ok(Response::new(ReceiverStream::new(answers)))
}

/// Tells the caller of what was found; false if there is nobody to tell more.
fn told<T>(
    sender: &Sender<Result<T, Status>>,
    found: Result<Part, Status>,
    message: fn(Part) -> T,
) -> bool {
    let goes_on = found.is_ok();
    sender.blocking_send(found.map(message)).is_ok() && goes_on
}

impl Work {
    /// Looks for the snapshots, and asks for the first ranges.
    fn begin(&self, wanted: Wanted) -> Result<(Listing, Part), Status> {
        let at = self.nodes.snapshot(&wanted.snapshot)?;
        let offset = u64::try_from(wanted.offset).ok();
        let offset = offset.filter(|offset| *offset <= at.found.bytes);
        let offset = offset.ok_or_else(|| {
            Status::out_of_range(format!(
                "starting_offset {}; allowed: 0 to {}, the size of the snapshot",
                wanted.offset, at.found.bytes
            ))
        })?;
        let limit = match u32::try_from(wanted.max_results) {
            Ok(0) => RANGES_A_MESSAGE,
            Ok(most) => most.min(RANGES_A_MESSAGE),
            Err(_) => {
                let message = format!("max_results {}; allowed: 0 or more", wanted.max_results);
                return Err(Status::invalid_argument(message));
            }
        };
        let base = wanted.base.as_deref();
        let base = base.map(|base| self.base_of(&at, base)).transpose()?;
        let query = ExtentsQuery {
            since: base.map(|base| in_pool(&base)).transpose()?,
            from: None,
            limit: Some(limit),
        };
        let mut listing = Listing { at, query };
        let first = listing.more(offset)?;
        Ok((listing, first))
    }

    /// The snapshot to compare with, which is of the same volume.
    fn base_of(&self, at: &At<api::Snapshot>, base: &str) -> Result<api::Snapshot, Status> {
        let base = self.nodes.snapshot(base)?;
        let volume = |at: &At<api::Snapshot>| {
            let volumes = volumes(at)?;
            Ok::<String, Status>(shown(&at.found, &volumes).source_volume_id)
        };
        let (of, base_of) = (volume(at)?, volume(&base)?);
        if of != base_of || at.found.pool != base.found.pool {
            return Err(Status::invalid_argument(format!(
                "base_snapshot_id is of volume {base_of} in pool {}, and target_snapshot_id of \
                 volume {of} in pool {}; allowed: snapshots of one volume",
                base.found.pool, at.found.pool
            )));
        }
        Ok(base.found)
    }
}

impl Listing {
    /// The next ranges, from this byte on.
    fn more(&mut self, from: u64) -> Result<Part, Status> {
        self.query.from = Some(from);
        let name = in_pool(&self.at.found)?;
        let found = self.at.client.snapshot_extents(&name, &self.query);
        let Extents {
            bytes,
            extents,
            next,
        } = found.map_err(|error| status(&error))?;
        self.query.from = next;
        let range = |extent: &Extent| BlockMetadata {
            byte_offset: signed(extent.start),
            size_bytes: signed(extent.bytes),
        };
        Ok(Part {
            capacity: signed(bytes),
            ranges: extents.iter().map(range).collect(),
        })
    }
}
