//! [`Buffer`]: aligned memory that travels with a request and back, from a per-core pool.
#![allow(unsafe_code, reason = "owns aligned allocations; see the SAFETY lines")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

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
///
/// A transfer that goes to several places is cut with [`split_off`](Buffer::split_off) and put
/// together again with [`rejoin`](Buffer::rejoin): no byte is copied.
///
/// ```
/// use block::Buffer;
///
/// let mut first = Buffer::zeroed(12_288);
/// let rest = first.split_off(4096);
/// assert_eq!((first.len(), rest.len()), (4096, 8192));
/// let whole = first.rejoin(rest).ok().expect("they are parts of one buffer");
/// assert_eq!(whole.len(), 12_288);
/// ```
pub struct Buffer {
    memory: NonNull<u8>,
    capacity: usize,
    len: usize,
    /// What this is a part of. `None` owns its memory alone.
    whole: Option<Arc<Allocation>>,
}

// SAFETY: a Buffer alone may touch the memory from `memory` on for `capacity` bytes: either it owns
// the allocation, or it is one of the disjoint parts of one that lives as long as they do. Memory
// has no thread affinity.
unsafe impl Send for Buffer {}
// SAFETY: a shared Buffer can only be read.
unsafe impl Sync for Buffer {}

/// The memory of a buffer.
struct Allocation {
    memory: NonNull<u8>,
    capacity: usize,
}

// SAFETY: an Allocation only frees its memory, on whatever thread; its parts reach the bytes, each
// its own.
unsafe impl Send for Allocation {}
// SAFETY: as above; nothing can be done with a shared one.
unsafe impl Sync for Allocation {}

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
            whole: None,
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

    /// Has the processor bring what is at byte `offset` into its caches while it goes on: for who
    /// will look there soon, and looks elsewhere first. Where processors are not told, and behind
    /// the end, nothing happens.
    pub fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(byte) = self.get(offset) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every processor of the architecture has the instruction, which accesses
            // nothing; and the address is in the buffer.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
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

    /// Cuts the buffer at `at`: it keeps what is before, and what is behind is returned.
    ///
    /// # Panics
    /// When `at` is not a multiple of [`BUFFER_ALIGNMENT`] inside the buffer, so that either part
    /// would be empty or not be aligned.
    pub fn split_off(&mut self, at: usize) -> Buffer {
        assert!(
            0 < at && at < self.len && at.is_multiple_of(BUFFER_ALIGNMENT),
            "buffer of {} bytes cut at {at}",
            self.len
        );
        let (memory, capacity) = (self.memory, self.capacity);
        let whole = self
            .whole
            .get_or_insert_with(|| Arc::new(Allocation { memory, capacity }))
            .clone();
        let rest = Buffer {
            // SAFETY: `at` is below `capacity`, so this is inside the allocation.
            memory: unsafe { memory.add(at) },
            capacity: capacity - at,
            len: self.len - at,
            whole: Some(whole),
        };
        self.capacity = at;
        self.len = at;
        rest
    }

    /// Puts a part together with the one that was cut off behind it. Gives both back if `next` is
    /// not that part.
    pub fn rejoin(mut self, mut next: Buffer) -> Result<Buffer, (Buffer, Buffer)> {
        let of_one = match (&self.whole, &next.whole) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        };
        // SAFETY: one past the part is at most one past its allocation.
        let end = unsafe { self.memory.add(self.capacity) };
        if !of_one || end != next.memory || self.len != self.capacity {
            return Err((self, next));
        }
        self.capacity += next.capacity;
        self.len += next.len;
        // What is joined is no longer `next`'s to give back.
        drop(next.whole.take());
        std::mem::forget(next);
        let covers = |whole: &Arc<Allocation>| self.capacity == whole.capacity;
        if let Some(whole) = self.whole.take_if(|whole| covers(whole)) {
            // Nothing else is a part of it: this owns the memory again, and gives it back itself.
            std::mem::forget(Arc::into_inner(whole));
        }
        Ok(self)
    }
}

