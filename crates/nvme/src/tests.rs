//! PDUs from literal bytes, and header checks by table.

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::command::{CrossControllerReset, ReadWrite, sgl};
use crate::event::AsyncEvent;
use crate::fabrics::{Connect, ConnectData, Property, PropertyOffset};
use crate::feature::{Feature, Features, HostBehaviour, ProtectionState};
use crate::identify::{ControllerData, IndependentNamespaceData, NamespaceData, nsattr, nwpc};
use crate::log::{
    CROSS_RESETS_LOGGED_MAX, CrossResetEntry, CrossResetHeader, CrossResetState, GetLogPage,
    LogPage, cross_reset_flags,
};
use crate::pdu::*;
use crate::*;

/// Bytes written as hex, for reading next to the specification's tables.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn padded(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.resize(length, 0);
    bytes
}

/// Alignment 4, R2T up to 4 at once, header and data digests.
#[test]
fn initialize_request_from_bytes() {
    let bytes = padded(hex("00 00 80 00 80000000 0000 00 03 03000000"), 128);
    let request = InitializeRequest::read_from_bytes(&bytes).unwrap();
    assert_eq!(
        request,
        InitializeRequest::new(0, digests::HEADER | digests::DATA, 3)
    );
    assert_eq!(request.as_bytes(), bytes);
}

#[test]
fn initialize_response_from_bytes() {
    let bytes = padded(hex("01 00 80 00 80000000 0000 00 01 00000200"), 128);
    let response = InitializeResponse::read_from_bytes(&bytes).unwrap();
    assert_eq!(
        response,
        InitializeResponse::new(0, digests::HEADER, 128 << 10)
    );
    assert_eq!(response.as_bytes(), bytes);
}

#[test]
fn terminate_requests_from_bytes() {
    let error = FatalError::new(FatalErrorStatus::HEADER_DIGEST_ERROR, 0x1234_5678);
    let bytes = padded(hex("03 00 18 00 60000000 0300 78563412"), 24);
    let request = TerminateRequest::new(PduType::CONTROLLER_TERMINATE, error, 72);
    assert_eq!(request.as_bytes(), bytes);
    assert_eq!(request.error(), error);
    let bytes = padded(hex("02 00 18 00 18000000 0100 04000000"), 24);
    let error = FatalError::invalid_field(field::PDU_BYTES);
    let request = TerminateRequest::new(PduType::HOST_TERMINATE, error, 0);
    assert_eq!(request.as_bytes(), bytes);
}

