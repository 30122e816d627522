//! Properties (NVMe 2.0 §3.1.3): the registers of a fabrics controller.

use std::rc::Rc;

use block::BlockDevice;
use nvme::Status;
use nvme::fabrics::{
    Capabilities, Configuration, Property, PropertyOffset, SUBSYSTEM_RESET, VERSION_2_0,
    controller_status,
};

use super::Controller;
use crate::report::CloseReason;
use crate::session::{Role, Session};
use crate::subsystem_reset::FAREWELL;
use crate::transport::Reply;

/// TO: a controller is ready at once; hosts get 7.5 s all the same.
const READY_TIMEOUT_500MS: u8 = 15;

/// Log2 of the sizes of queue entries (IOSQES, IOCQES).
const ENTRY_SIZES: (u8, u8) = (6, 4);

/// SHN of a normal shutdown.
const NORMAL_SHUTDOWN: u8 = 1;

impl<D: BlockDevice + 'static> Controller<D> {
    pub(super) fn property_get(&self, command: &Property, queue_entries_max: u16) -> Reply {
        let wide = command.attributes & 0b111 == 1;
        let capabilities = Capabilities::new(queue_entries_max, READY_TIMEOUT_500MS);
        let capabilities = match self.is_discovery() {
            true => capabilities,
            false => capabilities.with_subsystem_reset(),
        };
        let value = match (PropertyOffset(command.offset.get()), wide) {
            (PropertyOffset::CAPABILITIES, true) => capabilities.0,
            (PropertyOffset::VERSION, false) => u64::from(VERSION_2_0),
            (PropertyOffset::CONFIGURATION, false) => u64::from(self.configuration.get().0),
            (PropertyOffset::STATUS, false) => {
                let occurred = controller_status::SUBSYSTEM_RESET_OCCURRED;
                let shown = if self.was_reset.get() { occurred } else { 0 };
                u64::from(self.status.get() | shown)
            }
            (PropertyOffset::SUBSYSTEM_RESET, false) => 0,
            // CRWMT; CRIMT is not supported.
            (PropertyOffset::READY_TIMEOUTS, false) => u64::from(READY_TIMEOUT_500MS),
            _ => return Reply::status(Status::INVALID_FIELD.do_not_retry()),
        };
        Reply::result(value)
    }

    pub(super) fn property_set(&self, command: &Property, session: &Rc<Session<D>>) -> Reply {
        let offset = PropertyOffset(command.offset.get());
        let four_bytes = command.attributes & 0b111 == 0;
        let value = command.value.get() as u32;
        match offset {
            PropertyOffset::CONFIGURATION if four_bytes => {
                self.configure(Configuration(value), session);
            }
            // All else in there is read only.
            PropertyOffset::STATUS if four_bytes && !self.is_discovery() => {
                if value & controller_status::SUBSYSTEM_RESET_OCCURRED != 0 {
                    self.was_reset.set(false);
                }
            }
            PropertyOffset::SUBSYSTEM_RESET if four_bytes && !self.is_discovery() => {
                if value == SUBSYSTEM_RESET {
                    self.reset_subsystem(session);
                }
            }
            _ => return Reply::status(Status::INVALID_FIELD.do_not_retry()),
        }
        Reply::success()
    }

    /// NSSR was written: all that the host has of the subsystem ends, this controller last.
    fn reset_subsystem(&self, session: &Rc<Session<D>>) {
        session.core.reset_subsystem(self);
        self.configuration.take();
        self.reset(session);
        self.was_reset.set(true);
        let session = Rc::downgrade(session);
        drop(reactor::spawn(async move {
            reactor::sleep(FAREWELL).await;
            if let Some(session) = session.upgrade() {
                session.close(CloseReason::Controller);
            }
        }));
    }

    /// CC was written.
    fn configure(&self, new: Configuration, session: &Session<D>) {
        let old = self.configuration.replace(new);
        if new.enabled() && !old.enabled() {
            self.instance.set(session.core.next_instance(self.id));
            self.status.set(if self.is_supported(new) {
                controller_status::READY
            } else {
                controller_status::FATAL
            });
        }
        if !new.enabled() && old.enabled() {
            self.reset(session);
        }
        if new.shutdown() != 0 && old.shutdown() == 0 {
            self.shut_down(new.shutdown(), session);
        }
    }

    /// SHN was written (NVMe 2.0 §3.6.1). A normal shutdown is complete once what devices hold in
    /// volatile caches is safe; an abrupt one is at once.
    fn shut_down(&self, shutdown: u8, session: &Session<D>) {
        let status = self.status.get();
        match session.role.get() {
            Some(Role::Admin(this)) if shutdown == NORMAL_SHUTDOWN && self.has_write_cache() => {
                self.status
                    .set(status | controller_status::SHUTDOWN_OCCURRING);
                let this = Rc::clone(this);
                let flushing = reactor::spawn(async move {
                    this.flush_caches().await;
                    let left = this.status.get() & !controller_status::SHUTDOWN_OCCURRING;
                    this.status.set(left | controller_status::SHUTDOWN_COMPLETE);
                });
                self.flushing.replace(Some(flushing.cancel_on_drop()));
            }
            _ => self
                .status
                .set(status | controller_status::SHUTDOWN_COMPLETE),
        }
    }

    /// Flushes what caches. A device that fails to has said so to its drive's owner, and a host
    /// that shuts down could do nothing about it.
    async fn flush_caches(&self) {
        let Some(view) = self.subsystem() else { return };
        let all: Vec<_> = view.namespaces.borrow().values().cloned().collect();
        for namespace in all {
            if namespace.geometry().volatile_write_cache && view.still_has(&namespace) {
                let _entered = namespace.in_flight.enter();
                let _ = namespace.device.flush().await;
            }
        }
    }

    /// Discovery controllers have no I/O queues, so hosts may leave the entry sizes at zero.
    fn is_supported(&self, configuration: Configuration) -> bool {
        let sizes = (
            configuration.submission_entry_size(),
            configuration.completion_entry_size(),
        );
        let sizes_fit = sizes == ENTRY_SIZES || self.is_discovery() && sizes == (0, 0);
        sizes_fit
            && configuration.command_set() == 0
            && configuration.page_size() == 0
            && configuration.arbitration() == 0
    }

    /// Controller reset (NVMe 2.0 §3.7.2): I/O queues go, the admin queue stays.
    fn reset(&self, session: &Session<D>) {
        self.flushing.take();
        self.status.set(0);
        let tags = self.events.borrow_mut().abort_all();
        for tag in tags {
            session.respond(tag, Reply::status(Status::ABORTED_QUEUE_DELETION));
        }
        self.events.take();
        self.features.take();
        self.set_keep_alive(self.connect_keep_alive_ms);
        self.changed_namespaces.borrow_mut().clear();
        self.notices.take();
        self.cross_resets.take();
        session.core.close_queues(self);
    }
}
