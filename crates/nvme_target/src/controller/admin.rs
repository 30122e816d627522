//! Commands of the admin queue, once Connect has made a controller.

use std::rc::Rc;

use block::BlockDevice;
use nvme::command::{ALL_NAMESPACES, Abort, CrossControllerReset, SubmissionEntry, command_flags};
use nvme::fabrics::{Fabrics, FabricsType, Property};
use nvme::feature::{Feature, Features};
use nvme::identify::Identify;
use nvme::log::GetLogPage;
use nvme::{AdminOpcode, Status};

use super::Controller;
use super::of_namespace::is_of_namespace;
use crate::connect;
use crate::session::Session;
use crate::transport::{Command, Reply};

/// Result of Abort: the command was not aborted.
const NOT_ABORTED: u64 = 1;

impl<D: BlockDevice + 'static> Controller<D> {
    /// Executes an admin command. `None`: it is answered later, by an event.
    pub async fn execute(&self, session: &Rc<Session<D>>, command: Command) -> Option<Reply> {
        self.last_seen.set(reactor::turn_started());
        let entry = &command.entry;
        let result = if entry.flags & command_flags::FUSED_MASK != 0 {
            Err(Status::INVALID_FIELD.do_not_retry())
        } else if entry.opcode == AdminOpcode::FABRICS.0 {
            self.fabrics(entry, session)
        } else if !self.is_ready() {
            Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry())
        } else if AdminOpcode(entry.opcode) == AdminOpcode::ASYNC_EVENT_REQUEST {
            let waits = self
                .events
                .borrow_mut()
                .wait(command.tag, entry.command_id.get());
            if waits.is_ok() {
                self.send_events();
                return None;
            }
            Err(Status::EVENT_REQUEST_LIMIT_EXCEEDED.do_not_retry())
        } else {
            self.admin_command(&command, session).await
        };
        Some(result.unwrap_or_else(Reply::status))
    }

    /// True when commands other than Fabrics are allowed.
    pub fn is_ready(&self) -> bool {
        self.status.get() & nvme::fabrics::controller_status::READY != 0
    }

    fn fabrics(&self, entry: &SubmissionEntry, session: &Rc<Session<D>>) -> Result<Reply, Status> {
        match Fabrics::of(entry).fabrics_type {
            FabricsType::PROPERTY_GET => {
                Ok(self.property_get(Property::of(entry), session.core.settings.queue_entries_max))
            }
            FabricsType::PROPERTY_SET => Ok(self.property_set(Property::of(entry), session)),
            FabricsType::CONNECT => Err(connect::refuse_another(session)),
            // Disconnect is for I/O queues (NVMe 2.0 §6.4).
            FabricsType::DISCONNECT => Err(Status::INVALID_QUEUE_TYPE.do_not_retry()),
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }

    async fn admin_command(
        &self,
        command: &Command,
        session: &Rc<Session<D>>,
    ) -> Result<Reply, Status> {
        let entry = &command.entry;
        match AdminOpcode(entry.opcode) {
            AdminOpcode::IDENTIFY => match self.drive() {
                Some(drive) => {
                    self.identify_drive(Identify::of(entry), &session.core, &drive)
                        .await
                }
                None => self.identify(Identify::of(entry), &session.core),
            },
            AdminOpcode::GET_LOG_PAGE => self.log_page(GetLogPage::of(entry), session).await,
            AdminOpcode::GET_FEATURES | AdminOpcode::SET_FEATURES
                if let Some(status) = self.feature_refusal(entry) =>
            {
                Err(status)
            }
            AdminOpcode::GET_FEATURES if self.has_rules(entry) => {
                self.get_namespace_feature(Features::of(entry), &session.core)
            }
            AdminOpcode::SET_FEATURES if self.has_rules(entry) => {
                self.set_namespace_feature(Features::of(entry), &session.core)
                    .await
            }
            AdminOpcode::GET_FEATURES => self.get_features(Features::of(entry), session),
            AdminOpcode::SET_FEATURES => {
                self.set_features(Features::of(entry), command.data.as_deref(), session)
            }
            AdminOpcode::KEEP_ALIVE => Ok(Reply::success()),
            AdminOpcode::NAMESPACE_MANAGEMENT | AdminOpcode::NAMESPACE_ATTACHMENT => {
                let drive = self.drive().ok_or(Status::INVALID_OPCODE.do_not_retry())?;
                self.change_namespaces(command, &drive).await
            }
            AdminOpcode::CROSS_CONTROLLER_RESET if !self.is_discovery() => {
                self.cross_reset(CrossControllerReset::of(entry), session)
                    .await
            }
            AdminOpcode::ABORT if !self.is_discovery() => Ok(self.abort(entry, session).await),
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }

    /// The status of a command about features that are not to be had on this path (NVMe 2.1
    /// §8.1.1.10): those of one namespace, and setting any for all of them. After a persistent
    /// loss nothing is set for that namespace.
    fn feature_refusal(&self, entry: &SubmissionEntry) -> Option<Status> {
        let nsid = entry.namespace_id.get();
        let sets = AdminOpcode(entry.opcode) == AdminOpcode::SET_FEATURES;
        let status = self.subsystem()?.refusal(nsid, &self.paths)?;
        let feature = Features::of(entry).feature;
        let is_refused = match nsid {
            ALL_NAMESPACES => sets,
            _ if sets && status == Status::ANA_PERSISTENT_LOSS => true,
            _ => feature == Feature::ERROR_RECOVERY || is_of_namespace(feature),
        };
        is_refused.then_some(status)
    }

    /// True when the command is about a feature of namespaces, and these have rules.
    fn has_rules(&self, entry: &SubmissionEntry) -> bool {
        let offered = !self.is_discovery() && self.drive().is_none();
        offered && is_of_namespace(Features::of(entry).feature)
    }

    /// Abort is best effort (NVMe 2.0 §5.1): event requests are taken back, and so is what waits on
    /// an I/O queue; commands that a device already has are left to end by themselves.
    async fn abort(&self, entry: &SubmissionEntry, session: &Session<D>) -> Reply {
        let command = Abort::of(entry);
        let command_id = command.command_id.get();
        let queue_id = command.submission_queue.get();
        if queue_id != 0 {
            let place = self.queues.borrow().get(&queue_id).copied();
            let is_aborted = match place {
                Some(place) => session.core.abort(place, command_id).await,
                None => false,
            };
            return Reply::result(if is_aborted { 0 } else { NOT_ABORTED });
        }
        let found = self.events.borrow_mut().abort(command_id);
        match found {
            Some(tag) => {
                session.respond(tag, Reply::status(Status::ABORT_REQUESTED));
                Reply::result(0)
            }
            None => Reply::result(NOT_ABORTED),
        }
    }
}
