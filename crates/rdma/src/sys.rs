//! What the two libraries exchange, as C lays it out (rdma-core 44, the same since version 17).
//! Structs that only the libraries make are cut behind the last field that is looked at.

use std::ffi::{c_int, c_uint, c_void};

/// `rdma_event_channel`.
#[repr(C)]
pub struct EventChannel {
    pub descriptor: c_int,
}

/// `rdma_cm_id`, up to the addresses of its route.
#[repr(C)]
pub struct CmId {
    pub verbs: *mut Context,
    pub channel: *mut EventChannel,
    pub context: *mut c_void,
    pub queue_pair: *mut Qp,
    pub source: libc::sockaddr_storage,
    pub destination: libc::sockaddr_storage,
}

/// `rdma_conn_param`.
#[repr(C)]
pub struct ConnectionParameters {
    pub private_data: *const c_void,
    pub private_data_bytes: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub not_ready_retry_count: u8,
    pub shared_receive_queue: u8,
    pub queue_pair_number: u32,
}

/// `rdma_cm_event`, with the part that connections have.
#[repr(C)]
pub struct CmEvent {
    pub id: *mut CmId,
    pub listen_id: *mut CmId,
    pub event: c_uint,
    pub status: c_int,
    pub connection: ConnectionParameters,
}

pub const EVENT_ADDRESS_RESOLVED: c_uint = 0;
pub const EVENT_ADDRESS_ERROR: c_uint = 1;
pub const EVENT_ROUTE_RESOLVED: c_uint = 2;
pub const EVENT_ROUTE_ERROR: c_uint = 3;
pub const EVENT_CONNECT_REQUEST: c_uint = 4;
pub const EVENT_UNREACHABLE: c_uint = 7;
pub const EVENT_REJECTED: c_uint = 8;
pub const EVENT_ESTABLISHED: c_uint = 9;
pub const EVENT_TIMEWAIT_EXIT: c_uint = 15;
/// `RDMA_PS_TCP`: reliable connections.
pub const PORT_SPACE_TCP: c_uint = 0x0106;
/// `RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`: what the other end asked for, as far as the device
/// has it.
pub const DEPTH_AS_ASKED: u8 = 0xff;

/// `ibv_context`, up to the functions of its driver.
#[repr(C)]
pub struct Context {
    pub device: *mut c_void,
    pub operations: Operations,
}

type Unused = *const c_void;

/// `ibv_context_ops`: what `ibv_poll_cq` and its kin, inline functions, call.
#[repr(C)]
pub struct Operations {
    unused: [Unused; 11],
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut WorkCompletion) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    unused_cq: [Unused; 7],
    post_srq_recv: Unused,
    unused_qp: [Unused; 4],
    pub post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendRequest, *mut *mut SendRequest) -> c_int>,
    pub post_recv: Option<
        unsafe extern "C" fn(*mut Qp, *mut ReceiveRequest, *mut *mut ReceiveRequest) -> c_int,
    >,
}

/// `ibv_pd`, `ibv_comp_channel`, `ibv_cq` and `ibv_qp`, up to what is looked at.
#[repr(C)]
pub struct Pd {
    pub context: *mut Context,
}

/// `ibv_comp_channel`.
#[repr(C)]
pub struct CompletionChannel {
    pub context: *mut Context,
    pub descriptor: c_int,
}

/// `ibv_cq`.
#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
}

/// `ibv_qp`.
#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
}

/// `ibv_mr`.
#[repr(C)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub address: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub local_key: u32,
    pub remote_key: u32,
}

/// `ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WorkCompletion {
    pub id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_error: u32,
    pub bytes: u32,
    pub immediate: u32,
    pub queue_pair: u32,
    pub source_queue_pair: u32,
    pub flags: u32,
    pub pkey_index: u16,
    pub source_lid: u16,
    pub service_level: u8,
    pub path_bits: u8,
}

/// `ibv_sge`.
#[repr(C)]
pub struct Piece {
    pub address: u64,
    pub length: u32,
    pub local_key: u32,
}

/// `ibv_send_wr`.
#[repr(C)]
pub struct SendRequest {
    pub id: u64,
    pub next: *mut SendRequest,
    pub pieces: *mut Piece,
    pub piece_count: c_int,
    pub opcode: c_uint,
    pub flags: c_uint,
    /// `invalidate_rkey` of a send with invalidate.
    pub invalidate: u32,
    pub remote_address: u64,
    pub remote_key: u32,
    /// The rest of its three unions.
    pub rest: [u64; 9],
}

pub const OPCODE_WRITE: c_uint = 0;
pub const OPCODE_SEND: c_uint = 2;
pub const OPCODE_READ: c_uint = 4;
pub const OPCODE_SEND_INVALIDATE: c_uint = 9;
pub const FLAG_SIGNALED: c_uint = 1 << 1;
pub const FLAG_INLINE: c_uint = 1 << 3;
pub const ACCESS_LOCAL_WRITE: c_int = 1;
pub const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub const ACCESS_REMOTE_READ: c_int = 1 << 2;
/// `IBV_QPT_RC`.
pub const RELIABLE_CONNECTED: c_uint = 2;

/// `ibv_recv_wr`.
#[repr(C)]
pub struct ReceiveRequest {
    pub id: u64,
    pub next: *mut ReceiveRequest,
    pub pieces: *mut Piece,
    pub piece_count: c_int,
}

/// `ibv_qp_init_attr`.
#[repr(C)]
pub struct QpAttributes {
    pub context: *mut c_void,
    pub send_cq: *mut Cq,
    pub receive_cq: *mut Cq,
    pub shared_receive_queue: *mut c_void,
    pub sends_max: u32,
    pub receives_max: u32,
    pub send_pieces_max: u32,
    pub receive_pieces_max: u32,
    pub inline_bytes_max: u32,
    pub kind: c_uint,
    pub signal_all: c_int,
}

const _: () = {
    assert!(size_of::<Operations>() == 27 * 8);
    assert!(std::mem::offset_of!(Operations, post_send) == 200);
    assert!(std::mem::offset_of!(Operations, poll_cq) == 88);
    assert!(size_of::<WorkCompletion>() == 48);
    assert!(size_of::<SendRequest>() == 128);
    assert!(std::mem::offset_of!(SendRequest, remote_address) == 40);
    assert!(size_of::<QpAttributes>() == 64);
    assert!(std::mem::offset_of!(CmEvent, connection) == 24);
    assert!(std::mem::offset_of!(CmId, source) == 32);
    assert!(std::mem::offset_of!(CmId, destination) == 160);
};
