//! A window of cleaning: piece by piece what lives is gathered out of segments, and while one piece
//! is read the one before it is written, so that neither waits for the other.

use crate::ids::SegmentNumber;
use crate::join::join;
use crate::mutation::Mutation;
use crate::segments::attempts::Stuck;
use crate::segments::cleaned::Window;
use crate::segments::runs::Live;
use crate::segments::victim::Victim;
use crate::shard::core::Core;
use crate::stripes::class::Class;
use crate::stripes::item::Move;
use crate::stripes::order::MOVED_IN_FLIGHT_MAX;
use crate::writing::batch::{moved_batch, moved_room, moved_stripe_blocks};
use block::BlockDevice;
use std::collections::VecDeque;
use std::rc::Rc;

/// A window ends when so many pieces' worth of blocks have been looked at: many, for the first one
/// is read and the last one written with nothing beside it.
const WINDOW_PIECES: u32 = 16;
/// After so many of them a writer that waits gets what has been emptied: each time tables are
/// published.
const PIECES_LEAST: u32 = 4;
/// Stripes of moved blocks under way at once: one by one beside hosts that have all the room they
/// need, else as many as keep the drives busy. With 32 rows each they reach no further than
/// recovery looks.
const IN_FLIGHT_GENTLE: usize = 1;

/// How far the gathering of a window has got.
struct Gathering {
    /// So many segments are to be emptied.
    wanted: usize,
    looked_at: u32,
    /// Blocks that live.
    found: u64,
    /// How many blocks can be moved. `None` where the coordinator gives room. Each piece asks for
    /// its own then, as all blocks of the segment may be other shards'.
    room: Option<u64>,
    /// There was room for all that were looked at.
    fits: bool,
    /// The segment of which this window has gathered something, and goes on to.
    begun: Option<SegmentNumber>,
    /// Segments of which everything has been gathered.
    emptied: Vec<Victim>,
}

impl Gathering {
    /// A victim that does not fit as a whole would not be freed by what is moved of it; but where
    /// segments have become narrower no victim may fit.
    fn takes(&self, victim: &Victim) -> bool {
        let Some(room) = self.room else {
            return true;
        };
        let first = self.found == 0 && room > 0;
        let begun = self.begun == Some(victim.number);
        first || begun || self.found + victim.live <= room
    }
}

/// Gathered blocks that wait for their stripes.
#[derive(Default)]
struct Waiting {
    first: VecDeque<Move>,
    /// Those that were moved before.
    again: VecDeque<Move>,
}

