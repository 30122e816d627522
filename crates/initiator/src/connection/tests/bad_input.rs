//! A controller that breaks the protocol: each offence ends the connection with the fatal error
//! that the specification names, and the controller is told.

use nvme::pdu::*;
use nvme::{FatalErrorStatus, IoOpcode, Status};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::controller::{Options, Wire, data_header, initialize_response, response};
use super::{command, connected, settings};
use crate::LossReason;
use crate::connection::{Connection, Data};
use block::Buffer;

/// A connection with a read (CID 0, 8192 bytes) and a write (CID 1, 8192 bytes) at the controller.
fn busy(options: Options) -> Connection {
    let asked = crate::Settings {
        header_digest: options.header_digest,
        data_digest: options.data_digest,
        ready_to_transfer_max: 1,
        ..settings()
    };
    let (mut connection, _) = connected(asked, options);
    let read = connection
        .submit(command(IoOpcode::READ, 2), Data::In(Buffer::new(8192)))
        .unwrap();
    let write = connection.submit(command(IoOpcode::WRITE, 2), Data::Out(Buffer::new(8192)));
    assert_eq!((read.0, write.unwrap().0), (0, 1));
    connection.transmit(&mut Wire::default());
    connection
}

/// Feeds `bytes` and expects the connection to end with `status` and to say so.
fn expect_break(mut connection: Connection, bytes: &[u8], status: FatalErrorStatus) {
    let reason = connection.receive(bytes).expect_err("refused");
    let LossReason::Protocol(error) = reason else {
        panic!("{reason}")
    };
    assert_eq!(error.status, status, "{error}");
    let mut wire = Wire::default();
    connection.transmit(&mut wire);
    let (said, quoted) = TerminateRequest::ref_from_prefix(&wire.bytes).unwrap();
    assert_eq!(said.common.pdu_type, PduType::HOST_TERMINATE);
    assert_eq!(said.error(), error);
    assert!(bytes.starts_with(&quoted[..8.min(quoted.len())]) || bytes.len() > 24);
    assert!(!connection.has_output());
    assert_eq!(
        connection.receive(&[0; 8]),
        Err(reason),
        "nothing more is looked at"
    );
}

fn data_pdu(id: u16, offset: u32, length: u32, flags: u8) -> Vec<u8> {
    let mut header = data_header(PduType::CONTROLLER_DATA, id, 0, offset, length);
    header.common.flags = flags;
    header.common.data_offset = 24;
    header.common.pdu_bytes = U32::new(24 + length);
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(24 + length as usize, 0);
    bytes
}

fn ready_pdu(id: u16, offset: u32, length: u32) -> Vec<u8> {
    data_header(PduType::READY_TO_TRANSFER, id, 9, offset, length)
        .as_bytes()
        .to_vec()
}

