//! Drives that still owe answers to who used them before.

use std::rc::Rc;
use std::time::Duration;

use super::{Layout, Places};
use crate::core::Core;
use crate::error::NodeError;

/// How long such a drive is waited for: what works answers within moments.
const PATIENCE: Duration = Duration::from_secs(2);

const LOOK_PERIOD: Duration = Duration::from_millis(20);

impl Layout {
    /// Refuses a drive that cannot be used yet, though nothing uses it.
    pub(super) async fn check_usable(&self, places: &Places, drive: &str) -> Result<(), NodeError> {
        self.check_unattached(places, drive).await?;
        self.check_settled(places, drive).await?;
        // A drive that failed its last user and is back works for the next.
        let (home, name) = (places.drive_core(drive)?, drive.to_owned());
        let forget = |core: Rc<Core>| async move {
            core.forget_failed_flush(&name);
            Ok(())
        };
        self.on(home, forget).await
    }

    /// Refuses a drive that the system has requests for. A pool that a drive failed waits for none
    /// of them; a write among them that came late would land on what is written from now on. It may
    /// be by a handle that is gone, and of any core: what counts is which device it is for.
    pub(super) async fn check_settled(
        &self,
        places: &Places,
        drive: &str,
    ) -> Result<(), NodeError> {
        let (home, name) = (places.drive_core(drive)?, drive.to_owned());
        let identity = self.on(home, |core| async move { Ok(core.identity(&name)) });
        let Some(identity) = identity.await? else {
            return Ok(());
        };
        let count = async || {
            let mut requests = 0;
            for index in 0..self.core_count() {
                let work = move |_| async move { Ok(identity.operations_under_way()) };
                requests += self.on(index, work).await?;
            }
            Ok(requests)
        };
        wait_for_answers(drive, count).await
    }
}

/// Returns once a drive owes nothing, or says that it does not answer.
async fn wait_for_answers(
    drive: &str,
    count: impl AsyncFn() -> Result<usize, NodeError>,
) -> Result<(), NodeError> {
    let until = reactor::now() + PATIENCE;
    loop {
        let requests = count().await?;
        if requests == 0 {
            return Ok(());
        }
        if reactor::now() >= until {
            let drive = drive.to_owned();
            return Err(NodeError::DriveOwes { drive, requests });
        }
        reactor::sleep(LOOK_PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a drive that answers the last of three requests after so long.
    fn answering_after(answered: Duration) -> Result<(), NodeError> {
        reactor::Reactor::simulated(5).run(async {
            let last = reactor::now() + answered;
            let owed = async || Ok(if reactor::now() < last { 3 } else { 0 });
            wait_for_answers("d0", owed).await
        })
    }

    #[test]
    fn a_drive_is_waited_for_a_moment_and_refused_while_it_owes_answers() {
        answering_after(Duration::ZERO).unwrap();
        answering_after(Duration::from_millis(1500)).unwrap();
        let refused = answering_after(Duration::from_secs(3)).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("drive d0 still owes answers to 3 requests"),
            "{refused}"
        );
        assert!(matches!(refused, NodeError::DriveOwes { requests: 3, .. }));
    }
}
