//! Write data on its way: R2T windows, and room for them.

use block::Buffer;
use nvme::pdu::{CommonHeader, DataHeader, PduType, ReadyToTransfer, flags};
use nvme::rdma::KeyedDataBlock;
use nvme::{FatalError, FatalErrorStatus, PduLayout, Status, SubmissionEntry, field};
use zerocopy::little_endian::{U16, U32};

use super::connection::{Connection, PRESSED_BYTES, Payload, Receiving, Slot, SlotState};
use crate::portions::Room;

/// R2Ts that this end has outstanding for one command at most, even if the host allows more.
pub(super) const WINDOWS: usize = 4;

/// A command whose data is on its way.
#[derive(Debug)]
pub(super) struct Transfer {
    pub entry: SubmissionEntry,
    /// The host's memory that the data is in, or goes to, where RDMA reaches it.
    pub remote: Option<KeyedDataBlock>,
    /// Where the data goes; lent out while a driver receives straight into it.
    pub data: Option<Buffer>,
    /// Bytes of data in all.
    pub length: u32,
    pub received: u32,
    /// Bytes that R2Ts asked for so far.
    pub requested: u32,
    pub windows: [Window; WINDOWS],
    /// Bytes counted against the limit on write data.
    pub granted_bytes: usize,
    /// The command ends with this status once its data is in, instead of being executed.
    pub refused: Option<Status>,
}

/// What one R2T asked for and has not come yet; empty when unused.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub at: u32,
    pub end: u32,
}

impl Transfer {
    pub fn of(entry: &SubmissionEntry) -> Transfer {
        Transfer {
            entry: *entry,
            remote: None,
            data: None,
            length: 0,
            received: 0,
            requested: 0,
            windows: [Window::default(); WINDOWS],
            granted_bytes: 0,
            refused: None,
        }
    }
}

impl Connection {
    /// Write data of `length` bytes is to be asked for, now or when there is room for it.
    pub(super) fn start_transfer(&mut self, index: u16, length: u32) {
        let Some(slot) = self.slots.get_mut(usize::from(index)) else {
            return;
        };
        slot.state = SlotState::Transferring;
        slot.transfer.length = length;
        let nsid = slot.transfer.entry.namespace_id.get();
        let room = self.write_room();
        let granted = self.writes.take(nsid, length as usize, room, index);
        if granted.is_some() {
            self.grant(index);
        }
    }

    /// Asks for data that waits, as long as there is room for it.
    pub(super) fn grant_waiting(&mut self) {
        let room = self.write_room();
        while let Some(index) = self.writes.next(room) {
            self.grant(index);
        }
    }

    fn write_room(&self) -> Room {
        let most = self.settings.write_bytes_max;
        Room {
            bytes: match self.pressed {
                true => PRESSED_BYTES.min(most),
                false => most,
            },
            used: 0,
            is_scarce: self.pressed,
        }
    }

