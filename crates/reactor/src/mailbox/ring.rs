//! The lock-free part of a mailbox: a bounded ring of numbered slots.
//!
//! Each slot has a turn number. A slot whose turn equals a sender's position is free for it; one
//! whose turn is a position plus one holds that position's value; after taking it the receiver
//! sets the turn to what the next lap's sender will look for. Senders claim positions by
//! compare-and-swap; the one receiver needs none. (The queue is Dmitry Vyukov's bounded one.)
//! The atomics come from the including module, so that a model checker can bring its own.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use super::atomics::{AtomicUsize, Ordering};

struct Slot<T> {
    turn: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Keeps what senders write and what the receiver writes on different cache lines.
#[repr(align(128))]
struct OwnLine<T>(T);

/// A bounded queue of many senders and one receiver.
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    mask: usize,
    tail: OwnLine<AtomicUsize>,
    head: OwnLine<AtomicUsize>,
}

// SAFETY: a value is written by the one sender that claimed its position and read by the one
// receiver after that; the slot's turn hands it over.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// A ring of at least `capacity` slots, and at least two: with one, a full slot and the next
    /// lap's free one would have the same turn.
    pub(crate) fn new(capacity: usize) -> Ring<T> {
        let count = capacity.max(2).next_power_of_two();
        let slots = (0..count)
            .map(|position| Slot {
                turn: AtomicUsize::new(position),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        Ring {
            slots,
            mask: count - 1,
            tail: OwnLine(AtomicUsize::new(0)),
            head: OwnLine(AtomicUsize::new(0)),
        }
    }

    /// Adds a value; gives it back when the ring is full.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let mut position = self.tail.0.load(Ordering::Relaxed);
        loop {
            let slot = &self.slots[position & self.mask];
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == position {
                let claimed = self.tail.0.compare_exchange_weak(
                    position,
                    position.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match claimed {
                    Ok(_) => {
                        // SAFETY: this sender alone claimed the position, and the turn said that
                        // the receiver has emptied the slot.
                        unsafe { (*slot.value.get()).write(value) };
                        slot.turn.store(position.wrapping_add(1), Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => position = now,
                }
            } else if (turn.wrapping_sub(position) as isize) < 0 {
                return Err(value);
            } else {
                position = self.tail.0.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes the oldest value. A value whose sender has not finished writing it hides those after
    /// it for as long as that takes.
    ///
    /// # Safety
    /// Only one thread at a time may call this.
    pub(crate) unsafe fn pop(&self) -> Option<T> {
        let position = self.head.0.load(Ordering::Relaxed);
        let slot = &self.slots[position & self.mask];
        if slot.turn.load(Ordering::Acquire) != position.wrapping_add(1) {
            return None;
        }
        // SAFETY: the turn says that the value was written; only this receiver reads it.
        let value = unsafe { (*slot.value.get()).assume_init_read() };
        self.head
            .0
            .store(position.wrapping_add(1), Ordering::Relaxed);
        let next_lap = position.wrapping_add(self.slots.len());
        slot.turn.store(next_lap, Ordering::Release);
        Some(value)
    }

    /// Whether a sender would find room now.
    pub(crate) fn has_room(&self) -> bool {
        let position = self.tail.0.load(Ordering::Relaxed);
        let turn = self.slots[position & self.mask]
            .turn
            .load(Ordering::Acquire);
        (turn.wrapping_sub(position) as isize) >= 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else uses the ring.
        while unsafe { self.pop() }.is_some() {}
    }
}
