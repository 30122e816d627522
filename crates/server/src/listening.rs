//! [`Listening`]: the REST API's address, taken at once or, while hosts are served, as soon as it
//! can be.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::control::{Control, Means};
use crate::state;

/// How often an address is tried that could not be taken.
const PERIOD: Duration = Duration::from_secs(2);

/// Where the REST API listens, or is going to.
pub struct Listening {
    address: SocketAddr,
    tried: io::Result<TcpListener>,
}

impl Listening {
    /// Takes `address`. A node that was there before, whose hosts wait for it, starts without one
    /// that another has or that this machine does not have yet.
    ///
    /// # Errors
    /// Why it cannot be taken, where that does not pass, or where there is nothing to serve.
    pub async fn start(address: SocketAddr, state_directory: &Path) -> io::Result<Listening> {
        let tried = TcpListener::bind(address).await;
        match tried {
            Ok(listener) => Ok(Listening {
                address: listener.local_addr()?,
                tried: Ok(listener),
            }),
            Err(error) if passes(&error) && state_directory.join(state::FILE_NAME).exists() => {
                Ok(Listening {
                    address,
                    tried: Err(error),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The address, with its port once it is taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it is not taken.
    pub fn problem(&self) -> Option<String> {
        self.tried.as_ref().err().map(io::Error::to_string)
    }

    /// Waits until it is taken; meanwhile `control` has a problem.
    pub async fn listener(self, control: &Control) -> TcpListener {
        let Listening { address, mut tried } = self;
        loop {
            match tried {
                Ok(listener) => {
                    control.note_problem(Means::Api, None);
                    return listener;
                }
                Err(error) => {
                    let problem = format!(
                        "the REST API cannot listen at {address}, hosts are served: {error}"
                    );
                    control.note_problem(Means::Api, Some(problem));
                }
            }
            tokio::time::sleep(PERIOD).await;
            tried = TcpListener::bind(address).await;
        }
    }
}

/// Whether waiting can help where an address could not be taken.
pub fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable
    )
}
