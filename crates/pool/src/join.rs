//! [`join_all`]: several futures at once, for the columns of a stripe.

use crate::mutation::Mutation;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// A future that still runs, or what it gave.
enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

impl<F: Future> Slot<F> {
    fn output(&self) -> Option<&F::Output> {
        match self {
            Slot::Done(output) => Some(output),
            Slot::Running(_) => None,
        }
    }
}

/// Waits for all of `futures`; outputs in their order.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<Slot<F>> = futures
        .into_iter()
        .map(|future| Slot::Running(Box::pin(future)))
        .collect();
    poll_fn(|context| {
        let mut waiting = false;
        for slot in &mut slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Slot::Done(output),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let output = |slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Running(_) => None,
    };
    slots.into_iter().filter_map(output).collect()
}

/// Waits until so many of `futures` have ended well, or all have ended. What they gave is in no
/// order.
pub(crate) async fn first_good<T, E, F: Future<Output = Result<T, E>>>(
    futures: impl IntoIterator<Item = F>,
    enough: usize,
) -> (Vec<T>, Vec<E>) {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    poll_fn(|context| {
        running.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(Ok(output)) => {
                good.push(output);
                false
            }
            Poll::Ready(Err(error)) => {
                bad.push(error);
                false
            }
            Poll::Pending => true,
        });
        match good.len() >= enough || running.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    (good, bad)
}

/// Waits for all of `futures`; but after a while only for those without which it will not do:
/// `without` is given what there is by then. Outputs in their order, `None` of those that are
/// not waited for.
pub(crate) async fn join_answers<F: Future>(
    futures: impl IntoIterator<Item = F>,
    patience: Duration,
    without: impl Fn(&[Option<&F::Output>]) -> bool,
) -> Vec<Option<F::Output>> {
    let mut slots: Vec<Slot<F>> = futures
        .into_iter()
        .map(|future| Slot::Running(Box::pin(future)))
        .collect();
    let mut sleep = pin!(reactor::sleep(patience));
    let mut patient = true;
    let waits = Mutation::WaitsForSilentDrives.is_planted();
    poll_fn(|context| {
        let (mut waiting, mut news) = (false, false);
        for slot in &mut slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => {
                        *slot = Slot::Done(output);
                        news = true;
                    }
                    Poll::Pending => waiting = true,
                }
            }
        }
        if patient && waiting && !waits && sleep.as_mut().poll(context).is_ready() {
            patient = false;
            news = true;
        }
        let does = waiting && !patient && news && {
            let done: Vec<Option<&F::Output>> = slots.iter().map(Slot::output).collect();
            without(&done)
        };
        match waiting && !does {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    })
    .await;
    let output = |slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Running(_) => None,
    };
    slots.into_iter().map(output).collect()
}

/// Waits for both.
pub(crate) async fn join<L: Future, R: Future>(left: L, right: R) -> (L::Output, R::Output) {
    let mut left = pin!(left);
    let mut right = pin!(right);
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(output) = left.as_mut().poll(context)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = right.as_mut().poll(context)
        {
            second = Some(output);
        }
        match (first.take(), second.take()) {
            (Some(left), Some(right)) => Poll::Ready((left, right)),
            (left, right) => {
                (first, second) = (left, right);
                Poll::Pending
            }
        }
    })
    .await
}
