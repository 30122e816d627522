//! Between the kernel's FUSE requests and NVMe/TCP: both on one event loop, so that a request
//! changes threads only where the kernel itself makes it.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Geometry};
use initiator::{ConnectOptions, Controller, Endpoint, Namespace, Reconnect, TargetAddress};
use reactor::{Reactor, ReactorConfig};

use super::channel;
use super::file_system::Mounted;
use super::ring::{self, Served};
use super::state::{Requests, joined};
use super::{growth, news, protection};
use crate::output;

/// Commands in flight on the one queue.
const QUEUE_DEPTH: u16 = 512;

/// What becomes of a controller that is lost: it is waited for as long as by the kernel's host, and
/// tried for ever, for nobody else would bring the device back.
const RECONNECT: Reconnect = Reconnect {
    delay: Duration::from_secs(1),
    controller_loss_timeout: Duration::from_secs(600),
    afterwards: Some(Duration::from_secs(10)),
};

/// Why a volume is not served as a file.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error(transparent)]
    Start(#[from] reactor::StartError),
    #[error("{address}: {source}")]
    Target {
        address: String,
        source: initiator::Error,
    },
    #[error("serving a file at {}: {source}", mount.display())]
    Mount { mount: PathBuf, source: io::Error },
}

/// Serves the volume at `addresses`, which are paths to it, as a file at `mount` until that is
/// unmounted. When a controller is lost meanwhile, one by the next path is waited for. `ready`
/// is told the geometry once the volume can be used, and how requests come.
pub fn serve(
    addresses: &[TargetAddress],
    options: ConnectOptions,
    mount: PathBuf,
    ready: impl FnOnce(&Geometry, Requests) -> io::Result<()>,
) -> Result<(), BridgeError> {
    let config = ReactorConfig {
        wide_entries: ring::is_offered(),
        ..ReactorConfig::default()
    };
    let reactor = Reactor::io_uring(config)?;
    reactor.run(async move {
        let connected = connect(addresses, options).await;
        let (controller, namespace) = connected.map_err(|source| BridgeError::Target {
            address: joined(addresses),
            source,
        })?;
        let standing = mount.with_extension("standing");
        let (told, told_of) = (controller.clone(), namespace.clone());
        let news = async move { news::tell(told, told_of, &standing).await };
        let news = reactor::spawn(news);
        let _news = news.cancel_on_drop();
        let protected = namespace.is_write_protected();
        protection::set(&mount, protected).map_err(|error| BridgeError::Mount {
            mount: mount.clone(),
            source: io::Error::other(error),
        })?;
        let namespace = Rc::new(namespace);
        let following = growth::follow(&namespace, mount.clone());
        let served = serve_at(&mount, config.wide_entries, namespace, ready).await;
        drop(following);
        controller.disconnect().await;
        served.map_err(|source| BridgeError::Mount { mount, source })
    })
}

async fn serve_at<D: BlockDevice + 'static>(
    mount: &Path,
    ring: bool,
    device: Rc<D>,
    ready: impl FnOnce(&Geometry, Requests) -> io::Result<()>,
) -> io::Result<()> {
    let (mounted, served) = mounted(mount, ring, &device).await?;
    let requests = match served {
        Some(_) => Requests::IoUring,
        None => Requests::Read,
    };
    ready(&device.geometry(), requests)?;
    // Some are always read: what was forgotten and interrupted, and that all ends.
    let ended = channel::serve(&mounted.channel, &device).await;
    if let Some(served) = served {
        served.ended().await;
    }
    // What was acknowledged and may still be in a cache is made to last before we go.
    let _ = device.flush().await;
    ended
}

/// Mounts the file system, with entries in the kernel's rings if that is agreed on.
async fn mounted<D: BlockDevice + 'static>(
    mount: &Path,
    ring: bool,
    device: &Rc<D>,
) -> io::Result<(Mounted, Option<Served>)> {
    let mounted = Mounted::mount(mount, ring)?;
    if !mounted.over_ring {
        return Ok((mounted, None));
    }
    match Served::start(&mounted.channel, device).await {
        Ok(served) => Ok((mounted, Some(served))),
        Err(error) => {
            output::tell(&format_args!("flashyard: FUSE over io_uring: {error}"));
            drop(mounted);
            Ok((Mounted::mount(mount, false)?, None))
        }
    }
}

async fn connect(
    addresses: &[TargetAddress],
    mut options: ConnectOptions,
) -> Result<(Controller, Namespace), initiator::Error> {
    let paths: Vec<Endpoint> = addresses.iter().map(Endpoint::from).collect();
    let first = addresses.first();
    let nqn = first.map_or("", |first| first.subsystem_nqn.as_str());
    options.io_queues = 1;
    options.queue_depth = QUEUE_DEPTH;
    options.reconnect = Some(RECONNECT);
    let controller = Controller::connect_by(&paths, nqn, options).await?;
    let namespace_id = first.and_then(|first| first.namespace_id).unwrap_or(1);
    let namespace = controller.namespace(namespace_id).await?;
    Ok((controller, namespace))
}
