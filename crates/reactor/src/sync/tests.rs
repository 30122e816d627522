//! What each primitive promises, under many seeded interleavings.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{Reactor, sleep, spawn, timeout, yield_now};

/// Runs `test` under 50 seeds.
fn seeds<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for seed in 0..50 {
        Reactor::simulated(seed).run(test());
    }
}

#[test]
fn a_queue_delivers_everything_in_order_and_then_ends() {
    seeds(|| async {
        let queue = Rc::new(Queue::bounded(3));
        let sender = {
            let queue = Rc::clone(&queue);
            spawn(async move {
                for number in 0..100 {
                    queue.push(number).await.unwrap();
                }
                queue.close();
                assert_eq!(queue.push(100).await, Err(Closed(100)));
            })
        };
        let mut received = Vec::new();
        while let Some(number) = queue.pop().await {
            assert!(queue.len() <= 3);
            received.push(number);
        }
        assert!(received.iter().copied().eq(0..100));
        sender.await;
    });
}

#[test]
fn a_full_queue_says_so() {
    let queue = Queue::bounded(1);
    assert_eq!(queue.try_push(1), Ok(()));
    assert_eq!(queue.try_push(2), Err(PushError::Full(2)));
    queue.close();
    assert_eq!(queue.try_push(2), Err(PushError::Closed(2)));
    assert_eq!(queue.try_pop(), Some(1));
}

#[test]
fn many_consumers_take_each_value_once_even_if_some_give_up() {
    seeds(|| async {
        let queue = Rc::new(Queue::unbounded());
        let taken = Rc::new(RefCell::new(Vec::new()));
        let consumers: Vec<_> = (0..4)
            .map(|consumer| {
                let (queue, taken) = (Rc::clone(&queue), Rc::clone(&taken));
                spawn(async move {
                    loop {
                        let patience = Duration::from_micros(20 + consumer);
                        match timeout(patience, queue.pop()).await {
                            Ok(Some(value)) => taken.borrow_mut().push(value),
                            Ok(None) => return,
                            Err(_) => {}
                        }
                    }
                })
            })
            .collect();
        for value in 0..200 {
            queue.push(value).await.unwrap();
            if value % 7 == 0 {
                sleep(Duration::from_micros(21)).await;
            }
        }
        queue.close();
        for consumer in consumers {
            consumer.await;
        }
        let mut taken = taken.take();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..200));
    });
}

#[test]
fn a_notification_for_nobody_is_remembered_once() {
    seeds(|| async {
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_one();
        notify.notified().await;
        assert!(
            timeout(Duration::from_millis(1), notify.notified())
                .await
                .is_err()
        );
    });
}

#[test]
fn a_notification_whose_receiver_gave_up_goes_to_the_next() {
    seeds(|| async {
        let notify = Rc::new(Notify::new());
        let wait = || {
            let notify = Rc::clone(&notify);
            spawn(async move { notify.notified().await })
        };
        let (first, second) = (wait(), wait());
        sleep(Duration::from_micros(1)).await;
        notify.notify_one();
        // Whichever was woken has not run: cancelling one of them must not lose the wake-up.
        first.cancel();
        notify.notify_one();
        second.await;
    });
}

#[test]
fn a_semaphore_never_gives_more_than_it_has_and_starves_nobody() {
    seeds(|| async {
        let semaphore = Rc::new(Semaphore::new(5));
        let used = Rc::new(Cell::new(0_usize));
        let tasks: Vec<_> = (0..30_usize)
            .map(|number| {
                let (semaphore, used) = (Rc::clone(&semaphore), Rc::clone(&used));
                spawn(async move {
                    let wanted = 1 + number % 5;
                    if number % 6 == 5 {
                        let patience = Duration::from_micros(number as u64);
                        drop(timeout(patience, semaphore.acquire(wanted)).await);
                        return;
                    }
                    let _permit = semaphore.acquire(wanted).await;
                    used.set(used.get() + wanted);
                    assert!(used.get() <= 5);
                    sleep(Duration::from_micros(10)).await;
                    used.set(used.get() - wanted);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(semaphore.available(), 5);
    });
}

#[test]
fn a_mutex_is_held_by_one_task_across_suspensions() {
    seeds(|| async {
        let mutex = Rc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let mutex = Rc::clone(&mutex);
                spawn(async move {
                    for _ in 0..10 {
                        let mut value = mutex.lock().await;
                        let before = *value;
                        yield_now().await;
                        *value = before + 1;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(mutex.try_lock().map(|value| *value), Some(100));
    });
}

#[test]
fn a_signal_is_used_again_and_again() {
    seeds(|| async {
        let there = Rc::new(Signal::new());
        let back = Rc::new(Signal::new());
        let echo = {
            let (there, back) = (Rc::clone(&there), Rc::clone(&back));
            spawn(async move {
                for _ in 0..10 {
                    let value: u32 = there.wait().await;
                    back.set(value + 1);
                }
            })
        };
        let mut value = 0;
        for _ in 0..10 {
            there.set(value);
            value = back.wait().await;
        }
        echo.await;
        assert_eq!((value, there.take()), (10, None));
    });
}

#[test]
fn a_oneshot_reports_that_the_other_end_is_gone() {
    seeds(|| async {
        let (sender, receiver) = oneshot::channel();
        let task = spawn(receiver);
        sleep(Duration::from_micros(1)).await;
        sender.send(7).unwrap();
        assert_eq!(task.await, Ok(7));

        let (sender, receiver) = oneshot::channel::<u32>();
        drop(sender);
        assert_eq!(receiver.await, Err(oneshot::Closed));

        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(8), Err(8));
    });
}
