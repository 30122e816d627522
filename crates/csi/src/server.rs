//! The process: a socket, and the services on it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::calls::Service;
use crate::controller::{ControllerSettings, Work};
use crate::identity::Plugin;
use crate::node::{self, NodeSettings};
use crate::proto::controller_server::ControllerServer;
use crate::proto::group_controller_server::GroupControllerServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::node_server::NodeServer;
use crate::proto::snapshot_metadata_server::SnapshotMetadataServer;

/// Where the services are to be found: the path of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

/// Why a text is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {0:?}; allowed: unix:///ABSOLUTE/PATH")]
pub struct EndpointError(String);

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unix://{}", self.0.display())
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let path = text.strip_prefix("unix:").unwrap_or(text);
        let path = path.strip_prefix("//").unwrap_or(path);
        match path.starts_with('/') {
            true => Ok(Endpoint(path.into())),
            false => Err(EndpointError(text.chars().take(256).collect())),
        }
    }
}

/// What a process serves, beside who it is.
pub struct Services {
    /// The controller's services.
    pub controller: Option<ControllerSettings>,
    /// The service of a host.
    pub node: Option<NodeSettings>,
}

/// Serves until the process is told to end.
///
/// # Errors
/// When the socket cannot be made, or breaks.
pub fn serve(endpoint: &Endpoint, services: Services) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(answer(&endpoint.0, services))
}

async fn answer(path: &Path, services: Services) -> io::Result<()> {
    let listener = listen(path)?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let has_controller = services.controller.is_some();
    let work = services
        .controller
        .map(|settings| Arc::new(Work::new(settings)));
    let calls = work.clone().map(Service);
    let groups = work.clone().map(Service);
    let metadata = work.map(Service);
    let hosts = services.node.map(node::Work::new);
    let hosts = hosts.map(|work| Service(Arc::new(work)));
    tracing::info!(socket = %path.display(), "serving");
    let served = Server::builder()
        .add_service(IdentityServer::new(Plugin { has_controller }))
        .add_optional_service(calls.map(ControllerServer::new))
        .add_optional_service(groups.map(GroupControllerServer::new))
        .add_optional_service(metadata.map(SnapshotMetadataServer::new))
        .add_optional_service(hosts.map(NodeServer::new))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        })
        .await;
    served.map_err(io::Error::other)
}

/// Makes the socket, in place of one that an earlier process left.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_socket_by_its_absolute_path() {
        let path = Endpoint("/run/csi.sock".into());
        for text in [
            "unix:///run/csi.sock",
            "unix:/run/csi.sock",
            "/run/csi.sock",
        ] {
            assert_eq!(text.parse(), Ok(path.clone()), "{text}");
        }
        for text in [
            "",
            "unix://",
            "unix:csi.sock",
            "tcp://127.0.0.1:1",
            "csi.sock",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
