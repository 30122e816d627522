//! [`join_all`]: several futures at once, for the columns of a stripe.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// A future that still runs, or what it gave.
enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
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
