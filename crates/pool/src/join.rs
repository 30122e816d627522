//! [`join_all`]: several futures at once, for the columns of a stripe.

use crate::mutation::Mutation;
use std::collections::VecDeque;
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

/// Waits until so many of `futures` have ended well, or all have ended. The first so many begin at
/// once, a further one in place of each that fails, and all of them when that takes longer than
/// `patience`. What they gave is in no order.
pub(crate) async fn first_good<T, E, F: Future<Output = Result<T, E>>>(
    futures: impl IntoIterator<Item = F>,
    enough: usize,
    patience: Duration,
) -> (Vec<T>, Vec<E>) {
    let mut further: VecDeque<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let first = enough.min(further.len());
    let mut running: Vec<Pin<Box<F>>> = further.drain(..first).collect();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let mut sleep = pin!(reactor::sleep(patience));
    poll_fn(|context| {
        if !further.is_empty() && sleep.as_mut().poll(context).is_ready() {
            running.extend(further.drain(..));
        }
        let mut place = 0;
        while let Some(future) = running.get_mut(place) {
            match future.as_mut().poll(context) {
                Poll::Ready(Ok(output)) => good.push(output),
                Poll::Ready(Err(error)) => {
                    bad.push(error);
                    running.extend(further.pop_front());
                }
                Poll::Pending => {
                    place += 1;
                    continue;
                }
            }
            // The last one takes its place, and is polled next.
            drop(running.swap_remove(place));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Instant, Reactor};

    const PATIENCE: Duration = Duration::from_millis(500);

    /// Asks for so many good answers of those that come after so many milliseconds, or are errors;
    /// how many there are of each, and after how many milliseconds.
    fn asked(enough: usize, answers: &'static [Result<u64, u64>]) -> (usize, usize, u64) {
        Reactor::simulated(1).run(async move {
            let begun = reactor::now();
            let futures = answers.iter().map(|answer| async move {
                let (Ok(after_ms) | Err(after_ms)) = *answer;
                reactor::sleep(Duration::from_millis(after_ms)).await;
                answer.map_err(drop).map(drop)
            });
            let (good, bad) = first_good(futures, enough, PATIENCE).await;
            let took: Duration = Instant::saturating_since(reactor::now(), begun);
            (good.len(), bad.len(), took.as_millis() as u64)
        })
    }

    #[test]
    fn others_are_asked_in_place_of_those_that_fail_and_when_it_takes_long() {
        assert_eq!(asked(2, &[Ok(10), Ok(20), Err(0)]), (2, 0, 20));
        assert_eq!(asked(2, &[Ok(10), Err(5), Ok(20), Err(0)]), (2, 1, 25));
        assert_eq!(asked(2, &[Err(1), Err(2), Ok(10), Ok(20)]), (2, 2, 22));
        assert_eq!(asked(2, &[Ok(10), Ok(60_000), Ok(20), Ok(30)]), (2, 0, 520));
        assert_eq!(asked(2, &[Err(1), Ok(9), Err(2)]), (1, 2, 9));
        assert_eq!(asked(3, &[Ok(1), Ok(2)]), (2, 0, 2));
        assert_eq!(asked(1, &[]), (0, 0, 0));
    }
}
