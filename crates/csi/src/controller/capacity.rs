//! How much room there is, and how large a volume is to be.

use api::{Size, VolumeResize};
use tonic::Status;

use super::Work;
use crate::access_mode::Use;
use crate::lookup::room;
use crate::parameters::{Changes, Parameters};
use crate::proto::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, GetCapacityRequest,
    GetCapacityResponse,
};
use crate::refusal::{given, status};

/// The size of a volume whose size is not asked for.
const DEFAULT_BYTES: u64 = 1 << 30;

/// What sizes are multiples of.
const UNIT_BYTES: u64 = 4096;

/// Sizes that somebody accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// At least this; none: it was not said.
    pub required: Option<u64>,
    /// At most this.
    pub limit: Option<u64>,
}

impl Range {
    /// What a request says.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for less than nothing, `OUT_OF_RANGE` where no multiple of 4 KiB lies
    /// between the bounds.
    pub fn of(asked: Option<&CapacityRange>) -> Result<Range, Status> {
        let (required, limit) = asked.map_or((0, 0), |it| (it.required_bytes, it.limit_bytes));
        let bytes = |what: &str, bytes: i64| {
            let message = || Status::invalid_argument(format!("{what} {bytes} is below zero"));
            u64::try_from(bytes)
                .map(|bytes| Some(bytes).filter(|bytes| *bytes > 0))
                .map_err(|_| message())
        };
        let range = Range {
            required: bytes("required_bytes", required)?,
            limit: bytes("limit_bytes", limit)?,
        };
        match range.limit {
            Some(limit) if range.size() > limit => Err(Status::out_of_range(format!(
                "no volume has a size from {required} to {limit} bytes; allowed: a multiple of \
                 {UNIT_BYTES} between them"
            ))),
            _ => Ok(range),
        }
    }

    /// The size of a new volume.
    pub fn size(self) -> u64 {
        let most = self.limit.map_or(DEFAULT_BYTES, |limit| {
            (limit - limit % UNIT_BYTES).max(UNIT_BYTES)
        });
        match self.required {
            Some(required) => required
                .checked_next_multiple_of(UNIT_BYTES)
                .unwrap_or(u64::MAX),
            None => most.min(DEFAULT_BYTES),
        }
    }

    /// Whether a volume of `bytes` is what is asked for.
    pub fn has(self, bytes: u64) -> bool {
        self.required.is_none_or(|required| bytes >= required)
            && self.limit.is_none_or(|limit| bytes <= limit)
    }
}

/// A number as the interface has it.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Work {
    pub(super) fn capacity(
        &self,
        request: GetCapacityRequest,
    ) -> Result<GetCapacityResponse, Status> {
        let parameters = Parameters::read(&request.parameters)?;
        if !request.volume_capabilities.is_empty() {
            Use::all(&request.volume_capabilities)?;
        }
        let pools = self.nodes.pools(parameters.pool.as_ref())?;
        let rooms = pools.iter().map(|at| room(&at.found));
        let all = rooms.clone().fold(0_u64, u64::saturating_add);
        Ok(GetCapacityResponse {
            available_capacity: signed(all),
            maximum_volume_size: Some(signed(rooms.max().unwrap_or(0))),
            minimum_volume_size: Some(signed(UNIT_BYTES)),
        })
    }

    pub(super) fn expand(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let identifier = given("volume_id", &request.volume_id)?;
        let asked = request.capacity_range;
        let asked = asked.ok_or_else(|| Status::invalid_argument("capacity_range is missing"))?;
        let range = Range::of(Some(&asked))?;
        let mounted = match &request.volume_capability {
            None => true,
            given => Use::of(given.as_ref())?.mount.is_some(),
        };
        let _turn = self.turns.take(identifier)?;
        let at = self.nodes.volume(identifier)?;
        let mut bytes = at.found.capacity_bytes;
        if range.required.is_some_and(|required| required > bytes) {
            let to = VolumeResize {
                size: Size(range.size()),
                allow_shrink: false,
            };
            let grown = at.client.resize_volume(&at.found.name, &to);
            bytes = grown.map_err(|error| status(&error))?.capacity_bytes;
        } else if range.limit.is_some_and(|limit| limit < bytes) {
            let message = format!("the volume has {bytes} bytes, and does not shrink");
            return Err(Status::out_of_range(message));
        }
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: signed(bytes),
            node_expansion_required: mounted,
        })
    }

    pub(super) fn modify(
        &self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, Status> {
        let identifier = given("volume_id", &request.volume_id)?;
        let _turn = self.turns.take(identifier)?;
        let at = self.nodes.volume(identifier)?;
        let changes = Changes::read(&request.mutable_parameters)?;
        self.apply(&at, &changes)?;
        Ok(ControllerModifyVolumeResponse {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(required_bytes: i64, limit_bytes: i64) -> Result<Range, Status> {
        Range::of(Some(&CapacityRange {
            required_bytes,
            limit_bytes,
        }))
    }

    #[test]
    fn a_size_is_a_whole_number_of_blocks_within_the_bounds() {
        assert_eq!(Range::of(None).unwrap().size(), DEFAULT_BYTES);
        assert_eq!(range(5000, 0).unwrap().size(), 8192);
        assert_eq!(range(0, 10_000).unwrap().size(), 8192);
        assert_eq!(range(1 << 40, 0).unwrap().size(), 1 << 40);
        assert_eq!(range(8192, 8192).unwrap().size(), 8192);
        for (required, limit) in [(5000, 6000), (8192, 4096), (0, 100), (i64::MAX, 1)] {
            let refused = range(required, limit).unwrap_err();
            assert_eq!(
                refused.code(),
                tonic::Code::OutOfRange,
                "{required}-{limit}"
            );
        }
        let refused = range(-1, 0).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn a_volume_that_is_there_fits_or_not() {
        let asked = range(8192, 16384).unwrap();
        let fits = [4096, 8192, 16384, 20480].map(|bytes| asked.has(bytes));
        assert_eq!(fits, [false, true, true, false]);
    }
}
