//! Rules of volumes, reservations and write protection: what is to survive a power loss is kept
//! where the volume is. A pool has that of its volumes, and takes it along.

use std::rc::Rc;
use std::sync::Arc;

use access::Nqn;
use nvme_target::rules::{Protection, Rules, Unkept};

use super::{Layout, VolumePlace};
use crate::core::Core;
use crate::error::NodeError;
use crate::spec::Backing;

/// How rules are kept.
#[derive(Clone)]
pub struct RulesKeeper {
    /// Whether what `on_node` waits for answers. It never blocks.
    pub answers: Arc<dyn Fn() -> Result<(), Unkept> + Send + Sync>,
    /// Those of a volume that takes its drive whole, durably before it returns; none are to be
    /// forgotten. It may block.
    pub on_node: KeepOnNode,
    /// What a pool is to keep for the user of a volume, given what it keeps and the rules.
    pub in_pool: KeepInPool,
}

/// See [`RulesKeeper::on_node`].
pub type KeepOnNode = Arc<dyn Fn(&Nqn, u32, Option<&Rules>) -> Result<(), Unkept> + Send + Sync>;

/// See [`RulesKeeper::in_pool`].
pub type KeepInPool = fn(&[u8], Option<&Rules>) -> Result<Vec<u8>, Unkept>;

fn failed(error: NodeError) -> Unkept {
    Unkept::Failed(error.to_string())
}

impl Layout {
    /// Has those rules kept that are to survive the next power loss.
    pub async fn keep_rules(&self, keeper: RulesKeeper) -> Result<(), NodeError> {
        let node = self.node;
        // The first core, where the layout is, decides on all of them.
        let keep: nvme_target::rules::RulesKeeper = Arc::new(move |nqn, nsid, rules| {
            let (key, keeper) = ((nqn.clone(), nsid), keeper.clone());
            Box::pin(async move {
                let layout = Layout::of(node).map_err(failed)?;
                layout.keep(key, rules, keeper).await
            })
        });
        let work = move |core: Rc<Core>| {
            let keep = Arc::clone(&keep);
            async move {
                core.target().keep_rules(keep);
                Ok(())
            }
        };
        self.everywhere(work).await
    }

    /// Waits for no control operation that is under way: one that ends a volume, or the node, may
    /// wait for the host's command.
    async fn keep(
        &self,
        (nqn, nsid): (Nqn, u32),
        rules: Option<Arc<Rules>>,
        keeper: RulesKeeper,
    ) -> Result<(), Unkept> {
        let backing = self.backings.borrow().get(&(nqn.clone(), nsid)).cloned();
        match backing {
            None => Err(Unkept::Failed("the volume is not served".to_owned())),
            Some(Backing::Pool { pool, volume }) => {
                let change = keeper.in_pool;
                let work = move |pool: pool::Pool<_>| async move {
                    let change = move |kept: &[u8]| change(kept, rules.as_deref());
                    pool.change_attributes(volume, change).await
                };
                self.with_pool(pool, work).await.map_err(failed)?
            }
            // One of a pool that is not open has rules that nobody knows: none are decided.
            Some(Backing::Drive(_) | Backing::Offline { .. }) => {
                (keeper.answers)()?;
                // All wait for the same disk: one helper thread is enough, and leaves the others
                // to drives.
                let _turn = self.keeping.lock().await;
                let keep = move || (keeper.on_node)(&nqn, nsid, rules.as_deref());
                reactor::blocking(keep).await
            }
        }
    }

    /// Has every core know the rules that a volume has from before, the first one last: once it
    /// knows, it decides.
    pub(super) async fn tell_rules(
        &self,
        place: &VolumePlace,
        known: &Arc<Rules>,
    ) -> Result<(), NodeError> {
        for index in (0..self.cores.len()).rev() {
            let (nqn, nsid) = (place.spec.subsystem.clone(), place.spec.nsid);
            let known = Arc::clone(known);
            let told = self.on(index, move |core| async move {
                let target = core.target();
                Ok(target.restore_rules(&nqn, nsid, Some(&known))?)
            });
            told.await?;
        }
        Ok(())
    }

    /// Has a volume be protected as its administrator says. Changes of other things do not wait
    /// for it.
    pub async fn protect(
        &self,
        nqn: Nqn,
        nsid: u32,
        protection: Protection,
    ) -> Result<(), NodeError> {
        let work = move |core: Rc<Core>| async move {
            let protected = core.target().protect(&nqn, nsid, protection).await;
            protected.map_err(|reason| NodeError::Unprotected { nqn, reason })
        };
        self.on(0, work).await
    }

    /// The write protection of these volumes, as far as it is known.
    pub async fn protections(
        &self,
        volumes: Vec<(Nqn, u32)>,
    ) -> Result<Vec<Protection>, NodeError> {
        let work = move |core: Rc<Core>| async move {
            let volumes = volumes.iter();
            let known = volumes.map(|(nqn, nsid)| core.target().protection(nqn, *nsid));
            Ok(known.collect())
        };
        self.on(0, work).await
    }
}
