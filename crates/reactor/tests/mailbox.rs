//! The mailbox between cores: its parts under a model checker, the whole between real reactors.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::rc::Rc;

use reactor::cores::{Cores, CoresConfig};
use reactor::mailbox::{TrySendError, channel};

/// The model checker's primitives, for the mailbox's own source below instead of the system's.
mod atomics {
    pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    pub(super) use shuttle::sync::{Mutex, MutexGuard};

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

#[allow(dead_code, reason = "the tests use a part of the source")]
#[path = "../src/mailbox/bell.rs"]
mod bell;
#[allow(dead_code, unsafe_code, reason = "the tests use a part of the source")]
#[path = "../src/mailbox/ring.rs"]
mod ring;

use bell::Bell;
use ring::Ring;

/// Schedules tried; the seed of a failing one is printed by the checker.
const SCHEDULES: usize = 5_000;

#[test]
fn every_message_arrives_once_and_in_its_senders_order() {
    shuttle::check_random(
        || {
            let ring = shuttle::sync::Arc::new(Ring::new(2));
            let senders: Vec<_> = (0..2_u32)
                .map(|sender| {
                    let ring = shuttle::sync::Arc::clone(&ring);
                    shuttle::thread::spawn(move || {
                        for number in 0..3_u32 {
                            let mut message = (sender, number);
                            while let Err(back) = ring.push(message) {
                                message = back;
                                shuttle::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let mut next = [0, 0];
            while next != [3, 3] {
                // SAFETY: this thread is the only one that receives.
                #[allow(unsafe_code, reason = "the one receiver")]
                let message = unsafe { ring.pop() };
                match message {
                    Some((sender, number)) => {
                        assert_eq!(number, next[sender as usize]);
                        next[sender as usize] += 1;
                    }
                    None => shuttle::thread::yield_now(),
                }
            }
            for sender in senders {
                sender.join().unwrap();
            }
        },
        SCHEDULES,
    );
}

/// A receiver that registers, looks again and then sleeps is woken for every message: if a wake-up
/// were lost the checker would find the deadlock.
#[test]
fn no_wake_up_is_lost() {
    use shuttle::sync::atomic::{AtomicUsize, Ordering};
    shuttle::check_random(
        || {
            let shared = shuttle::sync::Arc::new((Ring::new(4), Bell::new()));
            let sent = shuttle::sync::Arc::new(AtomicUsize::new(0));
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    let (shared, sent) = (shared.clone(), sent.clone());
                    shuttle::thread::spawn(move || {
                        for _ in 0..2 {
                            shared.0.push(()).unwrap();
                            sent.fetch_add(1, Ordering::SeqCst);
                            shared.1.ring();
                        }
                    })
                })
                .collect();
            let receiver = shared.clone();
            let received = shuttle::future::block_on(async move {
                let mut received = 0;
                while received < 4 {
                    std::future::poll_fn(|context| {
                        // SAFETY: this is the only receiver.
                        #[allow(unsafe_code, reason = "the one receiver")]
                        let first = unsafe { receiver.0.pop() };
                        if first.is_some() {
                            return std::task::Poll::Ready(());
                        }
                        receiver.1.register(context.waker());
                        // SAFETY: as above.
                        #[allow(unsafe_code, reason = "the one receiver")]
                        let second = unsafe { receiver.0.pop() };
                        match second {
                            Some(()) => std::task::Poll::Ready(()),
                            None => std::task::Poll::Pending,
                        }
                    })
                    .await;
                    received += 1;
                }
                received
            });
            for sender in senders {
                sender.join().unwrap();
            }
            assert_eq!(received, sent.load(Ordering::SeqCst));
        },
        SCHEDULES,
    );
}

#[test]
fn a_full_mailbox_refuses_and_a_closed_one_gives_messages_back() {
    let (sender, mut receiver) = channel(2);
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!(sender.try_send(2), Ok(()));
    assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(receiver.try_recv(), Some(1));
    assert_eq!(sender.try_send(3), Ok(()));
    drop(receiver);
    assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
}

#[test]
fn messages_left_in_a_mailbox_are_dropped_with_it() {
    let value = std::sync::Arc::new(());
    let (sender, receiver) = channel(4);
    sender.try_send(std::sync::Arc::clone(&value)).unwrap();
    sender.try_send(std::sync::Arc::clone(&value)).unwrap();
    drop((sender, receiver));
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}

/// Two senders on one core flood a small mailbox of another, which stops when they have gone.
#[test]
fn cores_exchange_messages_with_back_pressure() {
    let cores = Cores::start(CoresConfig::unpinned(2)).unwrap();
    let (sender, mut receiver) = channel::<u64>(8);
    let total = cores.handles()[0].submit(move || async move {
        let mut total = 0;
        while let Some(message) = receiver.recv().await {
            total += message;
        }
        total
    });
    let sent = cores.handles()[1].submit(move || async move {
        let sender = Rc::new(sender);
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let sender = Rc::clone(&sender);
                reactor::spawn(async move {
                    for number in 0..10_000 {
                        sender.send(number).await.unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        for task in tasks {
            task.await;
        }
    });
    sent.wait().unwrap();
    assert_eq!(total.wait(), Ok(2 * (0..10_000).sum::<u64>()));
    cores.stop();
}
