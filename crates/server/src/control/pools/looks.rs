//! [`Looks`]: what drives carry, for those who ask: a drive that does not answer is not waited for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Name;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout_at};

/// How long a question waits for drives. Those that work answer within a second; clients wait for
/// an answer several times as long.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Whose turn it is to look at each drive.
#[derive(Default)]
pub struct Looks {
    turns: Mutex<BTreeMap<Name, Arc<Turn<()>>>>,
}

impl Looks {
    /// What `look` finds on each of `drives`, all at once; `None` where a drive does not answer in
    /// time. That look goes on, and no other one begins at the drive before it has ended: however
    /// often somebody asks, a drive owes the answers of one look.
    pub async fn at<T, F>(
        &self,
        drives: impl IntoIterator<Item = Name>,
        look: impl Fn(&Name) -> F,
    ) -> Vec<(Name, Option<T>)>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let until = Instant::now() + PATIENCE;
        let begin = |drive: Name| {
            let (turn, looking) = (self.turn(&drive), look(&drive));
            let looking = tokio::spawn(async move {
                let _turn = timeout_at(until, turn.lock_owned()).await.ok()?;
                Some(looking.await)
            });
            (drive, looking)
        };
        let begun: Vec<_> = drives.into_iter().map(begin).collect();
        let mut found = Vec::with_capacity(begun.len());
        for (drive, looking) in begun {
            let ended = timeout_at(until, looking).await.ok();
            let seen = ended.and_then(Result::ok).flatten();
            found.push((drive, seen));
        }
        found
    }

    /// A drive is there no more: what is called so next owes nothing.
    pub fn forget(&self, drive: &Name) {
        self.map().remove(drive);
    }

    /// The map is whole between any two statements, so a panic elsewhere does not spoil it.
    fn map(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Turn<()>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a drive. Those of drives at which nobody looks are forgotten.
    fn turn(&self, drive: &Name) -> Arc<Turn<()>> {
        let mut turns = self.map();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(drive.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn names() -> [Name; 3] {
        ["hung", "slow", "well"].map(|name| name.parse().unwrap())
    }

    /// Time is virtual: what waits waits as long as it says, and the test does not.
    #[tokio::test(start_paused = true)]
    async fn a_drive_that_does_not_answer_owes_one_look_and_holds_up_no_other() {
        let (looks, begun) = (Looks::default(), Arc::new(AtomicU32::new(0)));
        let look = |drive: &Name| {
            let (drive, begun) = (drive.to_string(), Arc::clone(&begun));
            async move {
                match drive.as_str() {
                    "hung" => {
                        begun.fetch_add(1, Ordering::Relaxed);
                        std::future::pending::<()>().await;
                    }
                    "slow" => tokio::time::sleep(PATIENCE / 4 * 3).await,
                    _ => {}
                }
                drive
            }
        };
        for _ in 0..3 {
            let before = Instant::now();
            let found = looks.at(names(), look).await;
            let found: Vec<Option<String>> = found.into_iter().map(|(_, found)| found).collect();
            assert_eq!(
                found,
                [None, Some("slow".to_owned()), Some("well".to_owned())]
            );
            assert_eq!(before.elapsed().as_secs(), PATIENCE.as_secs());
        }
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        drop(looks.turn(&names()[2]));
        let kept: Vec<Name> = looks.map().keys().cloned().collect();
        let [hung, _, well] = names();
        assert_eq!(kept, [hung.clone(), well]);
        // The next drive of that name owes nothing.
        looks.forget(&hung);
        looks.at(names(), look).await;
        assert_eq!(begun.load(Ordering::Relaxed), 2);
    }
}
