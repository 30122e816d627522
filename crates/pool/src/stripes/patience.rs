//! Whether a large write had better wait for the next one, so that both share a stripe's header and
//! leave less of its last row empty. No I/O.

/// A write of as many blocks takes longer to arrive than the event loop to turn round: those that a
/// host sends at once come one by one.
pub(crate) const LARGE_WRITE_BLOCKS: u64 = 16;
/// How many turns of the event loop it waits at most.
pub(crate) const TURNS: u32 = 6;
/// One write in 16 waits where it is always in vain, as with a host that sends one at a time.
const VAIN_MAX: u32 = 4;

/// What waiting has led to of late.
#[derive(Default)]
pub(crate) struct Patience {
    /// Waits in vain since the last that was not.
    vain: u32,
    /// So many do not wait now.
    skipped: u32,
}

impl Patience {
    /// True if the next large write is to wait; [`Patience::learn`] hears what came of it.
    pub fn is_worth_it(&mut self) -> bool {
        let waits = self.skipped == 0;
        self.skipped = self.skipped.saturating_sub(1);
        waits
    }

    /// A wait is over, in which something `came` or not.
    pub fn learn(&mut self, came: bool) {
        self.vain = if came {
            0
        } else {
            (self.vain + 1).min(VAIN_MAX)
        };
        self.skipped = (1 << self.vain) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `writes` wait, when something comes while the nth does if `comes(n)`.
    fn waiting(patience: &mut Patience, writes: usize, comes: impl Fn(usize) -> bool) -> usize {
        let waits = (0..writes).filter(|nth| {
            let waits = patience.is_worth_it();
            if waits {
                patience.learn(comes(*nth));
            }
            waits
        });
        waits.count()
    }

    #[test]
    fn few_wait_where_it_is_in_vain_and_most_where_it_mostly_is_not() {
        let mut patience = Patience::default();
        let vain = waiting(&mut patience, 1600, |_| false);
        assert!((100..=104).contains(&vain), "{vain} of 1600");
        // As soon as something comes, all wait again.
        assert!((1584..).contains(&waiting(&mut patience, 1600, |_| true)));
        let mostly = waiting(&mut patience, 1600, |nth| nth % 5 > 0);
        assert!((1280..1600).contains(&mostly), "{mostly} of 1600");
    }
}
