//! The host library: connects to a volume, writes a block and reads it back.
//!
//! ```text
//! cargo run -p examples --bin host_library -- \
//!     127.0.0.1:4420 nqn.2026-11.example.flashyard:own-device
//! ```

use std::env::args;
use std::net::SocketAddr;

use anyhow::{Context, ensure};
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:2b1c7a4e-53f7-4a0e-9c7b-0d8f4f7a1c55";

fn main() -> anyhow::Result<()> {
    let mut arguments = args().skip(1);
    let usage = "arguments: ADDRESS:PORT SUBSYSTEM-NQN";
    let address: SocketAddr = arguments.next().context(usage)?.parse()?;
    let subsystem = arguments.next().context(usage)?;
    Reactor::io_uring(ReactorConfig::default())?.run(async {
        let controller =
            Controller::connect(address, &subsystem, ConnectOptions::new(HOST)).await?;
        let namespace = controller.namespace(1).await?;
        let geometry = namespace.geometry();
        println!(
            "{} blocks of {} bytes",
            geometry.block_count, geometry.block_bytes
        );

        // A buffer travels with its request and comes back with the result, also after an error.
        let mut buffer = Buffer::zeroed(geometry.block_bytes as usize);
        buffer[..5].copy_from_slice(b"hello");
        let (mut buffer, written) = namespace.write(Lba(7), buffer, Durability::Durable).await;
        written?;

        buffer.fill(0);
        let (buffer, read) = namespace.read(Lba(7), buffer).await;
        read?;
        ensure!(
            &buffer[..5] == b"hello",
            "the block is not what was written"
        );
        println!("block 7 reads back");
        controller.disconnect().await;
        Ok(())
    })
}
