//! Control of the simulated driver, for tests.
//!
//! Under [`Reactor::simulated`](crate::Reactor::simulated) time is virtual and jumps to the next
//! timer or event when nothing is ready; which ready task runs next, how long a file or network
//! operation takes and how a stream is cut into pieces are drawn from the seed. One seed gives one
//! run, which [`trace_hash`] identifies. The functions here act on the current simulated reactor
//! and panic anywhere else, except [`is_simulated`].

mod files;
mod network;
mod random;
mod world;

use std::ops::Range;
use std::time::Duration;

use crate::context;
use crate::net::TcpStream;

pub(crate) use files::SimulatedFile;
pub(crate) use network::{Endpoint, SimulatedListener, connect};
#[cfg(test)]
pub(crate) use random::SplitMix;
pub(crate) use world::World;

/// How the simulated network behaves.
#[derive(Clone, Debug)]
pub struct NetworkModel {
    /// The time a piece of a stream travels, drawn evenly from this range.
    pub latency: Range<Duration>,
    /// A stream is cut into pieces of one to this many bytes.
    pub fragment_bytes_max: usize,
    /// Bytes that may be on their way in one direction before `send` waits.
    pub window_bytes: usize,
}

impl Default for NetworkModel {
    /// 10 to 200 microseconds, pieces of up to 64 KiB, a window of 256 KiB.
    fn default() -> NetworkModel {
        NetworkModel {
            latency: Duration::from_micros(10)..Duration::from_micros(200),
            fragment_bytes_max: 64 << 10,
            window_bytes: 256 << 10,
        }
    }
}

/// Whether the current reactor is a simulated one; false outside a reactor.
pub fn is_simulated() -> bool {
    context::try_current().is_some_and(|context| context.world().is_some())
}

fn with_world<T>(with: impl FnOnce(&World) -> T) -> T {
    context::with_current(|context| {
        with(
            context
                .world()
                .expect("reactor::sim is for simulated reactors"),
        )
    })
}

/// The seed of the current simulation.
pub fn seed() -> u64 {
    with_world(World::seed)
}

/// A digest of everything that has happened so far, and in which order.
pub fn trace_hash() -> u64 {
    with_world(World::trace_hash)
}

/// A number below `bound` from the simulation's generator.
pub fn random_below(bound: u64) -> u64 {
    with_world(|world| world.random_below(bound))
}

/// Has files that are made from now on be in the page cache alone, as on a file system without
/// O_DIRECT: each transfer is copied in two parts, one after the other.
pub fn set_page_cached(page_cached: bool) {
    with_world(|world| world.files().set_page_cached(page_cached));
}

/// Replaces the network model; what is on its way stays as it is.
pub fn set_network(model: NetworkModel) {
    with_world(|world| world.network().set_model(model));
}

/// Breaks a connection: both ends see `ConnectionReset`, what is on its way is lost.
///
/// # Panics
/// When the stream is not of this simulation.
pub fn reset(stream: &TcpStream) {
    let endpoint = stream
        .simulated()
        .expect("a stream of the simulated network");
    with_world(|world| network::reset(world, endpoint));
}

/// Breaks every connection of the simulated network.
pub fn reset_all() {
    with_world(|world| {
        for endpoint in world.network().open_endpoints() {
            network::reset(world, &endpoint);
        }
    });
}

/// While true, nothing is delivered; what is on its way arrives once this is false again.
pub fn set_partitioned(partitioned: bool) {
    with_world(|world| world.set_partitioned(partitioned));
}

/// Fails the run, naming the seed, once this much virtual time has passed from now on. Against
/// runs that never end because timers keep them going.
pub fn set_time_limit(limit: Duration) {
    with_world(|world| world.set_time_limit(limit));
}
