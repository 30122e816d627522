//! [`Admitted`]: the space that writes under way may take, and how much of it there is. No I/O.

use crate::stripes::item::Left;

/// Blocks that writes may have added to what lives since the last checkpoint.
#[derive(Default)]
pub(crate) struct Admitted {
    /// Of writes under way.
    under_way: u64,
    /// Those of them that were taken for new blocks, all of them, without a look at the map.
    guessed: u64,
    /// Writers that wait until none is: nobody guesses meanwhile.
    without_guesses: usize,
    /// Of writes answered since the updates were last set aside.
    answered: u64,
    /// Of writes whose updates are being merged.
    frozen: u64,
    /// Blocks that hosts wrote since the updates were last set aside, new or not, and those whose
    /// updates are being merged.
    written: u64,
    written_frozen: u64,
    /// Blocks that this shard may hold by updates, where there are several shards: its room.
    room: u64,
    /// Writes under way that nobody waits for any more.
    left: Vec<Left>,
}

impl Admitted {
    /// Blocks that this shard has added to what lives, or is about to, since the last merge.
    pub fn blocks(&self) -> u64 {
        self.under_way + self.answered + self.frozen
    }

    /// True when nothing counts but writes under way, by what they add.
    pub fn is_exact(&self) -> bool {
        self.blocks() == self.under_way && self.guessed == 0
    }

    /// Blocks were written before the pool was opened, and are not in the maps.
    pub fn recovered(&mut self, blocks: u64) {
        self.answered += blocks;
        self.written += blocks;
        self.room = self.blocks();
    }

    /// Blocks that this shard may hold by updates.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Whether so many more have room.
    pub fn has_room_for(&self, blocks: u64) -> bool {
        self.blocks() + blocks <= self.room
    }

    /// This shard may hold so many more.
    pub fn give_room(&mut self, blocks: u64) {
        self.room += blocks;
    }

    /// Takes back the room that this shard does not use; returns how much it does.
    pub fn shrink_room(&mut self) -> u64 {
        self.room = self.blocks();
        self.room
    }

    /// A block of a host is durable.
    pub fn wrote(&mut self) {
        self.written += 1;
    }

    /// No writer waits until nothing is guessed.
    pub fn may_guess(&self) -> bool {
        self.without_guesses == 0
    }

    /// A write begins that takes at most so many new blocks.
    pub fn begin(&mut self, blocks: u64) {
        self.under_way += blocks;
    }

    /// So many blocks of a write that has begun were taken for new ones without a look at the map.
    pub fn guess(&mut self, blocks: u64) {
        self.guessed += blocks;
    }

    /// A write has ended that had begun with `blocks`, of which `guessed`. True if a writer waits
    /// for this: nothing is guessed any more.
    pub fn end(&mut self, blocks: u64, guessed: u64) -> bool {
        assert!(
            blocks <= self.under_way && guessed <= self.guessed,
            "a write ends once"
        );
        self.under_way -= blocks;
        self.answered += blocks;
        self.guessed -= guessed;
        self.guessed == 0 && self.without_guesses > 0
    }

    /// Nobody waits for a write any more, which counts until it has ended.
    pub fn leave(&mut self, write: Left) {
        self.left.push(write);
    }

    /// Has those of them count as answered that have ended. True as for [`end`](Admitted::end).
    pub fn end_left(&mut self) -> bool {
        let is_done = |left: &mut Left| left.request.is_done();
        let ended: Vec<Left> = self.left.extract_if(.., is_done).collect();
        let mut is_waited_for = false;
        for write in ended {
            is_waited_for |= self.end(write.blocks, write.guessed);
        }
        is_waited_for
    }

    /// Blocks of some write were guessed.
    pub fn has_guesses(&self) -> bool {
        self.guessed > 0
    }

    /// A writer begins to wait until nothing is guessed: nobody guesses meanwhile.
    pub fn forbid_guesses(&mut self) {
        self.without_guesses += 1;
    }

    /// It waits no more.
    pub fn allow_guesses(&mut self) {
        assert!(self.without_guesses > 0, "guesses were forbidden before");
        self.without_guesses -= 1;
    }

    /// Blocks of hosts that the maps do not have yet, each as often as it was written.
    pub fn written(&self) -> u64 {
        self.written + self.written_frozen
    }

    /// The updates are set aside.
    pub fn freeze(&mut self) {
        self.frozen = std::mem::take(&mut self.answered);
        self.written_frozen = std::mem::take(&mut self.written);
    }

    /// They are merged: the maps have them, and the room that they took is taken for good.
    pub fn merged(&mut self) {
        self.written_frozen = 0;
        let merged = std::mem::take(&mut self.frozen);
        self.room = self.room.saturating_sub(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_by_what_is_under_way_and_for_good_by_what_is_merged() {
        let mut admitted = Admitted::default();
        admitted.give_room(10);
        admitted.begin(6);
        assert!(admitted.has_room_for(4) && !admitted.has_room_for(5));
        admitted.end(6, 0);
        admitted.freeze();
        assert!(!admitted.has_room_for(5), "a merge is under way");
        admitted.merged();
        assert_eq!(admitted.room(), 4);
        assert!(admitted.has_room_for(4) && !admitted.has_room_for(5));
        admitted.begin(1);
        assert_eq!(admitted.shrink_room(), 1);
        assert!(!admitted.has_room_for(1));
    }
}
