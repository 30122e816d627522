//! What the tests with real Linux kernels stand on: fetching Debian's kernels (`debian`), packing
//! an initramfs of the host's tools around them (`initramfs`, `cpio`), running it in QEMU and
//! speaking to the shell inside (`guest`), and the storage node under test (`node`). The scenarios
//! themselves are in `tests/`.
//!
//! ```text
//! test -> Guest: "run this script" over the second serial port -> agent.sh -> exit code and output
//!      -> Node:  the flashyard binary, started, killed and started again on this machine
//! guest's kernel --NVMe/TCP--> 10.0.2.2 (QEMU's user network) --> 127.0.0.1 of this machine
//! ```

mod command;
mod cpio;
mod debian;
mod guest;
mod initramfs;
mod node;

pub use debian::{Origin, Suite};
pub use guest::{Guest, Output};
pub use initramfs::Image;
pub use node::Node;
