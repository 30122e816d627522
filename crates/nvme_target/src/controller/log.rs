//! Get Log Page (NVMe 2.0 §5.16).

use std::collections::BTreeMap;

use block::{BlockDevice, Buffer};
use nvme::Status;
use nvme::command::ALL_NAMESPACES;
use nvme::event::AsyncEvent;
use nvme::log::{
    ANA_GROUPS_ONLY, AnaGroup, AnaHeader, ChangedNamespaces, FirmwareSlots, GetLogPage, LogPage,
    REMOVE_COMPLETED, SmartHealth, SupportedPages,
};
use nvme::text::padded;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use super::identify::FIRMWARE;
use super::{Controller, Kind, effects};
use crate::paths::{AnaGroupId, GROUPS_MAX, Paths};
use crate::session::Session;
use crate::transport::Reply;
use crate::view::View;

/// The changed namespace list holds this many; more are said by FFFFFFFFh.
const CHANGED_NAMESPACES_MAX: usize = 1024;

/// The composite temperature, kelvin: 25 degrees Celsius. A subsystem stands on drives of several
/// kinds, or on files, and none of them says how warm it is; 0 K would be shown as -273 degrees.
const TEMPERATURE: u16 = 298;

/// Bytes of a unit in the SMART log: a thousand 512-byte blocks.
const DATA_UNIT_BYTES: u64 = 512_000;

const IO_PAGES: [LogPage; 11] = [
    LogPage::SUPPORTED,
    LogPage::ERROR,
    LogPage::SMART,
    LogPage::FIRMWARE,
    LogPage::CHANGED_NAMESPACES,
    LogPage::COMMAND_EFFECTS,
    LogPage::ANA,
    LogPage::RESERVATION,
    LogPage::FEATURE_EFFECTS,
    LogPage::MANAGEMENT_EFFECTS,
    LogPage::CROSS_RESETS,
];

/// Where a read of the discovery log may begin, however short it is: zeroes follow its end.
const DISCOVERY_READABLE_BYTES: usize = 1 << 20;

const _: () = assert!(
    size_of::<AnaHeader>() + GROUPS_MAX * size_of::<AnaGroup>() <= 4096,
    "tools read the room for the ANA log in one piece"
);

const DISCOVERY_PAGES: [LogPage; 2] = [LogPage::SUPPORTED, LogPage::DISCOVERY];

