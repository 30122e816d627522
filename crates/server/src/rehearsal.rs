//! The faults that a start would find with settings, found without one.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rustix::fs::Access;

use crate::config::{Config, ConfigError, Protocol};
use crate::http::Tls;
use crate::listening::passes;
use crate::state;

/// Refuses settings with which a node would not start on this machine. An address that is in use
/// is no fault: the node itself may have it. Nor is anything that a node which was there before
/// starts with: it is there for its hosts, whatever it cannot write or be managed through.
///
/// # Errors
/// The first setting that is wrong, by name.
pub fn rehearse(config: &Config) -> Result<(), ConfigError> {
    check(config).map_err(ConfigError::Refused)
}

fn check(config: &Config) -> Result<(), String> {
    let directory = &config.state_directory;
    let at = |problem: String| format!("state_directory {}: {problem}", directory.display());
    let was_there = check_state(&directory.join(state::FILE_NAME)).map_err(at)?;
    if !was_there {
        check_directory(directory).map_err(at)?;
    }
    config.state_keys().map_err(|error| error.to_string())?;
    for port in &config.nvme.ports {
        check_address("nvme.ports.listen", port.listen.0, |_| false)?;
    }
    check_address("api.listen", config.api.listen.get_ref().0, |error| {
        was_there && passes(error)
    })?;
    if config.api.protocol == Protocol::Https {
        let given = config.api.certificate_files();
        Tls::check(given.as_ref(), directory).map_err(|error| match given {
            Some(_) => format!("api.certificate and api.certificate_key: {error}"),
            None => at(error.to_string()),
        })?;
    }
    let cores: Vec<usize> = config.node.cores.iter().copied().map(usize::from).collect();
    node::check_machine(&cores).map_err(|error| format!("node.cores: {error}"))
}

/// Whether the node can keep files in a directory, or make it.
fn check_directory(path: &Path) -> Result<(), String> {
    let mut there = path;
    loop {
        match fs::metadata(there) {
            Ok(found) if found.is_dir() => break,
            Ok(_) => return Err(format!("{} is no directory", there.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let above = there.parent().unwrap_or(Path::new(""));
                there = if above.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    above
                };
            }
            Err(error) => return Err(format!("{}: {error}", there.display())),
        }
    }
    // Only trying tells: permissions are not all that may be in the way.
    let tried = there.join(format!(".flashyard-check-{}", std::process::id()));
    let made = fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried));
    made.map_err(|error| format!("{}: {error}", there.display()))
}

/// Whether there is a database, which the node can go on with.
fn check_state(path: &Path) -> Result<bool, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(said(&"is no file")),
        // One that cannot be written is read.
        Ok(_) => match rustix::fs::access(path, Access::READ_OK) {
            Ok(()) => Ok(true),
            Err(error) => Err(said(&error)),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(said(&error)),
    }
}

/// Whether this machine has an address, and the node may listen there.
fn check_address(
    setting: &str,
    address: SocketAddr,
    is_no_fault: impl Fn(&io::Error) -> bool,
) -> Result<(), String> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() != ErrorKind::AddrInUse && !is_no_fault(&error) => {
            Err(format!("{setting} {address}: {error}"))
        }
        _ => Ok(()),
    }
}
