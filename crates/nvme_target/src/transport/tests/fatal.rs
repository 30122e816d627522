//! Every fatal transport error, by table: what was sent, and the FES and FEI that answer it.

use std::collections::BTreeMap;

use nvme::pdu::{
    CommonHeader, InitializeRequest, PduType, ReadyToTransfer, TerminateRequest, flags,
};
use nvme::{FatalError, FatalErrorStatus, field};
use zerocopy::{FromBytes, IntoBytes};

use super::host::{Habits, Host, PLAIN, connected, converse};
use super::settings;
use crate::transport::{Connection, End};

fn outcome(host: &mut Host, connection: &mut Connection) -> Option<FatalError> {
    let used = connection.receive(&host.sending);
    host.sending.drain(..used);
    host.receive(connection);
    let Some(End::Fatal(error)) = connection.end() else {
        return None;
    };
    let said = host.terminated.take().expect("no C2HTermReq");
    let (request, quoted) = TerminateRequest::read_from_prefix(&said).unwrap();
    assert_eq!(request.error(), error);
    assert!(!quoted.is_empty(), "the offending header is quoted");
    Some(error)
}

/// Errors before the connection is initialized.
#[test]
fn bad_initialize_requests() {
    let good = InitializeRequest::new(0, 0, 0);
    let version = |version: u16| InitializeRequest {
        format_version: version.into(),
        ..good
    };
    let alignment = InitializeRequest::new(32, 0, 0);
    let unsupported = FatalErrorStatus::UNSUPPORTED_PARAMETER;
    for (bytes, expected) in [
        (good.as_bytes(), None),
        (
            version(1).as_bytes(),
            Some(FatalError::new(unsupported, field::FORMAT_VERSION)),
        ),
        (
            alignment.as_bytes(),
            Some(FatalError::invalid_field(field::DATA_ALIGNMENT)),
        ),
        (
            CommonHeader::new(PduType::COMMAND_CAPSULE, 72).as_bytes(),
            Some(FatalError::sequence()),
        ),
        (
            CommonHeader::new(PduType::RESPONSE_CAPSULE, 24).as_bytes(),
            Some(FatalError::invalid_field(field::TYPE)),
        ),
    ] {
        let mut host = Host::new(PLAIN);
        host.sending = bytes.to_vec();
        let found = outcome(&mut host, &mut Connection::new(settings()));
        assert_eq!(found, expected, "{bytes:?}");
    }
}

#[test]
fn a_second_initialize_request() {
    let (mut host, mut connection) = connected(PLAIN, 8, true);
    host.sending = InitializeRequest::new(0, 0, 0).as_bytes().to_vec();
    assert_eq!(
        outcome(&mut host, &mut connection),
        Some(FatalError::sequence())
    );
}

#[test]
fn too_much_data_in_a_capsule() {
    let (mut host, mut connection) = connected(PLAIN, 8, true);
    let most = settings().in_capsule_bytes_max as usize;
    host.write(1, &vec![0; most], true);
    assert_eq!(outcome(&mut host, &mut connection), None);
    host.write(2, &vec![0; most + 512], true);
    let expected = FatalError::invalid_field(field::PDU_BYTES);
    assert_eq!(outcome(&mut host, &mut connection), Some(expected));
}

#[test]
fn a_wrong_header_digest_is_quoted_back() {
    let habits = Habits {
        header_digest: true,
        ..PLAIN
    };
    let (mut host, mut connection) = connected(habits, 8, true);
    host.read(1, 0, 512);
    host.sending[72..76].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
    let expected = FatalError::new(FatalErrorStatus::HEADER_DIGEST_ERROR, 0x1234_5678);
    // From here on the host reads PDUs without digests: C2HTermReq never has one.
    host.habits = PLAIN;
    assert_eq!(outcome(&mut host, &mut connection), Some(expected));
}

type Spoil = fn(&mut Host, &ReadyToTransfer);