/// A read of 8 blocks at LBA 0x1122334455 of namespace 3.
#[test]
fn command_capsule_from_bytes() {
    let bytes = hex("04 00 48 00 48000000
        02 40 0700 03000000 00000000 00000000 0000000000000000
        0000000000000000 00800000 000000 5a
        5544332211000000 0700 0000 00000000 00000000 00000000");
    let capsule = CommandCapsule::read_from_bytes(&bytes).unwrap();
    let read = ReadWrite::of(&capsule.entry);
    assert_eq!(read.opcode, IoOpcode::READ);
    assert_eq!(read.command_id.get(), 7);
    assert_eq!(read.namespace_id.get(), 3);
    assert_eq!(read.start.get(), 0x11_2233_4455);
    assert_eq!(read.blocks_minus_one.get(), 7);
    assert_eq!(read.data.kind, sgl::TRANSPORT_DATA_BLOCK);
    assert_eq!(read.data.length.get(), 32 << 10);
    let mut made = ReadWrite::new(
        IoOpcode::READ,
        3,
        0x11_2233_4455,
        8,
        SglDescriptor::transport(32 << 10),
    );
    made.command_id = 7.into();
    let common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
    let capsule = CommandCapsule {
        common,
        entry: *made.entry(),
    };
    assert_eq!(capsule.as_bytes(), bytes);
}

#[test]
fn response_capsule_from_bytes() {
    let bytes = hex("05 00 18 00 18000000 efbeadde00000000 0500 0000 0700 0040");
    let capsule = ResponseCapsule::read_from_bytes(&bytes).unwrap();
    assert_eq!(capsule.entry.result.get(), 0xdead_beef);
    assert_eq!(capsule.entry.submission_head.get(), 5);
    assert_eq!(capsule.entry.command_id.get(), 7);
    assert_eq!(capsule.entry.status(), Status(0x2000));
}

#[test]
fn data_headers_from_bytes() {
    for (pdu_type, text) in [
        (
            PduType::HOST_DATA,
            "06 04 18 18 18100000 0700 0900 00200000 00100000 00000000",
        ),
        (
            PduType::CONTROLLER_DATA,
            "07 0c 18 18 18100000 0700 0900 00200000 00100000 00000000",
        ),
    ] {
        let header = DataHeader::read_from_bytes(&hex(text)).unwrap();
        assert_eq!(header.common.pdu_type, pdu_type);
        assert_eq!(header.command_id.get(), 7);
        assert_eq!(header.transfer_tag.get(), 9);
        assert_eq!(header.offset.get(), 8192);
        assert_eq!(header.length.get(), 4096);
        assert!(header.common.flags & flags::LAST_PDU != 0);
    }
}

#[test]
fn ready_to_transfer_from_bytes() {
    let bytes = hex("09 00 18 00 18000000 0700 0900 00200000 00000200 00000000");
    let header = ReadyToTransfer::read_from_bytes(&bytes).unwrap();
    assert_eq!(header.command_id.get(), 7);
    assert_eq!(header.transfer_tag.get(), 9);
    assert_eq!(header.offset.get(), 8192);
    assert_eq!(header.length.get(), 128 << 10);
}

/// Offsets that the specification's tables give, for structs too large to write out.
#[test]
fn fields_are_where_the_specification_has_them() {
    let connect = ConnectData::new([1; 16], 0xffff, "nqn.s", "nqn.h");
    assert_eq!(&connect.as_bytes()[16..18], [0xff, 0xff]);
    assert_eq!(&connect.as_bytes()[256..262], b"nqn.s\0");
    assert_eq!(&connect.as_bytes()[512..518], b"nqn.h\0");
    let command = Connect::new(3, 127, 15_000);
    let bytes = command.entry().as_bytes();
    assert_eq!((bytes[0], bytes[1], bytes[4]), (0x7f, 0x40, 0x01));
    assert_eq!(&bytes[40..52], hex("0000 0300 7f00 00 00 983a0000"));
    let set = Property::set(PropertyOffset::CONFIGURATION, 0x46_0001);
    assert_eq!(
        &set.entry().as_bytes()[40..56],
        hex("00000000 14000000 0100460000000000")
    );

    let mut controller = ControllerData::new_zeroed();
    controller.transfer_size_max = 1;
    controller.controller_type = 2;
    controller.admin_commands = 3.into();
    controller.keep_alive_granularity = 4.into();
    controller.ana_transition_s = 5;
    controller.submission_entry_size = 6;
    controller.namespace_max = 7.into();
    controller.sgl_support = 8.into();
    controller.subsystem_nqn[0] = 9;
    controller.command_capsule_units = 10.into();
    controller.fabrics_commands = 11.into();
    controller.power_state_descriptors[0].power_max = 12.into();
    controller.write_protection = 13;
    controller.copy_formats = 14.into();
    let bytes = controller.as_bytes();
    for (value, offset) in [
        77, 111, 256, 320, 342, 512, 516, 536, 768, 1792, 1804, 2048, 531, 534,
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(usize::from(bytes[offset]), value + 1, "offset {offset}");
    }
    let mut namespace = NamespaceData::new_zeroed();
    namespace.nguid[0] = 1;
    namespace.eui64[0] = 2;
    namespace.ana_group = 3.into();
    namespace.formats[0].block_shift = 4;
    namespace.preferred_write_granularity = 5.into();
    namespace.copy_range_blocks_max = 6.into();
    namespace.copy_blocks_max = 7.into();
    namespace.copy_ranges_max = 8;
    namespace.attributes = 9;
    let bytes = namespace.as_bytes();
    for (value, offset) in [104, 120, 92, 130, 64, 74, 76, 80, 99]
        .into_iter()
        .enumerate()
    {
        assert_eq!(usize::from(bytes[offset]), value + 1, "offset {offset}");
    }
}

/// Byte 3 is HDISNS, and CDFE follows.
#[test]
fn host_behaviour_has_copy_formats_behind_four_switches() {
    let mut behaviour = HostBehaviour::new_zeroed();
    behaviour.copy_formats = 0x1404.into();
    assert_eq!(behaviour.as_bytes()[..7], [0, 0, 0, 0, 0x04, 0x14, 0]);
}

/// Where nvme-cli has what tells controllers apart, and Cross-Controller Reset (NVMe 2.3 §5.4.3).
#[test]
fn a_cross_controller_reset_is_as_the_specification_has_it() {
    let mut controller = ControllerData::new_zeroed();
    controller.instance_uniquifier = 0x11;
    controller.instance_random = 0x2233_4455_6677_8899.into();
    controller.command_quiesce_ms = 0xaabb.into();
    controller.cross_resets_max = 0xcc;
    let bytes = controller.as_bytes();
    assert_eq!(&bytes[134..145], hex("00 11 9988776655443322 00"));
    assert_eq!(&bytes[385..389], hex("00 bbaa 00"));
    assert_eq!(&bytes[1806..1809], hex("00 cc 00"));

    let command = CrossControllerReset::new(0x1234, 0x56, 0x0123_4567_89ab_cdef);
    let bytes = command.entry().as_bytes();
    assert_eq!((bytes[0], Direction::of(bytes[0])), (0x38, Direction::None));
    let dwords = "34125600 00000000 efcdab89 67452301 00000000 00000000";
    assert_eq!(&bytes[40..64], hex(dwords));

    let entry = CrossResetEntry {
        controller_id: 0x1234.into(),
        uniquifier: 0x56,
        reserved: 0,
        alternate_id: 0x789a.into(),
        state: CrossResetState::SUCCESS,
        flags: cross_reset_flags::VALIDATED | cross_reset_flags::INITIATED,
    };
    assert_eq!(entry.as_bytes(), hex("3412 56 00 9a78 01 03"));
    let longest = size_of::<CrossResetHeader>() + CROSS_RESETS_LOGGED_MAX * size_of_val(&entry);
    assert_eq!(longest, 4096);
    assert_eq!(AsyncEvent::CROSS_RESET_COMPLETED.result(), 0x1e_f402);
}

#[test]
fn log_page_lengths_and_offsets_use_all_their_bits() {
    let command = GetLogPage::new(LogPage::DISCOVERY, 0, 1 << 40, 0x8_0000);
    assert_eq!(command.bytes(), 0x8_0000);
    let bytes = command.entry().as_bytes();
    assert_eq!(&bytes[40..56], hex("7000ffff 01000000 0000000000010000"));
}

const CONNECTED: HeaderRules = HeaderRules {
    receiver: Receiver::Controller,
    header_digest: false,
    data_digest: false,
    data_alignment_bytes: 4,
    data_bytes_max: 8192,
};

const DIGESTED: HeaderRules = HeaderRules {
    header_digest: true,
    data_digest: true,
    ..CONNECTED
};

fn check(rules: HeaderRules, text: &str) -> Result<PduLayout, FatalError> {
    rules.layout(&CommonHeader::read_from_bytes(&hex(text)).unwrap())
}

#[test]
fn valid_headers_are_laid_out() {
    let layout = check(CONNECTED, "04 00 48 00 48000000").unwrap();
    assert_eq!((layout.data_bytes, layout.total_bytes), (0, 72));
    let layout = check(CONNECTED, "04 00 48 48 48200000").unwrap();
    assert_eq!((layout.data_offset, layout.data_bytes), (72, 8192));
    let layout = check(DIGESTED, "04 01 48 00 4c000000").unwrap();
    assert!(layout.header_digest && !layout.data_digest);
    let layout = check(DIGESTED, "06 07 18 1c 20100000").unwrap();
    assert_eq!((layout.data_offset, layout.data_bytes), (28, 4096));
    assert!(layout.data_digest);
    let layout = check(CONNECTED, "02 00 18 00 98000000").unwrap();
    assert_eq!(layout.data_bytes, 128);
    let host = HeaderRules {
        receiver: Receiver::Host,
        ..CONNECTED
    };
    let layout = check(host, "07 0c 18 18 18100000").unwrap();
    assert_eq!((layout.data_offset, layout.data_bytes), (24, 4096));
}

/// Every wrong header names the field the specification wants named.
#[test]
fn invalid_headers_name_the_field() {
    let cases = [
        (
            CONNECTED,
            "05 00 18 00 18000000",
            field::TYPE,
            "a type that hosts do not send",
        ),
        (
            CONNECTED,
            "0a 00 18 00 18000000",
            field::TYPE,
            "an unknown type",
        ),
        (
            CONNECTED,
            "04 00 40 00 48000000",
            field::HEADER_BYTES,
            "a short capsule header",
        ),
        (
            CONNECTED,
            "00 00 18 00 80000000",
            field::HEADER_BYTES,
            "a short ICReq header",
        ),
        (
            CONNECTED,
            "04 01 48 00 4c000000",
            field::FLAGS,
            "a header digest nobody asked for",
        ),
        (
            DIGESTED,
            "04 00 48 00 48000000",
            field::FLAGS,
            "a missing header digest",
        ),
        (
            DIGESTED,
            "04 01 48 4c 50100000",
            field::FLAGS,
            "a missing data digest",
        ),
        (
            CONNECTED,
            "04 04 48 00 48000000",
            field::FLAGS,
            "LAST_PDU on a capsule",
        ),
        (
            CONNECTED,
            "06 0c 18 18 18100000",
            field::FLAGS,
            "SUCCESS from a host",
        ),
        (
            CONNECTED,
            "04 80 48 00 48000000",
            field::FLAGS,
            "a reserved flag",
        ),
        (
            DIGESTED,
            "04 03 48 00 4c000000",
            field::FLAGS,
            "a data digest without data",
        ),
        (
            CONNECTED,
            "04 00 48 47 48100000",
            field::DATA_OFFSET,
            "data inside the header",
        ),
        (
            CONNECTED,
            "04 00 48 4a 4a100000",
            field::DATA_OFFSET,
            "unaligned data",
        ),
        (
            DIGESTED,
            "06 07 18 18 20100000",
            field::DATA_OFFSET,
            "data over the header digest",
        ),
        (
            CONNECTED,
            "04 00 48 00 47000000",
            field::DATA_OFFSET,
            "a capsule cut short",
        ),
        (
            CONNECTED,
            "06 04 18 18 18000000",
            field::PDU_BYTES,
            "a data PDU without data",
        ),
        (
            CONNECTED,
            "06 04 18 18 19200000",
            field::PDU_BYTES,
            "more data than allowed",
        ),
        (
            CONNECTED,
            "06 04 18 18 ffffffff",
            field::PDU_BYTES,
            "an endless PDU",
        ),
        (
            CONNECTED,
            "06 04 18 18 00000000",
            field::PDU_BYTES,
            "an empty PDU",
        ),
        (
            CONNECTED,
            "02 00 18 00 99000000",
            field::PDU_BYTES,
            "a long terminate request",
        ),
        (
            CONNECTED,
            "02 00 18 00 17000000",
            field::PDU_BYTES,
            "a short terminate request",
        ),
        (
            CONNECTED,
            "00 00 80 00 81000000",
            field::PDU_BYTES,
            "a long ICReq",
        ),
    ];
    for (rules, header, offset, what) in cases {
        assert_eq!(
            check(rules, header),
            Err(FatalError::invalid_field(offset)),
            "{what}"
        );
    }
}

/// NVMe 2.0 §5.17.2.1, §5.17.2.8 and §5.27.1.28: NWPC, NSATTR and the feature.
#[test]
fn write_protection_is_where_the_specification_has_it() {
    let mut controller = ControllerData::new_zeroed();
    controller.write_protection = nwpc::WRITE_PROTECT;
    assert_eq!(controller.as_bytes()[531], 1);
    let mut namespace = NamespaceData::new_zeroed();
    namespace.attributes = nsattr::WRITE_PROTECTED;
    assert_eq!(namespace.as_bytes()[99], 1);
    let mut independent = IndependentNamespaceData::new_zeroed();
    independent.attributes = nsattr::WRITE_PROTECTED;
    assert_eq!(independent.as_bytes()[8], 1);
    let entry = SubmissionEntry::new(AdminOpcode::SET_FEATURES.0, 7, SglDescriptor::transport(0));
    let mut set = *Features::of(&entry);
    set.feature = Feature::WRITE_PROTECTION;
    set.value = ProtectionState::WRITE_PROTECT.0.into();
    let bytes = set.as_bytes();
    assert_eq!((bytes[4], bytes[40], bytes[44]), (7, 0x84, 1));
    // The other bits are reserved.
    let states = [0, 1, 2, 3].map(|state| ProtectionState::from_value(state | 0xffff_fff8));
    assert_eq!(states.map(|state| state.0), [0, 1, 2, 3]);
    assert_eq!(Status::NAMESPACE_WRITE_PROTECTED.0, 0x20);
}