    fn grant(&mut self, index: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.transfer.granted_bytes = slot.transfer.length as usize;
            match slot.transfer.remote {
                Some(remote) => self.fetch(index, remote),
                None => self.request_data(index),
            }
        }
    }

    /// Sends the R2Ts that the host's limit allows for one command.
    fn request_data(&mut self, index: u16) {
        let allowed = usize::from(self.transfers_per_command).min(WINDOWS);
        for number in 0..allowed {
            let Some(slot) = self.slots.get_mut(usize::from(index)) else {
                return;
            };
            let transfer = &mut slot.transfer;
            let Some(window) = transfer.windows.get_mut(number) else {
                return;
            };
            let rest = transfer.length - transfer.requested;
            if window.at < window.end || rest == 0 {
                continue;
            }
            let length = rest.min(self.settings.ready_to_transfer_bytes);
            window.at = transfer.requested;
            window.end = transfer.requested + length;
            transfer.requested += length;
            self.requests_open += 1;
            self.bytes_awaited += length as usize;
            let request = ReadyToTransfer {
                common: CommonHeader::new(PduType::READY_TO_TRANSFER, 24),
                command_id: U16::new(slot.command_id),
                transfer_tag: U16::new(index << 2 | number as u16),
                offset: U32::new(window.at),
                length: U32::new(length),
                reserved: [0; 4],
            };
            self.push_ready_to_transfer(request);
        }
    }

    /// An H2CData header came: finds the transfer it belongs to.
    pub(super) fn host_data(
        &mut self,
        layout: &PduLayout,
        header: &DataHeader,
    ) -> Result<Receiving, FatalError> {
        let (offset, length) = (header.offset.get(), header.length.get());
        if length != layout.data_bytes {
            return Err(FatalError::invalid_field(field::LENGTH));
        }
        if length > self.settings.host_data_bytes_max {
            return Err(FatalError::of(FatalErrorStatus::LIMIT_EXCEEDED));
        }
        let tag = header.transfer_tag.get();
        let asked = self.slots.get(usize::from(tag >> 2));
        let Some(window) = asked.and_then(|slot| slot.open_window(tag & 0b11)) else {
            return Err(self.unasked());
        };
        let unknown = FatalError::invalid_field(field::TRANSFER_TAG);
        let slot = self.slots.get_mut(usize::from(tag >> 2)).ok_or(unknown)?;
        if slot.command_id != header.command_id.get() {
            return Err(FatalError::invalid_field(field::COMMAND_ID));
        }
        let end = offset.checked_add(length).filter(|end| *end <= window.end);
        let (Some(end), true) = (end, offset == window.at) else {
            return Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE));
        };
        if (layout.flags & flags::LAST_PDU != 0) != (end == window.end) {
            return Err(FatalError::invalid_field(field::FLAGS));
        }
        // Not when it was asked for: most memory is used again as soon as a command is done, while
        // the processor's caches still have it.
        let transfer = &mut slot.transfer;
        let bytes = transfer.length as usize;
        transfer.data.get_or_insert_with(|| Buffer::new(bytes));
        Ok(Receiving::Data(Payload {
            slot: tag >> 2,
            window: Some((tag & 0b11) as u8),
            padding: padding(layout),
            at: offset,
            end,
            digest: layout.data_digest.then(nvme::RunningDigest::new),
        }))
    }

    /// What is wrong with data for a tag that has no window: the tag, or all of the PDU where no
    /// data is awaited at all.
    fn unasked(&self) -> FatalError {
        match self.slots.iter().any(Slot::awaits_data) {
            true => FatalError::invalid_field(field::TRANSFER_TAG),
            false => FatalError::sequence(),
        }
    }

    /// All data of one PDU came, and its digest, if there was one, matched or not.
    pub(super) fn payload_done(&mut self, payload: Payload, intact: bool) {
        let Some(slot) = self.slots.get_mut(usize::from(payload.slot)) else {
            return;
        };
        let transfer = &mut slot.transfer;
        if !intact {
            // NVMe/TCP 1.0 §3.3.1.2: a data digest error ends the command, not the connection.
            transfer.refused = transfer.refused.or(Some(Status::TRANSIENT_TRANSPORT_ERROR));
        }
        match payload.window.map(usize::from) {
            None => transfer.received = transfer.length,
            Some(number) => {
                let Some(window) = transfer.windows.get_mut(number) else {
                    return;
                };
                let came = payload.end - window.at;
                transfer.received += came;
                window.at = payload.end;
                self.bytes_awaited -= came as usize;
                self.requests_open -= usize::from(window.at == window.end);
            }
        }
        if transfer.received == transfer.length {
            self.data_complete(payload.slot);
        } else {
            self.request_data(payload.slot);
        }
    }
}

impl Slot {
    fn open_window(&self, number: u16) -> Option<Window> {
        let window = *self.transfer.windows.get(usize::from(number))?;
        (self.state == SlotState::Transferring && window.at < window.end).then_some(window)
    }

    fn awaits_data(&self) -> bool {
        let mut numbers = 0..self.transfer.windows.len() as u16;
        numbers.any(|number| self.open_window(number).is_some())
    }
}

/// Bytes between the header (with its digest) and the data.
pub(super) fn padding(layout: &PduLayout) -> u32 {
    let digest_bytes = if layout.header_digest { 4 } else { 0 };
    layout.data_offset - layout.header_bytes - digest_bytes
}