fn allocate(capacity: usize) -> NonNull<u8> {
    let layout = layout(capacity);
    // SAFETY: the layout has a non-zero size, since capacity is at least SMALLEST_CLASS_BYTES.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives memory to the thread's pool, or back to the system.
fn free(memory: NonNull<u8>, capacity: usize) {
    let kept = class_of(capacity).is_some_and(|class| {
        POOL.try_with(|pool| {
            let free = &mut pool.borrow_mut().free[class];
            let keep = free.len() * capacity < POOLED_BYTES_PER_CLASS;
            if keep {
                free.push(memory);
            }
            keep
        })
        .unwrap_or(false)
    });
    if !kept {
        // SAFETY: allocated by `allocate` with this capacity, and not given to the pool.
        unsafe { dealloc(memory.as_ptr(), layout(capacity)) };
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        free(self.memory, self.capacity);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.whole.is_none() {
            free(self.memory, self.capacity);
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

    /// A buffer of so many pages, each full of its number.
    fn numbered(pages: usize) -> Buffer {
        let mut buffer = Buffer::new(pages * BUFFER_ALIGNMENT);
        for (number, page) in buffer.chunks_mut(BUFFER_ALIGNMENT).enumerate() {
            page.fill(number as u8);
        }
        buffer
    }

    #[test]
    fn parts_are_written_apart_and_make_a_whole_again() {
        let mut first = numbered(8);
        let address = first.as_ptr();
        let mut third = first.split_off(5 * BUFFER_ALIGNMENT);
        let mut second = first.split_off(2 * BUFFER_ALIGNMENT);
        assert_eq!(
            [first.len(), second.len(), third.len()],
            [8192, 12288, 12288]
        );
        assert_eq!([first.capacity(), second.capacity()], [8192, 12288]);
        second.fill(0xEE);
        third[0] = 0xDD;
        let joined = second.rejoin(third).unwrap();
        let whole = first.rejoin(joined).unwrap();
        assert_eq!((whole.as_ptr(), whole.len()), (address, 8 * 4096));
        assert!(whole.whole.is_none(), "it owns its memory alone again");
        assert_eq!(whole[2 * 4096 - 1], 1);
        assert!(whole[2 * 4096..5 * 4096].iter().all(|byte| *byte == 0xEE));
        assert_eq!(whole[5 * 4096..5 * 4096 + 2], [0xDD, 5]);
        drop(whole);
        assert_eq!(Buffer::new(8 * 4096).as_ptr(), address, "back in the pool");
    }

    #[test]
    fn only_neighbours_make_a_whole() {
        let mut first = numbered(4);
        let mut second = first.split_off(4096);
        let third = second.split_off(4096);
        let (first, third) = first.rejoin(third).unwrap_err();
        let (third, second) = third.rejoin(second).unwrap_err();
        let (first, other) = first.rejoin(numbered(1)).unwrap_err();
        drop(other);
        let joined = first.rejoin(second).unwrap();
        assert!(joined.rejoin(third).is_ok());
    }

    #[test]
    fn memory_lives_until_its_last_part_is_dropped() {
        let mut first = numbered(16);
        let address = first.as_ptr();
        let mut second = first.split_off(4 * 4096);
        drop(second.split_off(8 * 4096));
        let joined = first.rejoin(second).unwrap();
        assert!(joined.whole.is_some(), "it is not all of its memory");
        assert_ne!(Buffer::new(16 * 4096).as_ptr(), address);
        std::thread::spawn(move || assert_eq!(joined[11 * 4096], 11))
            .join()
            .unwrap();
    }

    #[test]
    #[should_panic(expected = "buffer of 8192 bytes cut at 512")]
    fn parts_are_aligned() {
        Buffer::new(8192).split_off(512);
    }

    #[test]
    #[should_panic(expected = "resized to 4097")]
    fn growing_past_the_capacity_is_a_programming_error() {
        Buffer::new(4096).resize(4097);
    }
}
