//! How an I/O queue joins its controller, which may live on another core, and leaves it.

use block::BlockDevice;
use nvme::Status;
use nvme::fabrics::connect_offset;
use reactor::sync::oneshot;

use crate::home::{AttachRequest, Joined, Message, QueuePlace, Refusal};
use crate::per_core::{ANSWER_TIMEOUT, Core};
use crate::report::RefusalReason;

/// What the controller's core says.
pub(crate) type Answer = Result<Joined, Refusal>;

impl<D: BlockDevice + 'static> Core<D> {
    /// Asks the controller's core whether an I/O queue may join.
    pub async fn attach(&self, request: AttachRequest) -> Answer {
        let home = self.identifiers.core_of(request.controller_id);
        if home == self.identifiers.index {
            return self.attach_here(request);
        }
        let token = self.next_token();
        let (sender, receiver) = oneshot::channel();
        self.answers.borrow_mut().insert(token, sender);
        let (controller_id, queue_id) = (request.controller_id, request.queue_id);
        let session = request.place.session;
        self.post(home, Message::Attach { token, request });
        let answer = reactor::timeout(ANSWER_TIMEOUT, receiver).await;
        self.answers.borrow_mut().remove(&token);
        if let Ok(Ok(answer)) = answer {
            return answer;
        }
        // Whatever that core makes of it later, this connection does not wait for it.
        self.detach(controller_id, queue_id, session);
        Err(Refusal::passing(
            Status::CONNECT_CONTROLLER_BUSY,
            RefusalReason::Late,
        ))
    }

    /// None of its refusals lasts: a host whose controller was lost while it connected its queues
    /// finds it gone, or its number another's, and gets a new one when it comes again.
    pub fn attach_here(&self, request: AttachRequest) -> Answer {
        let reason = RefusalReason::NoController;
        let other = |offset| Err(Refusal::absent(offset, reason));
        let controllers = self.controllers.borrow();
        let controller = controllers.get(&request.controller_id);
        let Some(controller) = controller.filter(|controller| !controller.is_discovery()) else {
            return other(connect_offset::CONTROLLER_ID);
        };
        if controller.subsystem_nqn != request.subsystem_nqn {
            return other(connect_offset::SUBSYSTEM_NQN);
        }
        if controller.host_nqn != request.host_nqn {
            return other(connect_offset::HOST_NQN);
        }
        if controller.host_id != request.host_id {
            return other(connect_offset::HOST_ID);
        }
        if !controller.is_ready() || controller.queues.borrow().contains_key(&request.queue_id) {
            return Err(Refusal::passing(Status::COMMAND_SEQUENCE_ERROR, reason));
        }
        if request.joins {
            let mut queues = controller.queues.borrow_mut();
            queues.insert(request.queue_id, request.place);
        }
        Ok(Joined {
            instance: controller.instance.get(),
            behaviour: controller.features.borrow().behaviour.clone(),
        })
    }

    /// Tells the controller's core that a queue's connection is gone.
    pub fn detach(&self, controller_id: u16, queue_id: u16, session: u64) {
        let place = QueuePlace {
            core: self.identifiers.index,
            session,
        };
        let home = self.identifiers.core_of(controller_id);
        if home == place.core {
            self.detach_here(controller_id, queue_id, place);
        } else {
            self.post(
                home,
                Message::Detach {
                    controller_id,
                    queue_id,
                    place,
                },
            );
        }
    }

    pub fn detach_here(&self, controller_id: u16, queue_id: u16, place: QueuePlace) {
        if let Some(controller) = self.controllers.borrow().get(&controller_id) {
            let mut queues = controller.queues.borrow_mut();
            if queues.get(&queue_id) == Some(&place) {
                queues.remove(&queue_id);
            }
        }
    }
}