#[test]
fn offences_against_a_running_connection() {
    use FatalErrorStatus as Fes;
    let mut unknown_type = response(0, Status::SUCCESS);
    unknown_type[0] = 0x0b;
    let mut long_header = response(0, Status::SUCCESS);
    long_header[2] = 25;
    let mut oversized = response(0, Status::SUCCESS);
    oversized[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut host_only = response(0, Status::SUCCESS);
    host_only[0] = PduType::COMMAND_CAPSULE.0;
    let cases: Vec<(&str, Vec<u8>, FatalErrorStatus)> = vec![
        (
            "an unknown PDU type",
            unknown_type,
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "a header length that is wrong",
            long_header,
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "a PDU length that is wrong",
            oversized,
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "a PDU that only hosts send",
            host_only,
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "a second ICResp",
            initialize_response(&Options::default()),
            Fes::SEQUENCE_ERROR,
        ),
        (
            "an answer to no command",
            response(3, Status::SUCCESS),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "an answer out of all bounds",
            response(999, Status::SUCCESS),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "data for no command",
            data_pdu(3, 0, 512, 0),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "data for a write",
            data_pdu(1, 0, 512, 0),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "data past the end",
            data_pdu(0, 0, 8196, 0),
            Fes::DATA_OUT_OF_RANGE,
        ),
        (
            "data with a gap",
            data_pdu(0, 512, 512, 0),
            Fes::DATA_OUT_OF_RANGE,
        ),
        (
            "success without last",
            data_pdu(0, 0, 512, flags::SUCCESS),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "an R2T for a read",
            ready_pdu(0, 0, 512),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            "an R2T past the end",
            ready_pdu(1, 0, 8193),
            Fes::DATA_OUT_OF_RANGE,
        ),
        (
            "an R2T for nothing",
            ready_pdu(1, 0, 0),
            Fes::DATA_OUT_OF_RANGE,
        ),
        (
            "an R2T with a gap",
            ready_pdu(1, 512, 512),
            Fes::INVALID_HEADER_FIELD,
        ),
    ];
    for (what, bytes, status) in cases {
        println!("{what}");
        expect_break(busy(Options::default()), &bytes, status);
    }
}

#[test]
fn one_r2t_too_many() {
    let mut connection = busy(Options::default());
    connection.receive(&ready_pdu(1, 0, 4096)).unwrap();
    expect_break(
        connection,
        &ready_pdu(1, 4096, 4096),
        FatalErrorStatus::LIMIT_EXCEEDED,
    );
}

#[test]
fn data_after_the_last() {
    let mut connection = busy(Options::default());
    connection
        .receive(&data_pdu(0, 0, 512, flags::LAST_PDU))
        .unwrap();
    expect_break(
        connection,
        &data_pdu(0, 512, 512, 0),
        FatalErrorStatus::SEQUENCE_ERROR,
    );
}

#[test]
fn a_header_digest_that_does_not_match() {
    let options = Options {
        header_digest: true,
        ..Options::default()
    };
    let mut bytes = response(0, Status::SUCCESS);
    bytes[1] = flags::HEADER_DIGEST;
    bytes[4] = 28;
    let mut wrong = nvme::digest(&bytes);
    wrong[0] ^= 1;
    bytes.extend_from_slice(&wrong);
    expect_break(busy(options), &bytes, FatalErrorStatus::HEADER_DIGEST_ERROR);
}

#[test]
fn damaged_data_fails_its_command_and_nothing_else() {
    let options = Options {
        data_digest: true,
        ..Options::default()
    };
    let mut connection = busy(options);
    let mut bytes = data_pdu(
        0,
        0,
        8192,
        flags::DATA_DIGEST | flags::LAST_PDU | flags::SUCCESS,
    );
    bytes[4..8].copy_from_slice(&(24 + 8192 + 4u32).to_le_bytes());
    let digest = nvme::digest(&bytes[24..]);
    bytes.extend_from_slice(&digest);
    bytes[100] ^= 1;
    connection.receive(&bytes).unwrap();
    let id = connection.next_finished().unwrap();
    let (_, outcome) = connection.take(id).unwrap();
    assert_eq!(outcome.unwrap().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    assert_eq!(connection.loss(), None);
}

#[test]
fn success_without_all_the_data_is_no_success() {
    let mut connection = busy(Options::default());
    connection
        .receive(&data_pdu(0, 0, 4096, flags::LAST_PDU | flags::SUCCESS))
        .unwrap();
    let id = connection.next_finished().unwrap();
    let (_, outcome) = connection.take(id).unwrap();
    assert_eq!(outcome.unwrap().status(), Status::DATA_TRANSFER_ERROR);
}

#[test]
fn initializations_that_are_refused() {
    use FatalErrorStatus as Fes;
    let good = InitializeResponse::new(0, 0, 4096);
    let cases = [
        (
            InitializeResponse {
                format_version: U16::new(1),
                ..good
            },
            Fes::UNSUPPORTED_PARAMETER,
        ),
        (
            InitializeResponse {
                digests: digests::HEADER,
                ..good
            },
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            InitializeResponse {
                controller_data_alignment: 32,
                ..good
            },
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            InitializeResponse::new(0, 0, 4092),
            Fes::INVALID_HEADER_FIELD,
        ),
        (
            InitializeResponse::new(0, 0, 4097),
            Fes::INVALID_HEADER_FIELD,
        ),
    ];
    for (bad, status) in cases {
        let mut connection = Connection::new(settings());
        connection.transmit(&mut Wire::default());
        expect_break(connection, bad.as_bytes(), status);
    }
    let early = response(0, Status::SUCCESS);
    expect_break(Connection::new(settings()), &early, Fes::SEQUENCE_ERROR);
}

#[test]
fn a_controller_that_terminates_is_believed() {
    let mut connection = busy(Options::default());
    let error = nvme::FatalError::invalid_field(4);
    let request = TerminateRequest::new(PduType::CONTROLLER_TERMINATE, error, 8);
    let bytes = [request.as_bytes(), &[1; 8]].concat();
    assert_eq!(
        connection.receive(&bytes),
        Err(LossReason::Terminated(error))
    );
    assert!(
        !connection.has_output(),
        "nothing is said to a controller that is gone"
    );
    let ended = std::iter::from_fn(|| connection.next_finished()).count();
    assert_eq!(ended, 2, "both commands end");
}
