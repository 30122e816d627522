//! Rules of volumes, by calls to [`Node`]: what outlives a power loss, and write protection.

use access::Nqn;
use nvme_target::rules::Protection;

use crate::error::NodeError;
use crate::layout::RulesKeeper;
use crate::node::Node;

impl Node {
    /// Has those rules kept that are to survive the next power loss. For before the first volume is
    /// made.
    pub async fn keep_rules(&self, keeper: RulesKeeper) -> Result<(), NodeError> {
        self.run(|layout| async move { layout.keep_rules(keeper).await })
            .await
    }

    /// Has a volume be protected as its administrator says, and tells connected hosts. When that
    /// is answered, no host's write is under way on a volume that is protected, and what was
    /// written is durable.
    ///
    /// # Errors
    /// [`NodeError::Unprotected`] when it is not so, or does not outlive a power loss.
    pub async fn protect_volume(
        &self,
        nqn: &Nqn,
        nsid: u32,
        protection: Protection,
    ) -> Result<(), NodeError> {
        let nqn = nqn.clone();
        self.run(move |layout| async move { layout.protect(nqn, nsid, protection).await })
            .await
    }

    /// The write protection of each of these volumes, as far as it is known.
    pub async fn protections(
        &self,
        volumes: Vec<(Nqn, u32)>,
    ) -> Result<Vec<Protection>, NodeError> {
        self.run(move |layout| async move { layout.protections(volumes).await })
            .await
    }
}
