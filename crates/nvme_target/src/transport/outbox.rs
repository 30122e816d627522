//! [`Outbox`]: what a connection has to send, in order.

use std::collections::VecDeque;
use std::ops::Range;

use block::Buffer;

/// Bytes and buffers waiting to be sent. Keeps its memory when emptied.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    popped: usize,
    pieces: VecDeque<Piece>,
    total: usize,
}

#[derive(Debug)]
enum Piece {
    Bytes(usize),
    Buffer(Buffer, Range<usize>),
    Zeroes(usize),
}

/// What zeroes are sent from, piece by piece.
pub(super) static ZEROES: [u8; 4096] = [0; 4096];

/// The next thing to send.
#[derive(Debug)]
pub enum Part<'a> {
    /// Headers, digests, padding, small data.
    Bytes(&'a [u8]),
    /// A range of a buffer that the sender now owns.
    Buffer(Buffer, Range<usize>),
}

impl Outbox {
    /// Bytes waiting.
    pub fn len_bytes(&self) -> usize {
        self.total
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Takes the next part.
    pub fn pop(&mut self) -> Option<Part<'_>> {
        match self.pieces.pop_front()? {
            Piece::Bytes(length) => {
                let start = self.popped;
                self.popped += length;
                self.total -= length;
                self.bytes.get(start..self.popped).map(Part::Bytes)
            }
            Piece::Buffer(buffer, range) => {
                self.total -= range.len();
                Some(Part::Buffer(buffer, range))
            }
            Piece::Zeroes(length) => {
                let piece = ZEROES.get(..length).unwrap_or(&ZEROES);
                self.total -= piece.len();
                if length > piece.len() {
                    self.pieces.push_front(Piece::Zeroes(length - piece.len()));
                }
                Some(Part::Bytes(piece))
            }
        }
    }

    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.pieces.is_empty() {
            self.bytes.clear();
            self.popped = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.total += bytes.len();
        match self.pieces.back_mut() {
            Some(Piece::Bytes(length)) => *length += bytes.len(),
            _ => self.pieces.push_back(Piece::Bytes(bytes.len())),
        }
    }

    /// Zeroes take no memory until they are sent.
    pub(super) fn push_zeroes(&mut self, length: usize) {
        if length > 0 {
            self.total += length;
            self.pieces.push_back(Piece::Zeroes(length));
        }
    }

    pub(super) fn push_buffer(&mut self, buffer: Buffer, range: Range<usize>) {
        self.total += range.len();
        self.pieces.push_back(Piece::Buffer(buffer, range));
    }
}
