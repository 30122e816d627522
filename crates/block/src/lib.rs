//! The contract the storage layers share.
//!
//! In this room: the [`BlockDevice`] trait that a drive, a pool's volume and a remote namespace all
//! implement, [`Revised`] for those whose blocks may all become others at once, the [`Buffer`] that
//! carries data between them, logical block addresses, [`Geometry`], [`IoError`] (each value is one
//! NVMe status) and the [`conformance`] test that every implementation passes. Not in this room:
//! any implementation, any I/O, any thread.
//!
//! A request travels down as `device.write(lba, buffer, durability).await` and the same buffer
//! travels back up with the result, so that steady-state I/O allocates nothing.

mod address;
mod buffer;
pub mod conformance;
mod device;
mod error;

pub use address::{BlockRange, Geometry, GeometryError, Lba};
pub use buffer::{BUFFER_ALIGNMENT, Buffer};
pub use device::{BlockDevice, Durability, Revised, write_joined};
pub use error::IoError;
