//! Reservations that are to survive a power loss, each kept where its volume is: those of a pool's
//! volume in the pool, which takes them along.

use std::rc::Rc;
use std::sync::Arc;

use access::Nqn;
use nvme_target::reservation::{Reservations, Unkept};

use super::{Layout, VolumePlace};
use crate::core::Core;
use crate::error::NodeError;
use crate::spec::Backing;

/// How reservations are kept.
#[derive(Clone)]
pub struct ReservationKeeper {
    /// Whether what `on_node` waits for answers. It never blocks.
    pub answers: Arc<dyn Fn() -> Result<(), Unkept> + Send + Sync>,
    /// Those of a volume that takes its drive whole, durably before it returns; none are to be
    /// forgotten. It may block.
    pub on_node: KeepOnNode,
    /// What a pool is to keep for the user of a volume, given what it keeps and the reservations.
    pub in_pool: KeepInPool,
}

/// See [`ReservationKeeper::on_node`].
pub type KeepOnNode =
    Arc<dyn Fn(&Nqn, u32, Option<&Reservations>) -> Result<(), Unkept> + Send + Sync>;

/// See [`ReservationKeeper::in_pool`].
pub type KeepInPool = fn(&[u8], Option<&Reservations>) -> Result<Vec<u8>, Unkept>;

fn failed(error: NodeError) -> Unkept {
    Unkept::Failed(error.to_string())
}

impl Layout {
    /// Has those reservations kept that are to survive the next power loss.
    pub async fn keep_reservations(&self, keeper: ReservationKeeper) -> Result<(), NodeError> {
        let node = self.node;
        // The first core, where the layout is, decides on all of them.
        let keep: nvme_target::reservation::ReservationKeeper =
            Arc::new(move |nqn, nsid, state| {
                let (key, keeper) = ((nqn.clone(), nsid), keeper.clone());
                Box::pin(async move {
                    let layout = Layout::of(node).map_err(failed)?;
                    layout.keep(key, state, keeper).await
                })
            });
        let work = move |core: Rc<Core>| {
            let keep = Arc::clone(&keep);
            async move {
                core.target().keep_reservations(keep);
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
        state: Option<Arc<Reservations>>,
        keeper: ReservationKeeper,
    ) -> Result<(), Unkept> {
        let backing = self.backings.borrow().get(&(nqn.clone(), nsid)).cloned();
        match backing {
            None => Err(Unkept::Failed("the volume is not served".to_owned())),
            Some(Backing::Pool { pool, volume }) => {
                let change = keeper.in_pool;
                let work = move |pool: pool::Pool<_>| async move {
                    let change = move |kept: &[u8]| change(kept, state.as_deref());
                    pool.change_attributes(volume, change).await
                };
                self.with_pool(pool, work).await.map_err(failed)?
            }
            // One of a pool that is not open has reservations that nobody knows: none are decided.
            Some(Backing::Drive(_) | Backing::Offline { .. }) => {
                (keeper.answers)()?;
                // All wait for the same disk: one helper thread is enough, and leaves the others
                // to drives.
                let _turn = self.keeping.lock().await;
                let keep = move || (keeper.on_node)(&nqn, nsid, state.as_deref());
                reactor::blocking(keep).await
            }
        }
    }

    /// Has every core know the reservations that a volume has from before, the first one last:
    /// once it knows, it decides.
    pub(super) async fn tell_reservations(
        &self,
        place: &VolumePlace,
        known: &Arc<Reservations>,
    ) -> Result<(), NodeError> {
        for index in (0..self.cores.len()).rev() {
            let (nqn, nsid) = (place.spec.subsystem.clone(), place.spec.nsid);
            let known = Arc::clone(known);
            let told = self.on(index, move |core| async move {
                let target = core.target();
                Ok(target.restore_reservations(&nqn, nsid, Some(&known))?)
            });
            told.await?;
        }
        Ok(())
    }
}
