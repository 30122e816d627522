//! What a stream says is written, batch by batch, while the next one comes in.

use std::fs::File;

use block::Buffer;
use reactor::{Task, blocking, spawn};
use stream::{Reader, Record, StreamError};

use crate::copies::error::CopyError;
use crate::copies::onlooker::Onlooker;
use crate::copies::transfer::{BATCH_BYTES, BATCH_PARTS, Contents, Part, Remote};

/// Parts that came in; none once the stream has ended as it should.
type Batch = (Reader<File>, Result<Vec<Part>, StreamError>);

/// Writes what comes in, and makes it durable; the stream was whole and right if this succeeds.
pub async fn transferred(
    remote: &Remote,
    reader: Reader<File>,
    volume_bytes: u64,
    onlooker: &Onlooker,
) -> Result<(), CopyError> {
    if remote.bytes() != volume_bytes {
        return Err(CopyError::Refused(format!(
            "the volume that was made aside has {} bytes, and the snapshot has {volume_bytes}",
            remote.bytes()
        )));
    }
    let mut coming: Task<Batch> = spawn(blocking(move || batch(reader)));
    loop {
        let (reader, parts) = remote.beside(onlooker, coming).await?;
        let parts = parts?;
        let Some(first) = parts.first() else {
            break;
        };
        onlooker.at(first.start as f64 / volume_bytes as f64);
        coming = spawn(blocking(move || batch(reader)));
        remote.beside(onlooker, remote.write(parts)).await??;
    }
    remote.flush().await
}

fn batch(mut reader: Reader<File>) -> Batch {
    let (mut parts, mut bytes) = (Vec::new(), 0);
    while parts.len() < BATCH_PARTS && bytes < BATCH_BYTES {
        match reader.next() {
            Ok(Some(record)) => {
                let (start, contents) = match record {
                    Record::Data { start, bytes } => {
                        (start, Contents::Data(Buffer::copy_of(bytes)))
                    }
                    Record::Zeroes { start, bytes } => (start, Contents::Zeroes(bytes)),
                };
                if let Contents::Data(buffer) = &contents {
                    bytes += buffer.len() as u64;
                }
                parts.push(Part { start, contents });
            }
            Ok(None) => break,
            Err(error) => return (reader, Err(error)),
        }
    }
    (reader, Ok(parts))
}
