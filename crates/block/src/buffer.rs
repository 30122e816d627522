//! [`Buffer`]: aligned memory that travels with a request and back, from a per-core pool.
#![allow(unsafe_code, reason = "owns aligned allocations; see the SAFETY lines")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Every buffer starts at a multiple of this: enough for O_DIRECT on any drive.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// Size classes are powers of two from 4 KiB to 4 MiB; larger buffers are not pooled.
const SMALLEST_CLASS_BYTES: usize = 4096;
const CLASS_COUNT: usize = 11;

/// A core keeps at most this much free memory in each size class.
const POOLED_BYTES_PER_CLASS: usize = 16 << 20;

/// Owned memory aligned to [`BUFFER_ALIGNMENT`], at least as large as its length.
///
/// Taken from the calling thread's pool and returned, when dropped, to the pool of the thread that
/// drops it; a buffer may move between threads. Its contents are always initialised, but not
/// always zero: a fresh [`Buffer::new`] may hold bytes of an earlier request, which the layer that
/// fills it must overwrite before anyone else sees them.
pub struct Buffer {
    memory: NonNull<u8>,
    capacity: usize,
    len: usize,
}

// SAFETY: a Buffer uniquely owns its allocation, which has no thread affinity.
unsafe impl Send for Buffer {}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::new()) };
}

struct Pool {
    free: [Vec<NonNull<u8>>; CLASS_COUNT],
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            free: [const { Vec::new() }; CLASS_COUNT],
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, free) in self.free.iter_mut().enumerate() {
            for memory in free.drain(..) {
                // SAFETY: pooled pointers were allocated with exactly this class's layout.
                unsafe { dealloc(memory.as_ptr(), layout(SMALLEST_CLASS_BYTES << class)) };
            }
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BUFFER_ALIGNMENT)
        .expect("buffer capacity is bounded by the address space")
}

/// The size class of `capacity`, when it is pooled.
fn class_of(capacity: usize) -> Option<usize> {
    let class = capacity
        .trailing_zeros()
        .checked_sub(SMALLEST_CLASS_BYTES.trailing_zeros())?;
    let class = class as usize;
    (class < CLASS_COUNT && capacity == SMALLEST_CLASS_BYTES << class).then_some(class)
}

impl Buffer {
    /// A buffer of `len` bytes with unspecified (initialised) contents.
    pub fn new(len: usize) -> Buffer {
        let capacity = if len <= SMALLEST_CLASS_BYTES << (CLASS_COUNT - 1) {
            len.next_power_of_two().max(SMALLEST_CLASS_BYTES)
        } else {
            len.next_multiple_of(BUFFER_ALIGNMENT)
        };
        let pooled = class_of(capacity).and_then(|class| {
            POOL.try_with(|pool| pool.borrow_mut().free[class].pop())
                .ok()
                .flatten()
        });
        let memory = pooled.unwrap_or_else(|| allocate(capacity));
        Buffer {
            memory,
            capacity,
            len,
        }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Buffer {
        let mut buffer = Buffer::new(len);
        buffer.fill(0);
        buffer
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// How many bytes the buffer can hold without another allocation.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes the length to `len`, which must not exceed the capacity; contents stay.
    ///
    /// # Panics
    /// When `len` exceeds [`Buffer::capacity`].
    pub fn resize(&mut self, len: usize) {
        assert!(
            len <= self.capacity,
            "buffer of {} bytes resized to {len}",
            self.capacity
        );
        self.len = len;
    }
}

fn allocate(capacity: usize) -> NonNull<u8> {
    let layout = layout(capacity);
    // SAFETY: the layout has a non-zero size, since capacity is at least SMALLEST_CLASS_BYTES.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = self.memory;
        let kept = class_of(self.capacity).is_some_and(|class| {
            POOL.try_with(|pool| {
                let free = &mut pool.borrow_mut().free[class];
                let keep = free.len() * self.capacity < POOLED_BYTES_PER_CLASS;
                if keep {
                    free.push(memory);
                }
                keep
            })
            .unwrap_or(false)
        });
        if !kept {
            // SAFETY: allocated by `allocate` with this capacity, and not given to the pool.
            unsafe { dealloc(memory.as_ptr(), layout(self.capacity)) };
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: memory is owned, initialised for `capacity >= len` bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_sized() {
        for len in [0, 1, 512, 4096, 4097, 131_072, (4 << 20) + 1] {
            let buffer = Buffer::new(len);
            assert_eq!(buffer.len(), len);
            assert!(buffer.capacity() >= len);
            assert_eq!(buffer.as_ptr() as usize % BUFFER_ALIGNMENT, 0);
        }
    }

    #[test]
    fn a_dropped_buffer_is_reused_by_the_same_thread() {
        let first = Buffer::new(8192);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(Buffer::new(5000).as_ptr(), address);
    }

    #[test]
    fn a_buffer_may_be_dropped_on_another_thread() {
        let buffer = Buffer::copy_of(&[7; 4096]);
        std::thread::spawn(move || assert!(buffer.iter().all(|byte| *byte == 7)))
            .join()
            .unwrap();
    }

    #[test]
    #[should_panic(expected = "resized to 4097")]
    fn growing_past_the_capacity_is_a_programming_error() {
        Buffer::new(4096).resize(4097);
    }
}
