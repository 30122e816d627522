//! One drive: what the layers above keep their blocks on.
//!
//! In this room: [`Drive`], a closed choice of a file or block device, memory, a null device that
//! keeps nothing, an emulated one (a model of `ssd` with real data, paced in real time), and a
//! faulty one for tests; the namespaces of this machine's own drives ([`NvmeDrive`]);
//! [`Emulate512`], which shows any device of 4 KiB blocks as one of 512-byte blocks; what a drive
//! holds that something else wrote ([`contents()`]), and how that is made to go ([`wipe`]). Not in
//! this room: anything that knows more than one drive. Every drive here implements
//! [`BlockDevice`](block::BlockDevice) and passes its conformance test on both drivers of the
//! reactor.

mod contents;
mod drive;
mod emulate512;
mod emulated;
mod emulated_namespace;
mod emulated_store;
mod faulty;
mod file;
mod flush_group;
mod loop_device;
mod memory;
mod null;
mod nvme_drive;
mod open_error;
mod range_lock;
mod shared;
mod transfer;

pub use contents::{Contents, contents, contents_before, forget, wipe, wipe_before};
pub use drive::Drive;
pub use emulate512::Emulate512;
pub use emulated::{
    EmulatedDrive, EmulatedError, EmulatedOptions, NamespaceState, Payload, Punctuality,
};
pub use emulated_namespace::EmulatedNamespace;
pub use faulty::{FaultControl, FaultyDrive, Operation};
pub use file::{FileDrive, FileOptions, SharedFileDrive};
pub use memory::MemoryDrive;
pub use null::NullDrive;
pub use nvme_drive::{NvmeDrive, NvmeError, NvmeNamespace};
pub use open_error::OpenError;
pub use shared::SharedDrive;