/// H2CData that does not answer the R2T it names.
#[test]
fn host_data_that_nobody_asked_for() {
    let range = FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE);
    let limit = FatalError::of(FatalErrorStatus::LIMIT_EXCEEDED);
    let wrong = FatalError::invalid_field;
    let cases: [(&str, Spoil, Option<FatalError>); 11] = [
        (
            "what was asked for",
            |host, request| host.answer(request),
            None,
        ),
        (
            "an unknown tag",
            |host, request| {
                let mut request = *request;
                request.transfer_tag = 400.into();
                host.host_data(&request, 0, &[0; 4096], true);
            },
            Some(wrong(field::TRANSFER_TAG)),
        ),
        (
            "the tag of a window that is not open",
            |host, request| {
                let mut request = *request;
                request.transfer_tag = (request.transfer_tag.get() + 1).into();
                host.host_data(&request, 0, &[0; 4096], true);
            },
            Some(wrong(field::TRANSFER_TAG)),
        ),
        (
            "another command's identifier",
            |host, request| {
                let mut request = *request;
                request.command_id = 9.into();
                host.host_data(&request, 0, &[0; 4096], true);
            },
            Some(wrong(field::COMMAND_ID)),
        ),
        (
            "data that starts late",
            |host, request| host.host_data(request, 512, &[0; 4096], false),
            Some(range),
        ),
        (
            "data that ends late",
            |host, request| host.host_data(request, 0, &[0; 16896], true),
            Some(range),
        ),
        (
            "an offset that wraps",
            |host, request| host.host_data(request, u32::MAX, &[0; 512], true),
            Some(range),
        ),
        (
            "more data than one PDU may have",
            |host, request| host.host_data(request, 0, &[0; 65 << 10], true),
            Some(limit),
        ),
        (
            "LAST_PDU too early",
            |host, request| host.host_data(request, 0, &[0; 4096], true),
            Some(wrong(field::FLAGS)),
        ),
        (
            "no LAST_PDU at the end",
            |host, request| host.host_data(request, 0, &[0; 16384], false),
            Some(wrong(field::FLAGS)),
        ),
        (
            "a length that is not the PDU's",
            |host, request| {
                let at = host.sending.len();
                host.host_data(request, 0, &[0; 16384], true);
                host.sending[at + 16] = 4;
            },
            Some(wrong(field::LENGTH)),
        ),
    ];
    for (what, spoil, expected) in cases {
        let (mut host, mut connection) = connected(PLAIN, 8, true);
        host.answer_requests = false;
        host.write(1, &[1; 16384], false);
        converse(&mut host, &mut connection, &mut BTreeMap::new(), || 1 << 20);
        let request = host.requests.pop().unwrap();
        spoil(&mut host, &request);
        assert_eq!(outcome(&mut host, &mut connection), expected, "{what}");
    }
}

/// Data that comes after the transfer is complete is awaited by no command.
#[test]
fn the_same_data_twice() {
    let (mut host, mut connection) = connected(PLAIN, 8, true);
    host.answer_requests = false;
    host.write(1, &[1; 4096], false);
    converse(&mut host, &mut connection, &mut BTreeMap::new(), || 1 << 20);
    let request = host.requests.pop().unwrap();
    host.answer(&request);
    host.answer(&request);
    assert_eq!(
        outcome(&mut host, &mut connection),
        Some(FatalError::sequence())
    );
}

/// What a host says with H2CTermReq is kept, and is not answered.
#[test]
fn a_host_that_terminates() {
    let (mut host, mut connection) = connected(PLAIN, 8, true);
    let error = FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE);
    let request = TerminateRequest::new(PduType::HOST_TERMINATE, error, 0);
    assert_eq!(request.common.flags & flags::HEADER_DIGEST, 0);
    connection.receive(request.as_bytes());
    assert_eq!(connection.end(), Some(End::HostTerminated(error)));
    assert!(connection.outbox().is_empty());
    host.read(1, 0, 512);
    assert_eq!(connection.receive(&host.sending), host.sending.len());
    assert!(!connection.has_work());
}