impl<D: BlockDevice + 'static> Controller<D> {
    pub(super) async fn log_page(
        &self,
        command: &GetLogPage,
        session: &Session<D>,
    ) -> Result<Reply, Status> {
        if command.offset_type & 0x80 != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let bytes = command.bytes();
        if bytes > u64::from(command.data.length.get()) {
            return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        }
        let page = match &self.kind {
            Kind::Io(subsystem) => self.io_log_page(command, subsystem, session).await?,
            Kind::Discovery(_) => match command.page {
                LogPage::SUPPORTED => supported(&DISCOVERY_PAGES),
                LogPage::DISCOVERY => crate::discovery::log(&session.core, self),
                _ => return Err(Status::INVALID_LOG_PAGE.do_not_retry()),
            },
        };
        // The discovery log may have become shorter since a host read its header.
        let readable = match command.page {
            LogPage::DISCOVERY => page.len().max(DISCOVERY_READABLE_BYTES),
            _ => page.len(),
        };
        let offset = command.offset.get();
        if !offset.is_multiple_of(4) || offset > readable as u64 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let reply = slice(&page, offset, bytes as usize);
        // Of what a host is told only.
        if command.page == LogPage::CROSS_RESETS && command.specific & REMOVE_COMPLETED != 0 {
            let read = offset..offset.saturating_add(bytes);
            self.cross_resets.borrow_mut().remove_completed(read);
        }
        if !command.retains_event() {
            self.was_read(command, bytes >= page.len() as u64);
        }
        self.send_events();
        Ok(reply)
    }

    /// A page was read and its event may go: what the page said is said.
    fn was_read(&self, command: &GetLogPage, whole: bool) {
        self.events.borrow_mut().read(command.page);
        match command.page {
            LogPage::CHANGED_NAMESPACES => self.changed_namespaces.borrow_mut().clear(),
            LogPage::RESERVATION => {
                if whole && command.offset.get() == 0 {
                    self.notices.borrow_mut().pop();
                }
                if self.notices.borrow().is_waiting() {
                    self.raise(AsyncEvent::RESERVATION);
                }
            }
            _ => {}
        }
    }

    async fn io_log_page(
        &self,
        command: &GetLogPage,
        subsystem: &View<D>,
        session: &Session<D>,
    ) -> Result<Vec<u8>, Status> {
        Ok(match command.page {
            LogPage::SUPPORTED if self.drive().is_some() => {
                supported(&[&IO_PAGES[..], &[LogPage::ENDURANCE_GROUP]].concat())
            }
            LogPage::SUPPORTED => supported(&IO_PAGES),
            LogPage::ERROR => session
                .core
                .account(subsystem, None)
                .await
                .errors
                .as_bytes()
                .to_vec(),
            LogPage::SMART => {
                let health = self
                    .smart(command.namespace_id.get(), subsystem, session)
                    .await?;
                self.drive_smart(health).await?.as_bytes().to_vec()
            }
            LogPage::ENDURANCE_GROUP => {
                let health = self.smart(ALL_NAMESPACES, subsystem, session).await?;
                let log = self.endurance_group(command, health).await?;
                log.as_bytes().to_vec()
            }
            LogPage::FIRMWARE => firmware(),
            LogPage::CHANGED_NAMESPACES => self.changed_list(),
            LogPage::COMMAND_EFFECTS => effects::of_commands(self.drive().is_some()),
            LogPage::FEATURE_EFFECTS => effects::of_features(
                self.drive().is_some(),
                self.has_write_cache(),
                self.offers_protection(&session.core),
            ),
            // There is no NVMe-MI; LPA bit 5 has the page all the same.
            LogPage::MANAGEMENT_EFFECTS => SupportedPages::new_zeroed().as_bytes().to_vec(),
            LogPage::ANA => ana(
                command.specific & ANA_GROUPS_ONLY != 0,
                subsystem,
                &self.paths,
            ),
            LogPage::RESERVATION => self.notices.borrow().page().as_bytes().to_vec(),
            LogPage::CROSS_RESETS => self.cross_resets.borrow().page(),
            _ => return Err(Status::INVALID_LOG_PAGE.do_not_retry()),
        })
    }

    /// SMART of one namespace, or of the controller (NSID 0 or FFFFFFFFh).
    async fn smart(
        &self,
        id: u32,
        subsystem: &View<D>,
        session: &Session<D>,
    ) -> Result<SmartHealth, Status> {
        let nsid = Some(id).filter(|id| *id != 0 && *id != ALL_NAMESPACES);
        // What a drive counts, it counts for all of it, as LPA says.
        if nsid.is_some() && self.drive().is_some() {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        if nsid.is_some_and(|id| subsystem.namespace(id).is_none()) {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        let account = session.core.account(subsystem, nsid).await;
        let units = |bytes: u64| u128::from(bytes.div_ceil(DATA_UNIT_BYTES));
        let mut health = SmartHealth::new_zeroed();
        health.temperature = U16::new(TEMPERATURE);
        health.spare = 100;
        health.spare_threshold = 10;
        health.read_commands = u128::from(account.reads).into();
        health.write_commands = u128::from(account.writes).into();
        health.data_units_read = units(account.read_bytes).into();
        health.data_units_written = units(account.write_bytes).into();
        health.media_errors = u128::from(account.error_count).into();
        health.error_entries = u128::from(account.error_count).into();
        let uptime = reactor::now() - session.core.started;
        health.power_on_hours = u128::from(uptime.as_secs() / 3600).into();
        Ok(health)
    }

    fn changed_list(&self) -> Vec<u8> {
        let changed = self.changed_namespaces.borrow();
        let mut list = ChangedNamespaces::new_zeroed();
        if changed.len() > CHANGED_NAMESPACES_MAX {
            if let Some(first) = list.namespaces.first_mut() {
                *first = U32::new(ALL_NAMESPACES);
            }
        } else {
            for (into, id) in list.namespaces.iter_mut().zip(changed.iter()) {
                *into = U32::new(*id);
            }
        }
        list.as_bytes().to_vec()
    }
}

/// The part of a page that was asked for; beyond its end there are zeroes.
fn slice(page: &[u8], offset: u64, bytes: usize) -> Reply {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = page.get(start..).unwrap_or_default();
    let said = rest.get(..bytes).unwrap_or(rest);
    Reply {
        zeroes: bytes - said.len(),
        ..Reply::data(Buffer::copy_of(said))
    }
}

fn supported(pages: &[LogPage]) -> Vec<u8> {
    let mut data = SupportedPages::new_zeroed();
    for page in pages {
        if let Some(entry) = data.pages.get_mut(usize::from(page.0)) {
            *entry = U32::new(1);
        }
    }
    data.as_bytes().to_vec()
}

fn firmware() -> Vec<u8> {
    let mut data = FirmwareSlots::new_zeroed();
    data.active = 1;
    if let Some(first) = data.revisions.first_mut() {
        *first = padded(FIRMWARE);
    }
    data.as_bytes().to_vec()
}

/// The groups of which the host sees a namespace, with these, in the states of its port
/// (NVMe 2.1 §5.1.12.1.13).
fn ana<D: BlockDevice + 'static>(groups_only: bool, seen: &View<D>, paths: &Paths) -> Vec<u8> {
    let mut groups: BTreeMap<AnaGroupId, Vec<U32>> = BTreeMap::new();
    for (nsid, namespace) in seen.namespaces.borrow().iter() {
        let members = groups.entry(namespace.settings.group).or_default();
        members.push(U32::new(*nsid));
    }
    // Of groups that are gone as well, so that the count of the page never falls.
    let changes: BTreeMap<AnaGroupId, u64> = seen
        .changes()
        .into_iter()
        .map(|(group, changes)| (group, changes + paths.changes_of(group)))
        .collect();
    let header = AnaHeader {
        change_count: U64::new(1 + changes.values().sum::<u64>()),
        groups: U16::new(groups.len() as u16),
        reserved: [0; 6],
    };
    let mut page = header.as_bytes().to_vec();
    for (id, mut members) in groups {
        if groups_only {
            members.clear();
        }
        let group = AnaGroup {
            group: U32::new(id.number()),
            namespaces: U32::new(members.len() as u32),
            change_count: U64::new(1 + changes.get(&id).copied().unwrap_or_default()),
            state: paths.state_of(id).ana(),
            reserved: [0; 15],
        };
        page.extend_from_slice(group.as_bytes());
        page.extend_from_slice(members.as_bytes());
    }
    page
}