impl Waiting {
    fn blocks(&self) -> u64 {
        (self.first.len() + self.again.len()) as u64
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Moves live blocks out of one or more segments that `choose` names, a window of them, and
    /// empties at most `wanted`, which it returns. The caller holds the upkeep lock.
    pub async fn clean(
        self: &Rc<Self>,
        wanted: usize,
        choose: impl Fn() -> Option<SegmentNumber>,
    ) -> (Window, Vec<Victim>) {
        let _reading = self.reading();
        let has_all = self.state.borrow().share.has_all();
        let mut gathering = Gathering {
            wanted: wanted.max(1),
            looked_at: 0,
            found: 0,
            room: has_all.then(|| moved_room(&self.state.borrow(), &self.rules())),
            fits: true,
            begun: None,
            emptied: Vec::new(),
        };
        let mut waiting = Waiting::default();
        let full = moved_stripe_blocks(&self.rules());
        let moved = loop {
            let gather = self.gather_piece(&mut gathering, &choose);
            let (piece, moved) = join(gather, self.move_blocks(&mut waiting, full)).await;
            match piece {
                Some(piece) if moved => {
                    self.line_up(piece, &mut waiting);
                    if gathering.room.is_none() {
                        // Those that find no room stay.
                        self.get_room(waiting.blocks()).await;
                    }
                }
                _ => break moved && self.move_blocks(&mut waiting, 1).await,
            }
        };
        // No segment is empty before all that was taken out of it has landed.
        self.landed_all().await;
        let mut state = self.state.borrow_mut();
        state.moving.clear();
        if moved {
            let window = match gathering.fits || !gathering.emptied.is_empty() {
                true => Window::Moved,
                false => Window::NoRoom,
            };
            return (window, gathering.emptied);
        }
        state.victims.take_half_way();
        for victim in gathering.emptied {
            state.attempts.forget_count(victim.number);
            state.victims.not_emptied(victim.number);
        }
        (Window::NoRoom, Vec::new())
    }

    /// Moves blocks of this shard's out of a segment that does not tell of them, if there is room
    /// for all; returns how many. The caller holds the upkeep lock.
    pub async fn move_known(self: &Rc<Self>, number: SegmentNumber, blocks: Vec<Live>) -> u64 {
        let _reading = self.reading();
        let victim = {
            let state = self.state.borrow();
            let version = state.tables.version();
            let segment = state.segments.get(number);
            segment.map(|segment| Victim::new(number, segment, version))
        };
        let (Some(victim), true) = (victim, self.get_room(blocks.len() as u64).await) else {
            return 0;
        };
        let mut moved = 0;
        if let Ok(moves) = self.gather_known(&victim, blocks).await {
            moved = moves.len() as u64;
            let mut waiting = Waiting::default();
            self.line_up(moves, &mut waiting);
            self.move_blocks(&mut waiting, 1).await;
            moved -= waiting.blocks();
            self.landed_all().await;
        }
        self.state.borrow_mut().moving.clear();
        moved
    }

    /// Asks for segments until so many blocks can be moved; false if there are not enough.
    pub async fn get_room(&self, blocks: u64) -> bool {
        while moved_room(&self.state.borrow(), &self.rules()) < blocks {
            if !self.get_segment(Class::Moved, false).await {
                return false;
            }
        }
        true
    }

    /// The next blocks of the window, marked as moving; `None` at its end.
    async fn gather_piece(
        &self,
        so_far: &mut Gathering,
        choose: &impl Fn() -> Option<SegmentNumber>,
    ) -> Option<Vec<Move>> {
        let ends = || self.stopping.get() || self.offline.get().is_some();
        while so_far.looked_at < self.window_blocks() && !ends() {
            let resumed = self.resume_victim();
            if resumed.is_none() && so_far.emptied.len() >= self.enough(so_far) {
                return None;
            }
            let mut victim = resumed.or_else(|| self.next_victim(choose))?;
            so_far.fits = so_far.takes(&victim);
            if !so_far.fits {
                self.put_back(&victim);
                return None;
            }
            let number = victim.number;
            let mut moves = Vec::new();
            match self.gather(&mut victim, &mut moves).await {
                Ok(blocks) => so_far.looked_at += blocks.max(1),
                Err(error) => {
                    tracing::warn!(segment = number.get(), %error, "segment cannot be cleaned");
                    let mut state = self.state.borrow_mut();
                    state.attempts.fail(number, Stuck::by(error));
                    continue;
                }
            }
            so_far.found += moves.len() as u64;
            so_far.begun = Some(number);
            if victim.row < victim.rows && !Mutation::CleansHalf.is_planted() {
                self.state.borrow_mut().victims.leave_half_way(victim);
            } else {
                self.state.borrow_mut().victims.emptied(number);
                so_far.emptied.push(victim);
            }
            return Some(moves);
        }
        None
    }

    /// A window ends when so many blocks have been looked at.
    pub fn window_blocks(&self) -> u32 {
        WINDOW_PIECES * self.settings.cleaner_piece_blocks
    }

    /// When so many segments are emptied no further one is begun: a writer that waits can go on
    /// with one.
    fn enough(&self, so_far: &Gathering) -> usize {
        let least = PIECES_LEAST * self.settings.cleaner_piece_blocks;
        match self.state.borrow().queue.is_starved() && so_far.looked_at >= least {
            true => 1,
            false => so_far.wanted,
        }
    }

    /// The segment that was left half way.
    fn resume_victim(&self) -> Option<Victim> {
        let mut state = self.state.borrow_mut();
        let mut victim = state.victims.take_half_way()?;
        let found = state.segments.get(victim.number)?;
        if found.generation != victim.generation || found.columns.is_empty() {
            return None;
        }
        // Some of them may have been moved since.
        victim.columns.clone_from(&found.columns);
        Some(victim)
    }

    fn next_victim(&self, choose: &impl Fn() -> Option<SegmentNumber>) -> Option<Victim> {
        let number = choose()?;
        let state = self.state.borrow();
        let version = state.tables.version();
        Some(Victim::new(number, state.segments.get(number)?, version))
    }

    /// What `choose` names, unless that was cleaned too often. Whoever decides for the whole pool
    /// counts here, once for each time, however many shards it takes.
    pub fn attempt(&self, choose: &impl Fn() -> Option<SegmentNumber>) -> Option<SegmentNumber> {
        loop {
            let number = choose()?;
            if self.state.borrow_mut().attempts.begin(number) {
                return Some(number);
            }
        }
    }

    /// Leaves a victim for later as if it had not been chosen.
    fn put_back(&self, victim: &Victim) {
        if victim.row == 0 {
            self.state.borrow_mut().attempts.withdraw(victim.number);
        }
    }

    /// Gathered blocks get in line for stripes, those that were moved before for stripes of their
    /// own.
    fn line_up(&self, mut piece: Vec<Move>, waiting: &mut Waiting) {
        // Neighbours that meet again are read together later.
        piece.sort_unstable_by_key(|moved| moved.owner());
        let has_all = self.state.borrow().share.has_all();
        let (again, first): (Vec<Move>, Vec<Move>) =
            piece.into_iter().partition(|moved| has_all && moved.again);
        waiting.first.extend(first);
        waiting.again.extend(again);
    }

    /// Writes blocks as stripes while `least` or more of a kind wait. False when there is no room
    /// for some of them.
    async fn move_blocks(self: &Rc<Self>, waiting: &mut Waiting, least: usize) -> bool {
        let first = &mut waiting.first;
        let fit = self.move_class(Class::Moved, first, least).await;
        let again = &mut waiting.again;
        fit & self.move_class(Class::MovedAgain, again, least).await
    }

    async fn move_class(
        self: &Rc<Self>,
        class: Class,
        moves: &mut VecDeque<Move>,
        least: usize,
    ) -> bool {
        while moves.len() >= least && self.offline.get().is_none() {
            if self.state.borrow().log.moved_in_flight() >= self.moved_in_flight_max() {
                self.landed.notified().await;
                continue;
            }
            let before = moves.len();
            let batch = moved_batch(&mut self.state.borrow_mut(), &self.rules(), class, moves);
            let Some(batch) = batch else {
                break;
            };
            let moved = (before - moves.len()) as u64;
            self.array
                .count(|counters| counters.relocated_blocks += moved);
            self.clone().launch(batch);
        }
        moves.len() < least
    }

    fn moved_in_flight_max(&self) -> usize {
        let state = self.state.borrow();
        let busy = state.log.hosts_in_flight() > 0 || !state.queue.is_empty();
        if busy && !state.frugal {
            IN_FLIGHT_GENTLE
        } else {
            MOVED_IN_FLIGHT_MAX
        }
    }

    /// Waits until every stripe that has been launched so far is applied.
    async fn landed_all(&self) {
        let last = self.state.borrow().log.given();
        while self.state.borrow().log.applied() < last && self.offline.get().is_none() {
            self.landed.notified().await;
        }
    }
}
