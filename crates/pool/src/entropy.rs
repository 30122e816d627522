//! [`Entropy`]: where identifiers, secrets and the time of day come from.

use std::cell::Cell;
use std::time::SystemTime;

/// A source of identifiers: the kernel's, or a seed so that a simulation replays.
#[derive(Clone, Debug)]
pub enum Entropy {
    /// The kernel's generator.
    System,
    /// SplitMix64 from a seed; for simulations only, since the pool's secret becomes guessable.
    Seeded(Cell<u64>),
}

impl Entropy {
    /// A repeatable source.
    pub fn seeded(seed: u64) -> Entropy {
        Entropy::Seeded(Cell::new(seed))
    }

    pub(crate) fn word(&self) -> Result<u64, getrandom::Error> {
        match self {
            Entropy::System => getrandom::u64(),
            Entropy::Seeded(state) => {
                state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
                let mut mixed = state.get();
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                Ok(mixed ^ (mixed >> 31))
            }
        }
    }

    /// The time of day in milliseconds since 1970; nothing where a clock is set to before that. In
    /// a simulation it begins in 1970, and is as virtual as other time.
    pub(crate) fn milliseconds(&self) -> Option<u64> {
        match self {
            Entropy::System => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                u64::try_from(since.ok()?.as_millis()).ok()
            }
            Entropy::Seeded(_) => Some(reactor::now().as_nanos() / 1_000_000),
        }
    }

    pub(crate) fn bytes16(&self) -> Result<[u8; 16], getrandom::Error> {
        let mut bytes = [0; 16];
        for half in bytes.chunks_mut(8) {
            half.copy_from_slice(&self.word()?.to_le_bytes());
        }
        Ok(bytes)
    }
}
