//! Room: how many blocks each shard may add to what lives before it has to ask again.
//!
//! What the maps hold, and what all shards together may add to it, never exceeds what the pool can
//! hold. A merge turns room that was used into blocks that the maps hold.

use crate::checkpoint::Resume;
use crate::error::PoolError;
use crate::ids::ShardId;
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::messages::{Order, Usage};
use crate::writing::admission::Looks;
use block::{BlockDevice, IoError};
use std::rc::Rc;

/// What came of dealing room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dealt {
    Enough,
    TooLittle {
        /// A merge may show that there is more.
        dirty: bool,
    },
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Sees to it that a shard has room for `blocks` more, or says that there is none.
    pub async fn deal_room(self: &Rc<Self>, shard: ShardId, blocks: u64) -> Result<(), IoError> {
        let _alone = self.room_lock.lock().await;
        let failed = |_: PoolError| IoError::DeviceGone;
        let mut looks = Looks::new();
        while looks.again(&self.shard.state.borrow()) {
            match self.share_out(shard, blocks).await.map_err(failed)? {
                Dealt::Enough => return Ok(()),
                Dealt::TooLittle { dirty: false } => break,
                // Blocks that are being overwritten count twice until they are in the maps, and
                // those of deleted volumes are freed some at a time.
                Dealt::TooLittle { dirty: true } => {
                    self.take_back_room(true).await.map_err(failed)?;
                    self.merge_for_room().await.map_err(failed)?;
                }
            }
        }
        self.refused();
        Err(IoError::CapacityExceeded)
    }

    /// Takes a checkpoint in a task of its own: whoever waits for room may give up, and a
    /// checkpoint that ends half way takes the pool offline.
    pub async fn merge_for_room(self: &Rc<Self>) -> Result<(), PoolError> {
        let coordinator = self.clone();
        reactor::spawn(async move {
            coordinator
                .checkpoint_with(Resume::AtFreeze, |_| Ok(()))
                .await
        })
        .await
    }

    /// Deals the room that a merge gave back: what hosts overwrote took room and is nothing new.
    /// Without room a shard looks every block up that is written.
    pub async fn deal_room_anew(&self) {
        if self.peers().is_empty() || !self.room_due.replace(false) {
            return;
        }
        // Who has the lock deals too, and may wait for writes that wait for upkeep.
        let Some(_alone) = self.room_lock.try_lock() else {
            return;
        };
        // A shard that does not answer has gone, and the pool with it.
        let _ = self.share_out(ShardId::FIRST, 0).await;
    }

    /// Takes back what no shard uses and deals it anew.
    async fn share_out(&self, shard: ShardId, blocks: u64) -> Result<Dealt, PoolError> {
        let others = self.take_back_room(false).await?;
        let usable = self.shard.size().usable_blocks();
        let dirty = others.dirty || self.shard.state.borrow().may_hold_less();
        let (spare, each, asked) = {
            let state = self.shard.state.borrow();
            let used = state.held_blocks() + state.admitted.room() + others.blocks;
            let spare = usable.saturating_sub(used);
            let asked = if blocks <= spare { blocks } else { 0 };
            (spare, (spare - asked) / state.share.shards, asked)
        };
        let dealt = |to: ShardId| if to == shard { each + asked } else { each };
        let own = dealt(ShardId::FIRST);
        self.shard.state.borrow_mut().admitted.give_room(own);
        let told: Vec<_> = self
            .peers()
            .iter()
            .map(|peer| {
                peer.outbox
                    .ask(|reply| Order::Room(dealt(peer.shard), reply))
            })
            .collect();
        for answer in told {
            self.answer(answer).await?;
        }
        Ok(match blocks <= spare {
            true => Dealt::Enough,
            false => Dealt::TooLittle { dirty },
        })
    }

    /// Takes back the room that no shard uses; returns what the other shards use: `exactly`, when
    /// all that was admitted without a look at the map has been answered.
    pub async fn take_back_room(&self, exactly: bool) -> Result<Usage, PoolError> {
        let others = self.ask_all(|reply| Order::Use { exactly, reply });
        self.shard.take_back_unused();
        let others = others.await?;
        if exactly {
            drop(self.shard.outlast_guesses().await);
            self.shard.take_back_unused();
        }
        Ok(Usage {
            blocks: others.iter().map(|usage| usage.blocks).sum(),
            dirty: others.iter().any(|usage| usage.dirty),
        })
    }
}

impl<D> Core<D> {
    /// Takes back the room that this shard does not use.
    pub fn take_back_unused(&self) -> Usage {
        let mut state = self.state.borrow_mut();
        Usage {
            blocks: state.admitted.shrink_room(),
            dirty: state.may_hold_less(),
        }
    }
}
