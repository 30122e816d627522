//! [`Aside`]: what is there for one copy only, and goes when that ends, however it ends.

use api::{Name, SnapshotName};
use client::{Client, ClientError};

use crate::output;

/// A snapshot, a volume and a host, each if it was made. What cannot be taken back is told.
pub struct Aside {
    client: Client,
    pub snapshot: Option<SnapshotName>,
    pub volume: Option<Name>,
    pub host: Option<Name>,
    /// What is left is found by somebody else, and not told.
    is_quiet: bool,
}

impl Aside {
    pub fn new(client: &Client, is_quiet: bool) -> Aside {
        Aside {
            client: client.clone(),
            snapshot: None,
            volume: None,
            host: None,
            is_quiet,
        }
    }

    /// Deletes the snapshot now.
    pub fn delete_snapshot(&mut self) -> Result<(), ClientError> {
        match &self.snapshot {
            Some(name) => self.client.delete_snapshot(name)?,
            None => return Ok(()),
        }
        self.snapshot = None;
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let told = |what: &str, name: &dyn std::fmt::Display, done: Result<(), ClientError>| {
            if let (Err(error), false) = (done, self.is_quiet) {
                output::tell(&format_args!("flashyard: {what} {name} is left: {error}"));
            }
        };
        if let Some(name) = &self.snapshot {
            told("snapshot", name, self.client.delete_snapshot(name));
        }
        // The node may not have seen yet that nobody is connected any more.
        if let Some(name) = &self.volume {
            told("volume", name, self.client.delete_volume(name, true));
        }
        if let Some(name) = &self.host {
            told("host", name, self.client.remove_host(name));
        }
    }
}
