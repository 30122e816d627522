//! Writing several buffers with one operation.
#![allow(unsafe_code, reason = "starts ring operations; see the SAFETY lines")]

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use block::{Buffer, Durability};
use io_uring::opcode;

use super::{File, Kind, TRANSFER_BYTES_MAX, write_flags};
use crate::operation::Resource;
use crate::ring;

/// Buffers that one system call takes (IOV_MAX of Linux).
const VECTORS_MAX: usize = 1024;

impl File {
    /// Writes `buffers` at `offset`, one behind the other.
    ///
    /// # Errors
    /// The system's. The range may then hold any mixture of old and new blocks.
    pub async fn write_vectored_at(
        &self,
        mut buffers: Vec<Buffer>,
        offset: u64,
        durability: Durability,
    ) -> (Vec<Buffer>, io::Result<()>) {
        let descriptor = match &self.kind {
            Kind::Descriptor(descriptor) => descriptor,
            Kind::Simulated(handle) => {
                self.simulated_latency().await;
                let mut at = offset;
                for buffer in &buffers {
                    self.simulated_write(handle, buffer, at).await;
                    at += buffer.len() as u64;
                }
                self.simulated_latency().await;
                return (buffers, Ok(()));
            }
        };
        let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut vectors = Vec::new();
        let mut done = 0;
        while done < total {
            point_at(&buffers, done, &mut vectors);
            let at = offset + done as u64;
            let result;
            (buffers, vectors, result) = self
                .write_once(descriptor, buffers, vectors, at, durability)
                .await;
            match result {
                Ok(0) => return (buffers, Err(ErrorKind::WriteZero.into())),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (buffers, Err(error)),
            }
        }
        (buffers, Ok(()))
    }

    /// One system call's worth; `vectors` point into `buffers`.
    async fn write_once(
        &self,
        descriptor: &Rc<OwnedFd>,
        buffers: Vec<Buffer>,
        vectors: Vec<libc::iovec>,
        offset: u64,
        durability: Durability,
    ) -> (Vec<Buffer>, Vec<libc::iovec>, io::Result<usize>) {
        // SAFETY: the entry points to the vectors, which point into the buffers; both lie on the
        // heap and belong to the operation until it is complete.
        let operation = unsafe {
            let resource = Resource::Buffers(buffers, vectors);
            ring::start(&self.context, descriptor, resource, |fd, resource| {
                let Resource::Buffers(_, vectors) = resource else {
                    unreachable!("given buffers in the line above")
                };
                let write = opcode::Writev::new(fd, vectors.as_ptr(), vectors.len() as u32)
                    .offset(offset)
                    .rw_flags(write_flags(durability))
                    .build();
                self.never_in_the_call(write)
            })
        };
        match operation.await {
            (result, Resource::Buffers(buffers, vectors)) => {
                (buffers, vectors, result.map(|count| count as usize))
            }
            _ => unreachable!("an operation gives back what it was given"),
        }
    }
}

/// Makes `vectors` say where the bytes from byte `done` on lie, as many as one call takes.
fn point_at(buffers: &[Buffer], done: usize, vectors: &mut Vec<libc::iovec>) {
    vectors.clear();
    let (mut skip, mut room) = (done, TRANSFER_BYTES_MAX);
    for buffer in buffers {
        let start = skip.min(buffer.len());
        skip -= start;
        let rest = &buffer[start..];
        let bytes = &rest[..rest.len().min(room)];
        if bytes.is_empty() {
            continue;
        }
        if vectors.len() == VECTORS_MAX {
            return;
        }
        room -= bytes.len();
        vectors.push(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(count: usize) -> Vec<Buffer> {
        (0..count)
            .map(|page| Buffer::copy_of(&[page as u8; 4096]))
            .collect()
    }

    #[test]
    fn a_write_goes_on_wherever_the_last_call_ended() {
        let buffers = pages(3);
        let mut vectors = Vec::new();
        for done in [0, 1, 4095, 4096, 9000, 12287] {
            point_at(&buffers, done, &mut vectors);
            let left: usize = vectors.iter().map(|vector| vector.iov_len).sum();
            assert_eq!(left, 3 * 4096 - done);
            let page = &buffers[done / 4096];
            assert_eq!(
                vectors[0].iov_base.cast_const().cast(),
                &raw const page[done % 4096]
            );
        }
    }

    #[test]
    fn one_call_takes_so_many_buffers() {
        let buffers = pages(VECTORS_MAX + 7);
        let mut vectors = Vec::new();
        point_at(&buffers, 0, &mut vectors);
        assert_eq!(vectors.len(), VECTORS_MAX);
        point_at(&buffers, VECTORS_MAX * 4096, &mut vectors);
        assert_eq!(vectors.len(), 7);
    }
}
