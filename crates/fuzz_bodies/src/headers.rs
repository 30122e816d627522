//! PDU headers: a layout that is accepted must hold together.

use nvme::pdu::{CommonHeader, DIGEST_BYTES, PduType};
use nvme::{HeaderRules, PduLayout, Receiver};
use zerocopy::{FromBytes, IntoBytes};

use crate::Input;

/// Checks headers in `bytes` under rules in `bytes`.
pub fn headers(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let rules = HeaderRules {
        receiver: input.choice(&[Receiver::Controller, Receiver::Host]),
        header_digest: input.byte() & 1 != 0,
        data_digest: input.byte() & 1 != 0,
        data_alignment_bytes: (u32::from(input.byte() % 32) + 1) * 4,
        data_bytes_max: input.word(),
    };
    while !input.is_empty() {
        let chunk = input.take(size_of::<CommonHeader>());
        let Ok(header) = CommonHeader::read_from_bytes(chunk) else {
            return;
        };
        if let Ok(layout) = rules.layout(&header) {
            holds_together(&rules, &layout, &header);
        }
    }
}

fn holds_together(rules: &HeaderRules, layout: &PduLayout, header: &CommonHeader) {
    let trailer = if layout.data_digest {
        DIGEST_BYTES as u32
    } else {
        0
    };
    let front = if layout.header_digest {
        DIGEST_BYTES as u32
    } else {
        0
    };
    assert!(layout.header_bytes + front <= layout.data_offset);
    assert_eq!(
        layout.data_offset + layout.data_bytes + trailer,
        layout.total_bytes
    );
    assert_eq!(layout.total_bytes, header.pdu_bytes.get());
    let terminates = matches!(
        layout.pdu_type,
        PduType::HOST_TERMINATE | PduType::CONTROLLER_TERMINATE
    );
    assert!(terminates || layout.data_bytes <= rules.data_bytes_max);
    assert!(layout.data_offset <= 255 && header.as_bytes().len() == 8);
}
