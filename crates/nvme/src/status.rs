//! Completion status (NVMe 2.0 §4.6) and what it means to storage.

use block::IoError;

open_enum! {
    /// The status field of a completion without its phase bit: SC in bits 7:0, SCT in bits 10:8,
    /// More in bit 13, Do Not Retry in bit 14.
    pub struct Status(u16);
    /// Done.
    SUCCESS = 0x000;
    /// The opcode is not supported.
    INVALID_OPCODE = 0x001;
    /// A field of the command is reserved or not supported.
    INVALID_FIELD = 0x002;
    /// The command identifier is in use.
    COMMAND_ID_CONFLICT = 0x003;
    /// Data or metadata could not be transferred.
    DATA_TRANSFER_ERROR = 0x004;
    /// Aborted due to power loss notification.
    ABORTED_POWER_LOSS = 0x005;
    /// Internal error of the controller.
    INTERNAL_ERROR = 0x006;
    /// Aborted as requested.
    ABORT_REQUESTED = 0x007;
    /// Aborted because the submission queue was deleted.
    ABORTED_QUEUE_DELETION = 0x008;
    /// Aborted because the other fused command failed.
    ABORTED_FAILED_FUSED = 0x009;
    /// Aborted because the other fused command is missing.
    ABORTED_MISSING_FUSED = 0x00a;
    /// The namespace or its format is invalid.
    INVALID_NAMESPACE = 0x00b;
    /// Commands out of order.
    COMMAND_SEQUENCE_ERROR = 0x00c;
    /// An SGL segment is invalid.
    INVALID_SGL_SEGMENT = 0x00d;
    /// Too many SGL descriptors.
    INVALID_SGL_COUNT = 0x00e;
    /// The SGL does not cover the data.
    DATA_SGL_LENGTH_INVALID = 0x00f;
    /// The metadata SGL does not cover the metadata.
    METADATA_SGL_LENGTH_INVALID = 0x010;
    /// The SGL descriptor type is not supported.
    SGL_TYPE_INVALID = 0x011;
    /// The PRP offset is invalid.
    PRP_OFFSET_INVALID = 0x013;
    /// Larger than the atomic write unit.
    ATOMIC_WRITE_UNIT_EXCEEDED = 0x014;
    /// Denied for lack of access rights.
    OPERATION_DENIED = 0x015;
    /// The SGL offset is invalid.
    SGL_OFFSET_INVALID = 0x016;
    /// The host identifier is already in use in another format.
    HOST_IDENTIFIER_INCONSISTENT = 0x018;
    /// The keep alive timer expired.
    KEEP_ALIVE_EXPIRED = 0x019;
    /// The keep alive timeout is invalid.
    KEEP_ALIVE_INVALID = 0x01a;
    /// Another reservation holder aborted the command.
    ABORTED_PREEMPT = 0x01b;
    /// SGL data block granularity is invalid.
    SGL_GRANULARITY_INVALID = 0x01e;
    /// The namespace is write protected.
    NAMESPACE_WRITE_PROTECTED = 0x020;
    /// Interrupted; to be retried.
    COMMAND_INTERRUPTED = 0x021;
    /// A transient transport error.
    TRANSIENT_TRANSPORT_ERROR = 0x022;
    /// The host has given no identifier by which it could be told from others.
    HOST_IDENTIFIER_NOT_INITIALIZED = 0x027;
    /// LBA out of range.
    LBA_OUT_OF_RANGE = 0x080;
    /// No capacity left.
    CAPACITY_EXCEEDED = 0x081;
    /// The namespace is not ready.
    NAMESPACE_NOT_READY = 0x082;
    /// A reservation forbids it.
    RESERVATION_CONFLICT = 0x083;
    /// The queue identifier is invalid.
    INVALID_QUEUE_ID = 0x101;
    /// The queue size is invalid.
    INVALID_QUEUE_SIZE = 0x102;
    /// Too many Abort commands.
    ABORT_LIMIT_EXCEEDED = 0x103;
    /// Too many Asynchronous Event Requests.
    EVENT_REQUEST_LIMIT_EXCEEDED = 0x105;
    /// The log page is invalid or not supported.
    INVALID_LOG_PAGE = 0x109;
    /// The LBA format is invalid.
    INVALID_FORMAT = 0x10a;
    /// The feature cannot be saved.
    FEATURE_NOT_SAVEABLE = 0x10d;
    /// The feature cannot be changed.
    FEATURE_NOT_CHANGEABLE = 0x10e;
    /// The feature has no scope of one namespace.
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10f;
    /// Not enough unallocated capacity for the namespace.
    NAMESPACE_INSUFFICIENT_CAPACITY = 0x115;
    /// No namespace identifier is left.
    NAMESPACE_IDENTIFIER_UNAVAILABLE = 0x116;
    /// The namespace is attached to the controller already.
    NAMESPACE_ALREADY_ATTACHED = 0x118;
    /// The namespace is private and attached to another controller.
    NAMESPACE_IS_PRIVATE = 0x119;
    /// The namespace is not attached to the controller.
    NAMESPACE_NOT_ATTACHED = 0x11a;
    /// Thin provisioning is not supported.
    THIN_PROVISIONING_NOT_SUPPORTED = 0x11b;
    /// The controller list is invalid.
    CONTROLLER_LIST_INVALID = 0x11c;
    /// No controller has that identifier.
    INVALID_CONTROLLER_ID = 0x11f;
    /// The I/O command set is not one of the controller's.
    INVALID_COMMAND_SET = 0x12c;
    /// Cross-Controller Reset: this controller has one of that controller in progress.
    CROSS_RESET_IN_PROGRESS = 0x13f;
    /// Cross-Controller Reset: the log page of these is full.
    CROSS_RESET_LOG_FULL = 0x140;
    /// Cross-Controller Reset: as many are in progress as CCRL allows.
    CROSS_RESET_LIMIT_EXCEEDED = 0x141;
    /// Fabrics Connect: the record format is not supported.
    CONNECT_INCOMPATIBLE_FORMAT = 0x180;
    /// Fabrics Connect: the controller is busy.
    CONNECT_CONTROLLER_BUSY = 0x181;
    /// Fabrics Connect: invalid parameters; the result says which.
    CONNECT_INVALID_PARAMETERS = 0x182;
    /// Fabrics Connect: restart discovery.
    CONNECT_RESTART_DISCOVERY = 0x183;
    /// Fabrics Connect: the host may not connect.
    CONNECT_INVALID_HOST = 0x184;
    /// Fabrics Disconnect: the queue's type is invalid for it.
    INVALID_QUEUE_TYPE = 0x185;
    /// Copy: a range is to be copied fast, or not at all.
    FAST_COPY_NOT_POSSIBLE = 0x186;
    /// Copy: a source overlaps what is written.
    OVERLAPPING_RANGE = 0x187;
    /// Discovery: restart discovery.
    DISCOVER_RESTART = 0x190;
    /// The queue must be authenticated first.
    AUTHENTICATION_REQUIRED = 0x191;
    /// The medium refused the write.
    WRITE_FAULT = 0x280;
    /// The data could not be read.
    UNRECOVERED_READ_ERROR = 0x281;
    /// Compare found a difference.
    COMPARE_FAILURE = 0x285;
    /// Denied for lack of access rights on media.
    ACCESS_DENIED = 0x286;
    /// Deallocated or unwritten block read where that is an error.
    UNWRITTEN_BLOCK = 0x287;
    /// Internal path error.
    INTERNAL_PATH_ERROR = 0x300;
    /// ANA: the group is lost for good on this path.
    ANA_PERSISTENT_LOSS = 0x301;
    /// ANA: the group is not accessible on this path.
    ANA_INACCESSIBLE = 0x302;
    /// ANA: the group is changing state.
    ANA_TRANSITION = 0x303;
    /// Host: the path to the controller failed.
    HOST_PATH_ERROR = 0x370;
    /// Host: aborted by the host.
    HOST_ABORTED = 0x371;
}

