//! [`Cql`]: the little of Cassandra's native protocol (version 4) that setting up and counting
//! takes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::DatabaseError;

/// Longer than counting every row takes on a slow drive.
const ANSWERS: Duration = Duration::from_secs(1250);

const VERSION: u8 = 4;
const ERROR: u8 = 0x00;
const STARTUP: u8 = 0x01;
const QUERY: u8 = 0x07;

/// What a result holds rows with.
const ROWS: u32 = 2;

/// The metadata of rows names keyspace and table once for all columns.
const GLOBAL_TABLE: u32 = 1;

/// A flag of a frame: warnings come before the rest of its body. Counting a table is worth one.
const WARNED: u8 = 0x08;

/// A majority of replicas: with two of them, both.
const QUORUM: u16 = 4;

pub(super) struct Cql {
    stream: TcpStream,
}

fn refused(reason: impl Into<String>) -> DatabaseError {
    DatabaseError::Answer {
        program: "Cassandra",
        reason: reason.into(),
    }
}

fn broken(error: io::Error) -> DatabaseError {
    refused(error.to_string())
}

impl Cql {
    pub(super) fn connect(address: SocketAddr) -> Result<Cql, DatabaseError> {
        let stream = TcpStream::connect(address).map_err(broken)?;
        stream.set_read_timeout(Some(ANSWERS)).map_err(broken)?;
        let mut cql = Cql { stream };
        let mut body = 1_u16.to_be_bytes().to_vec();
        for text in ["CQL_VERSION", "3.0.0"] {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        }
        cql.ask(STARTUP, &body)?;
        Ok(cql)
    }

    /// Runs a statement.
    pub(super) fn run(&mut self, statement: &str) -> Result<Vec<u8>, DatabaseError> {
        let mut body = (statement.len() as u32).to_be_bytes().to_vec();
        body.extend(statement.as_bytes());
        body.extend(QUORUM.to_be_bytes());
        // No values, no paging.
        body.push(0);
        self.ask(QUERY, &body)
    }

    /// Runs a statement that gives one row with one number.
    pub(super) fn number(&mut self, statement: &str) -> Result<i64, DatabaseError> {
        let body = self.run(statement)?;
        one_number(&body).ok_or_else(|| refused("no single number"))
    }

    fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<Vec<u8>, DatabaseError> {
        // Version, flags, stream, opcode, length.
        let mut frame = vec![VERSION, 0, 0, 0, opcode];
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        self.stream.write_all(&frame).map_err(broken)?;
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).map_err(broken)?;
        let [_, flags, _, _, answered, length @ ..] = header;
        let mut answer = Vec::new();
        let length = u64::from(u32::from_be_bytes(length));
        let mut rest = Read::by_ref(&mut self.stream).take(length);
        rest.read_to_end(&mut answer).map_err(broken)?;
        let rest = without_warnings(flags, &answer);
        let rest = rest.ok_or_else(|| refused("a short answer"))?;
        match answered {
            ERROR => Err(refused(what_happened(rest).unwrap_or("a short error"))),
            _ => Ok(rest.to_vec()),
        }
    }
}

/// What an error says behind its code.
fn what_happened(body: &[u8]) -> Option<&str> {
    let mut fields = Fields(body);
    fields.u32()?;
    std::str::from_utf8(fields.text()?).ok()
}

/// What follows a body's warnings.
fn without_warnings(flags: u8, body: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(body);
    if flags & WARNED != 0 {
        for _ in 0..fields.u16()? {
            fields.text()?;
        }
    }
    Some(fields.0)
}

/// The number in a result of one row and one column.
fn one_number(body: &[u8]) -> Option<i64> {
    let mut fields = Fields(body);
    let (kind, flags, columns) = (fields.u32()?, fields.u32()?, fields.u32()?);
    if kind != ROWS || columns != 1 {
        return None;
    }
    // Keyspace, table and the column, then its type.
    if flags & GLOBAL_TABLE == 0 {
        return None;
    }
    for _ in 0..3 {
        fields.text()?;
    }
    fields.u16()?;
    let (rows, length) = (fields.u32()?, fields.u32()?);
    let value = fields.take(8)?;
    (rows == 1 && length == 8).then(|| i64::from_be_bytes(value.try_into().unwrap_or_default()))
}

/// Bytes that are read from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_skipped() {
        let warned = b"\x00\x02\x00\x03abc\x00\x01drest";
        assert_eq!(without_warnings(WARNED, warned), Some(&b"rest"[..]));
        assert_eq!(without_warnings(0, warned), Some(&warned[..]));
        assert_eq!(without_warnings(WARNED, &warned[..6]), None);
    }

    #[test]
    fn an_error_is_read_behind_its_code() {
        let error = b"\x00\x00\x12\x00\x00\x09timed out\x00\x04";
        assert_eq!(what_happened(error), Some("timed out"));
        assert_eq!(what_happened(&error[..9]), None);
    }

    #[test]
    fn a_count_is_read_from_a_result_of_rows() {
        let mut body = Vec::new();
        for word in [ROWS, GLOBAL_TABLE, 1] {
            body.extend(word.to_be_bytes());
        }
        for text in ["ycsb", "usertable", "count"] {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        }
        body.extend(2_u16.to_be_bytes());
        body.extend(1_u32.to_be_bytes());
        body.extend(8_u32.to_be_bytes());
        body.extend(77_i64.to_be_bytes());
        assert_eq!(one_number(&body), Some(77));
        for length in 0..body.len() {
            assert_eq!(one_number(&body[..length]), None);
        }
    }
}
