//! Keeps a controller: keep alive, events, and getting it back when it is lost.

use std::rc::Rc;
use std::time::Duration;

use nvme::event::AsyncEvent;
use nvme::{AdminOpcode, SglDescriptor, SubmissionEntry};
use reactor::{CancelOnDrop, now, sleep, spawn, timeout};

use crate::connection::Data;
use crate::controller::{Shared, State};
use crate::establish::Session;
use crate::fence::Fence;
use crate::queue::QueuePair;
use crate::{LossReason, Reconnect};

/// Runs as long as the controller does.
pub(crate) async fn supervise(shared: Rc<Shared>) {
    loop {
        let Some(session) = shared.session.borrow().clone() else {
            return;
        };
        let reason = watch(&shared, &session).await;
        session.close(reason);
        if !session.io.is_empty() {
            let keep_alive = shared.options.keep_alive;
            shared.fence.add(&session, keep_alive, reason);
        }
        drop(session);
        shared.session.borrow_mut().take();
        let Some(policy) = shared.options.reconnect.filter(|_| !reason.lasts()) else {
            return shared.end(reason);
        };
        shared.state.set(State::Connecting);
        shared.changed.notify_all();
        match reconnect(&shared, policy, reason).await {
            Ok(session) => {
                *shared.session.borrow_mut() = Some(Rc::new(session));
                shared.failure.take();
                shared.state.set(State::Live);
                shared.changed.notify_all();
            }
            Err(reason) => return shared.end(reason),
        }
    }
}

/// Returns when the session is lost, with the reason.
async fn watch(shared: &Rc<Shared>, session: &Rc<Session>) -> LossReason {
    let _fence = background(Fence::lift(Rc::clone(session), Rc::clone(shared)));
    let _keep_alive = shared
        .options
        .keep_alive
        .map(|time| background(keep_alive(session.admin.clone(), time)));
    let _events = shared
        .options
        .async_events
        .then(|| background(collect_events(session.admin.clone(), Rc::clone(shared))));
    loop {
        let mut queues = session.io.iter().chain([&session.admin]);
        if let Some(reason) = queues.find_map(QueuePair::loss) {
            return reason;
        }
        session.lost.notified().await;
    }
}

fn background(future: impl Future<Output = ()> + 'static) -> CancelOnDrop<()> {
    spawn(future).cancel_on_drop()
}

/// Tries until a controller is back. It is given up once every path refuses for good or the time is
/// over, which is the end or, if the policy says so, makes I/O fail until it is back after all.
async fn reconnect(
    shared: &Shared,
    policy: Reconnect,
    lost: LossReason,
) -> Result<Session, LossReason> {
    let deadline = now() + policy.controller_loss_timeout;
    let mut delay = policy.delay;
    loop {
        let lasts = match try_paths(shared).await {
            Ok(session) => return Ok(session),
            Err(lasts) => lasts,
        };
        let given_up = lasts.or_else(|| (now() >= deadline).then_some(lost));
        if let Some(reason) = given_up
            && shared.state.get() != State::Failing(reason)
        {
            delay = policy.afterwards.ok_or(reason)?;
            shared.state.set(State::Failing(reason));
            shared.changed.notify_all();
        }
        sleep(delay).await;
    }
}

/// Tries each path once, and the one that was lost last of all: whatever ended it may go on. Fails
/// with a reason if each of them refuses for good.
async fn try_paths(shared: &Shared) -> Result<Session, Option<LossReason>> {
    let (paths, lost) = (&shared.paths, shared.path.get());
    let mut lasting = Vec::new();
    for path in (1..=paths.len()).map(|step| (lost + step) % paths.len()) {
        let attempt =
            Session::establish_in_time(paths[path], &shared.subsystem_nqn, &shared.options);
        match attempt.await {
            Ok(session) => {
                shared.path.set(path);
                return Ok(session);
            }
            Err(failure) => {
                lasting.push(failure.lasts());
                shared.failure.replace(Some(failure));
            }
        }
    }
    let reasons: Option<Vec<LossReason>> = lasting.into_iter().collect();
    Err(reasons.and_then(|reasons| reasons.last().copied()))
}

fn plain(opcode: AdminOpcode) -> SubmissionEntry {
    SubmissionEntry::new(opcode.0, 0, SglDescriptor::transport(0))
}

/// NVMe 2.0 §3.9: a command every half timeout, so that one lost to delay does not end it.
async fn keep_alive(admin: QueuePair, time: Duration) {
    loop {
        sleep(time / 2).await;
        let answer = timeout(
            time,
            admin.submit(plain(AdminOpcode::KEEP_ALIVE), Data::None),
        )
        .await;
        match answer {
            Ok((_, Ok(completion))) if completion.status().is_success() => {}
            Ok((_, Err(_))) => return,
            _ => return admin.close(LossReason::Silent),
        }
    }
}

async fn collect_events(admin: QueuePair, shared: Rc<Shared>) {
    loop {
        let request = plain(AdminOpcode::ASYNC_EVENT_REQUEST);
        let (_, Ok(completion)) = admin.submit(request, Data::None).await else {
            return;
        };
        if !completion.status().is_success() {
            return;
        }
        shared.keep_event(AsyncEvent::from_result(completion.result.get() as u32));
    }
}