const DO_NOT_RETRY: u16 = 1 << 14;
const MORE: u16 = 1 << 13;
const RETRY_DELAY_SHIFT: u16 = 11;

impl Status {
    /// Invalid Field in an NVM command: conflicting attributes (same number as a Connect status).
    pub const CONFLICTING_ATTRIBUTES: Status = Status(0x180);
    /// Copy beyond what a namespace says it takes (same number as a Connect status).
    pub const COMMAND_SIZE_LIMIT_EXCEEDED: Status = Status(0x183);
    /// Copy from a namespace with blocks of another size (same number as a Disconnect status).
    pub const INCOMPATIBLE_NAMESPACE: Status = Status(0x185);

    /// The same status with the Do Not Retry bit.
    pub const fn do_not_retry(self) -> Status {
        Status(self.0 | DO_NOT_RETRY)
    }

    /// True when the host must not submit the command again.
    pub fn is_do_not_retry(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// The same status with the first of the controller's retry delays (CRDT1), for hosts that
    /// have said that they keep to it (ACRE).
    pub const fn after_first_delay(self) -> Status {
        Status(self.0 | 1 << RETRY_DELAY_SHIFT)
    }

    /// Which of the controller's retry delays the host is to wait; 0 is none.
    pub fn retry_delay(self) -> u16 {
        self.0 >> RETRY_DELAY_SHIFT & 0b11
    }

    /// True when the error log says more about it.
    pub fn has_more(self) -> bool {
        self.0 & MORE != 0
    }

    /// The status code and type alone, without retry delay, More and Do Not Retry.
    pub fn code(self) -> Status {
        Status(self.0 & 0x7ff)
    }

    /// True for success.
    pub fn is_success(self) -> bool {
        self.code() == Status::SUCCESS
    }

    /// The field as it stands in a completion: shifted above the phase bit.
    pub fn wire(self) -> u16 {
        self.0 << 1
    }

    /// From the field of a completion, dropping the phase bit.
    pub fn from_wire(field: u16) -> Status {
        Status(field >> 1)
    }

    /// What a host's block layer makes of it; `Ok` for success.
    pub fn to_io_result(self) -> Result<(), IoError> {
        Err(match self.code() {
            Status::SUCCESS => return Ok(()),
            Status::LBA_OUT_OF_RANGE => IoError::OutOfRange,
            Status::INVALID_FIELD
            | Status::INVALID_OPCODE
            | Status::COMMAND_SIZE_LIMIT_EXCEEDED
            | Status::INCOMPATIBLE_NAMESPACE
            | Status::FAST_COPY_NOT_POSSIBLE
            | Status::OVERLAPPING_RANGE => IoError::InvalidRequest,
            Status::CAPACITY_EXCEEDED => IoError::CapacityExceeded,
            Status::UNRECOVERED_READ_ERROR => IoError::UnrecoveredRead,
            Status::WRITE_FAULT => IoError::WriteFault,
            Status::COMPARE_FAILURE => IoError::CompareFailure,
            Status::NAMESPACE_WRITE_PROTECTED => IoError::WriteProtected,
            Status::NAMESPACE_NOT_READY | Status::ANA_TRANSITION => IoError::NotReady,
            Status::INTERNAL_PATH_ERROR
            | Status::INVALID_NAMESPACE
            | Status::ANA_INACCESSIBLE
            | Status::ANA_PERSISTENT_LOSS
            | Status::HOST_PATH_ERROR => IoError::DeviceGone,
            Status::ABORT_REQUESTED | Status::ABORTED_QUEUE_DELETION | Status::HOST_ABORTED => {
                IoError::Aborted
            }
            _ => IoError::Internal,
        })
    }
}

impl From<IoError> for Status {
    /// Retrying helps for errors that can pass; the others carry Do Not Retry.
    fn from(error: IoError) -> Status {
        match error {
            IoError::OutOfRange => Status::LBA_OUT_OF_RANGE.do_not_retry(),
            IoError::InvalidRequest => Status::INVALID_FIELD.do_not_retry(),
            IoError::CapacityExceeded => Status::CAPACITY_EXCEEDED.do_not_retry(),
            IoError::UnrecoveredRead => Status::UNRECOVERED_READ_ERROR.do_not_retry(),
            IoError::WriteFault => Status::WRITE_FAULT.do_not_retry(),
            IoError::CompareFailure => Status::COMPARE_FAILURE.do_not_retry(),
            IoError::WriteProtected => Status::NAMESPACE_WRITE_PROTECTED.do_not_retry(),
            IoError::NotReady => Status::NAMESPACE_NOT_READY,
            IoError::DeviceGone => Status::INTERNAL_PATH_ERROR,
            IoError::Aborted => Status::ABORT_REQUESTED,
            IoError::Internal => Status::INTERNAL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume seen through a fabric reports the error the device reported.
    #[test]
    fn every_device_error_survives_the_wire() {
        let errors = [
            IoError::OutOfRange,
            IoError::InvalidRequest,
            IoError::CapacityExceeded,
            IoError::UnrecoveredRead,
            IoError::WriteFault,
            IoError::CompareFailure,
            IoError::WriteProtected,
            IoError::NotReady,
            IoError::DeviceGone,
            IoError::Aborted,
            IoError::Internal,
        ];
        for error in errors {
            let wire = Status::from(error).wire();
            assert_eq!(Status::from_wire(wire).to_io_result(), Err(error));
        }
        assert_eq!(Status::SUCCESS.to_io_result(), Ok(()));
    }

    #[test]
    fn unknown_values_survive_and_print() {
        let status = Status::from_wire(0x7ffe);
        assert_eq!(status.wire(), 0x7ffe);
        assert_eq!(format!("{:?}", Status(0x3ff)), "Status(0x3ff)");
        assert_eq!(
            format!("{:?}", Status::INVALID_FIELD),
            "Status(INVALID_FIELD)"
        );
    }
}
