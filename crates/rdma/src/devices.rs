//! The addresses of this machine's RDMA devices, as the kernel tells them in sysfs. No library is
//! needed for that.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Where the kernel has a folder for each device.
pub const DEVICES: &str = "/sys/class/infiniband";

/// What `state` says of a port with a link (InfiniBand 1.4, 14.2.5.6).
const ACTIVE: &str = "4:";

/// The IP addresses of RoCE ports that have a link, IPv4 before IPv6; none of one link alone. They
/// come in the order of the devices' names. A machine without a device has none.
///
/// # Errors
/// When the kernel does not let its folders be read.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    below(Path::new(DEVICES))
}

fn below(devices: &Path) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for device in folder(devices)? {
        for port in folder(&device.join("ports"))? {
            if !word(&port.join("state"))?.starts_with(ACTIVE) {
                continue;
            }
            for entry in folder(&port.join("gids"))? {
                let address = address_of(&word(&entry)?);
                // Both versions of RoCE have an entry of one address.
                found.extend(address.filter(|address| !found.contains(address)));
            }
        }
    }
    found.sort_by_key(IpAddr::is_ipv6);
    Ok(found)
}

/// The address that a GID stands for (RoCEv2, A17.3.1.1): entries without one are zero.
fn address_of(gid: &str) -> Option<IpAddr> {
    let address: Ipv6Addr = gid.parse().ok()?;
    let of_no_use = address.is_unspecified() || address.is_unicast_link_local();
    (!of_no_use).then(|| IpAddr::from(address).to_canonical())
}

/// What a folder holds, by name; nothing where there is none.
fn folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
    // Numbers have as many digits as they need.
    paths.sort_by_cached_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(paths)
}

/// What a file says; nothing if it is gone, or has no value, as entries of a table may.
fn word(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {
            Ok(String::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port of a device with a state and a table of GIDs.
    fn port(devices: &Path, device: &str, state: &str, gids: &[&str]) {
        let port = devices.join(device).join("ports/1");
        std::fs::create_dir_all(port.join("gids")).unwrap();
        std::fs::write(port.join("state"), format!("{state}\n")).unwrap();
        for (number, gid) in gids.iter().enumerate() {
            let path = port.join("gids").join(number.to_string());
            std::fs::write(path, format!("{gid}\n")).unwrap();
        }
    }

    #[test]
    fn addresses_of_ports_with_a_link_are_found_each_once() {
        let devices = tempfile::tempdir().unwrap();
        let of_link = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
        let four = "0000:0000:0000:0000:0000:ffff:0a63:0001";
        let six = "2001:0db8:0000:0000:0000:0000:0000:0001";
        let zero = "0000:0000:0000:0000:0000:0000:0000:0000";
        let gids = [of_link, of_link, six, six, four, four, zero];
        port(devices.path(), "mlx5_0", "4: ACTIVE", &gids);
        let other = "0000:0000:0000:0000:0000:ffff:0a63:0002";
        port(devices.path(), "mlx5_1", "1: DOWN", &[other]);
        let third = "0000:0000:0000:0000:0000:ffff:0a63:0003";
        port(devices.path(), "mlx5_10", "4: ACTIVE", &[zero, third]);
        let found = below(devices.path()).unwrap();
        let expected = ["10.99.0.1", "10.99.0.3", "2001:db8::1"];
        assert_eq!(found, expected.map(|text| text.parse::<IpAddr>().unwrap()));
    }

    #[test]
    fn a_machine_without_devices_has_no_addresses() {
        let nowhere = tempfile::tempdir().unwrap();
        assert!(below(&nowhere.path().join("none")).unwrap().is_empty());
        assert!(below(nowhere.path()).unwrap().is_empty());
        // A device that goes while it is looked at.
        std::fs::create_dir_all(nowhere.path().join("mlx5_0/ports/1/gids")).unwrap();
        assert!(below(nowhere.path()).unwrap().is_empty());
    }
}
