//! What a node costs while a hundred queue pairs are connected and nobody asks for anything.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};

use crate::served;

const CONTROLLERS: usize = 10;
const IO_QUEUES_EACH: u16 = 9;
const MEASURED: Duration = Duration::from_secs(20);

/// What was found.
pub struct Idle {
    /// Connected queue pairs, admin queues included.
    pub queue_pairs: usize,
    /// Processor time of the node over wall time, in percent of one core.
    pub percent: f64,
}

impl fmt::Display for Idle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Idle {
            queue_pairs,
            percent,
        } = self;
        write!(
            formatter,
            "Idle with {queue_pairs} queue pairs: {percent:.2}% of one core"
        )
    }
}

/// Connects, waits, and reads the node's processor time before and after.
pub fn measure(directory: &Path, file: &Path) -> Result<Idle> {
    let node = served::start(directory, file)?;
    let address: SocketAddr = node.nvme.parse()?;
    let subsystem = node.volume_nqn("null")?;
    let reactor = Reactor::io_uring(ReactorConfig::default())?;
    let percent = reactor.run(async {
        let mut controllers = Vec::new();
        for number in 0..CONTROLLERS {
            let mut options =
                ConnectOptions::new(format!("nqn.2014-08.org.nvmexpress:idle-host-{number}"));
            options.io_queues = IO_QUEUES_EACH;
            controllers.push(Controller::connect(address, &subsystem, options).await?);
        }
        reactor::sleep(Duration::from_secs(1)).await;
        let (before, started) = (node.processor_time("")?, Instant::now());
        reactor::sleep(MEASURED).await;
        let used = node.processor_time("")? - before;
        let percent = 100.0 * used.as_secs_f64() / started.elapsed().as_secs_f64();
        for controller in controllers {
            controller.disconnect().await;
        }
        anyhow::Ok(percent)
    })?;
    Ok(Idle {
        queue_pairs: CONTROLLERS * (1 + usize::from(IO_QUEUES_EACH)),
        percent,
    })
}
