//! An object becomes a stream: window by window, of which one comes while another is received.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::oneshot;

use super::{Object, Reached, beside, failed};
use crate::copies::error::CopyError;

/// What one request asks for.
const WINDOW_BYTES: u64 = 8 << 20;

/// Has `receive` read what an object holds.
pub fn download<T>(
    object: &Object,
    receive: impl FnOnce(File) -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let reached = Reached::of(object, WINDOW_BYTES)?;
    let found = reached.runtime.block_on(reached.store.head(&object.key));
    let found = found.map_err(failed(object))?;
    let (pipe, output) = io::pipe().map_err(CopyError::Input)?;
    let (received, is_received) = oneshot::channel();
    let (fetched, done) = beside(
        || reached.fetch(&found, OwnedFd::from(output), is_received),
        || {
            let done = receive(File::from(OwnedFd::from(pipe)));
            // From now on nothing is to come.
            drop(received);
            done
        },
    )
    .map_err(CopyError::Input)?;
    match (fetched, done) {
        // Whoever wrote to the pipe has gone, and says why.
        (Err(error), Err(CopyError::Stream(_))) => Err(error),
        (_, done) => done,
    }
}

impl Reached {
    /// Writes the object to `output`, until `is_received`.
    fn fetch(
        self,
        found: &ObjectMeta,
        output: OwnedFd,
        is_received: oneshot::Receiver<()>,
    ) -> Result<(), CopyError> {
        self.runtime.block_on(async {
            let output = Sender::from_owned_fd(output).map_err(CopyError::Input)?;
            tokio::select! {
                _ = is_received => Ok(()),
                written = self.write(found, output) => written,
            }
        })
    }

    async fn write(&self, found: &ObjectMeta, mut output: Sender) -> Result<(), CopyError> {
        let mut here = Vec::new();
        for window in windows(found.size) {
            let (written, fetched) =
                tokio::join!(output.write_all(&here), self.window(found, window));
            written.map_err(CopyError::Input)?;
            here = fetched?;
        }
        output.write_all(&here).await.map_err(CopyError::Input)
    }

    /// A part of the object, as long as that is the one that was `found`.
    async fn window(&self, found: &ObjectMeta, range: Range<u64>) -> Result<Vec<u8>, CopyError> {
        let options = GetOptions::new()
            .with_range(Some(GetRange::Bounded(range)))
            .with_if_match(found.e_tag.clone());
        let answer = self.store.get_opts(&self.object.key, options).await;
        let answer = answer.map_err(failed(&self.object))?;
        let bytes = answer.bytes().await.map_err(failed(&self.object))?;
        Ok(Vec::from(bytes))
    }
}

/// What is asked for, in order.
fn windows(size: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = (0..size).step_by(WINDOW_BYTES as usize);
    starts.map(move |start| start..size.min(start + WINDOW_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_every_byte_once() {
        for size in [0, 1, WINDOW_BYTES, WINDOW_BYTES + 1, 5 * WINDOW_BYTES - 1] {
            let mut end = 0;
            for window in windows(size) {
                assert_eq!(window.start, end);
                assert!(!window.is_empty() && window.end - window.start <= WINDOW_BYTES);
                end = window.end;
            }
            assert_eq!(end, size);
        }
    }
}
