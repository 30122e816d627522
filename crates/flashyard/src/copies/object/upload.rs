//! A stream becomes an object: in parts, and visible at once, when all of it is there.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use object_store::{Error, ObjectStoreExt, WriteMultipart};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::StoreError;
use super::{Object, Reached, beside, failed};
use crate::copies::error::CopyError;
use crate::output;

/// An upload has so many parts at most, all of one size but the last.
const PARTS_MAX: u64 = 10_000;
const PART_BYTES: std::ops::RangeInclusive<u64> = 16 << 20..=512 << 20;
/// Parts on their way at once. One more is being filled.
const UNDER_WAY_MAX: usize = 2;
/// How long a store has to forget the parts of an upload that was given up.
const FORGET_WITHIN: Duration = Duration::from_secs(10);

/// Stores what `send` writes, once that succeeded; `stream_bytes_max` is how long that may get.
/// Nothing is there otherwise.
pub fn upload<T>(
    object: &Object,
    overwrite: bool,
    stream_bytes_max: u64,
    send: impl FnOnce(File) -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let part_bytes = part_bytes(stream_bytes_max);
    let reached = Reached::of(object, part_bytes)?;
    if !overwrite {
        reached.is_free()?;
    }
    let (input, pipe) = io::pipe().map_err(CopyError::Output)?;
    let (sent, is_sent) = oneshot::channel();
    let (stored, done) = beside(
        || reached.store(part_bytes, OwnedFd::from(input), is_sent),
        || {
            let done = send(File::from(OwnedFd::from(pipe)));
            match done.is_ok() {
                // Without it the upload is given up. An upload that failed says why itself.
                true => drop(sent.send(())),
                false => drop(sent),
            }
            done
        },
    )
    .map_err(CopyError::Output)?;
    match (stored, done) {
        // Whoever read from the pipe has gone, and says why.
        (Err(error), Ok(_) | Err(CopyError::Output(_))) => Err(error),
        (_, done) => done,
    }
}

/// How many bytes each part has, so that a stream fits into the parts that there may be.
fn part_bytes(stream_bytes_max: u64) -> u64 {
    let even = stream_bytes_max.div_ceil(PARTS_MAX);
    even.next_multiple_of(1 << 20)
        .clamp(*PART_BYTES.start(), *PART_BYTES.end())
}

impl Reached {
    fn is_free(&self) -> Result<(), CopyError> {
        match self.runtime.block_on(self.store.head(&self.object.key)) {
            Ok(_) => Err(CopyError::Store {
                object: self.object.to_string(),
                error: StoreError::Exists,
            }),
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(&self.object)(error)),
        }
    }

    /// Stores what comes from `input`, unless whoever writes there does not say that it was all.
    fn store(
        self,
        part_bytes: u64,
        input: OwnedFd,
        is_sent: oneshot::Receiver<()>,
    ) -> Result<(), CopyError> {
        self.runtime.block_on(async {
            let input = Receiver::from_owned_fd(input).map_err(CopyError::Output)?;
            let upload = self.store.put_multipart(&self.object.key).await;
            let upload = upload.map_err(failed(&self.object))?;
            // At most 512 MiB.
            let mut upload = WriteMultipart::new_with_chunk_size(upload, part_bytes as usize);
            let sent = async { is_sent.await.map_err(|_| CopyError::Interrupted) };
            let filled = self.fill(&mut upload, part_bytes, input);
            match tokio::try_join!(filled, sent) {
                Ok(_) => {
                    let done = upload.finish().await;
                    done.map(drop).map_err(failed(&self.object))
                }
                Err(error) => {
                    self.give_up(upload.abort()).await;
                    Err(error)
                }
            }
        })
    }

    async fn fill(
        &self,
        upload: &mut WriteMultipart,
        part_bytes: u64,
        mut input: Receiver,
    ) -> Result<(), CopyError> {
        let mut buffer = vec![0; 256 << 10];
        let mut bytes = 0;
        loop {
            let read = input.read(&mut buffer).await.map_err(CopyError::Output)?;
            if read == 0 {
                return Ok(());
            }
            bytes += read as u64;
            if bytes > PARTS_MAX * part_bytes {
                return Err(CopyError::Store {
                    object: self.object.to_string(),
                    error: StoreError::TooLong {
                        parts_max: PARTS_MAX,
                        part_bytes,
                    },
                });
            }
            let room = upload.wait_for_capacity(UNDER_WAY_MAX).await;
            room.map_err(failed(&self.object))?;
            upload.write(&buffer[..read]);
        }
    }

    async fn give_up(&self, abort: impl Future<Output = object_store::Result<()>>) {
        if !matches!(timeout(FORGET_WITHIN, abort).await, Ok(Ok(()))) {
            output::tell(&format_args!(
                "flashyard: parts of an upload to {} are left in the store",
                self.object
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_small_as_fit() {
        const MIB: u64 = 1 << 20;
        const TIB: u64 = 1 << 40;
        for (stream, part) in [
            (0, 16 * MIB),
            (160_000 * MIB, 16 * MIB),
            (160_000 * MIB + 1, 17 * MIB),
            (TIB, 105 * MIB),
            (64 * TIB, 512 * MIB),
            (u64::MAX, 512 * MIB),
        ] {
            assert_eq!(part_bytes(stream), part, "{stream}");
        }
    }
}
