//! The memory that all contenders work on.

use parity::Survivors;

/// Columns start at multiples of this, as a pool's buffers do.
const ALIGNMENT: usize = 4096;

/// One stripe: data, P, Q, and room for two recovered columns; as slices and as pointers.
pub struct Stripe<'a> {
    /// The data columns.
    pub data: Vec<&'a [u8]>,
    /// The data columns but for the two that are [`lost`].
    survivors: Vec<Option<&'a [u8]>>,
    pub p: &'a mut [u8],
    pub q: &'a mut [u8],
    pub recovered: [&'a mut [u8]; 2],
    /// Data, P, Q.
    pub columns: Vec<*mut u8>,
    /// The columns that are left: data, P, Q.
    pub left: Vec<*mut u8>,
    /// Where recovered columns go.
    pub into: [*mut u8; 2],
}

/// The data columns that the comparison loses, of `data`.
pub fn lost(data: usize) -> [usize; 2] {
    [0, data / 2]
}

impl<'a> Stripe<'a> {
    /// Lays a stripe over `memory`, which is a multiple of `data` + 4 columns long.
    fn new(memory: &'a mut [u8], data: usize) -> Stripe<'a> {
        let bytes = memory.len() / (data + 4);
        let mut slices: Vec<&mut [u8]> = memory.chunks_exact_mut(bytes).collect();
        let pointers: Vec<*mut u8> = slices.iter_mut().map(|slice| slice.as_mut_ptr()).collect();
        let mut rest = slices.into_iter();
        let data_slices: Vec<&[u8]> = rest.by_ref().take(data).map(|slice| &*slice).collect();
        let mut next = || rest.next().expect("four columns follow the data");
        let (p, q, recovered) = (next(), next(), [next(), next()]);
        let mut survivors: Vec<Option<&[u8]>> = data_slices.iter().copied().map(Some).collect();
        let mut left = pointers[..data + 2].to_vec();
        for lost in lost(data) {
            survivors[lost] = None;
            left.retain(|pointer| *pointer != pointers[lost]);
        }
        Stripe {
            data: data_slices,
            survivors,
            p,
            q,
            recovered,
            columns: pointers[..data + 2].to_vec(),
            left,
            into: [pointers[data + 2], pointers[data + 3]],
        }
    }

    /// Bytes in a column.
    pub fn bytes(&self) -> usize {
        self.p.len()
    }

    /// What is left after the loss, and where the lost columns go.
    pub fn after_loss(&mut self) -> (Survivors<'_>, [&mut [u8]; 2]) {
        let [first, second] = &mut self.recovered;
        let survivors = Survivors {
            data: &self.survivors,
            p: Some(&*self.p),
            q: Some(&*self.q),
        };
        (survivors, [first, second])
    }
}

/// Random bytes to lay stripes over.
pub struct Arena(Vec<u8>);

impl Arena {
    pub fn new(bytes: usize) -> Arena {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut memory = vec![0; bytes + ALIGNMENT];
        for chunk in memory.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes());
        }
        Arena(memory)
    }

    /// As many stripes as fit into `bytes` of the arena, but at least one.
    pub fn stripes(&mut self, data: usize, column_bytes: usize, bytes: usize) -> Vec<Stripe<'_>> {
        let stripe_bytes = (data + 4) * column_bytes;
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        let count = (bytes / stripe_bytes).max(1);
        let memory = &mut self.0[start..][..count * stripe_bytes];
        memory
            .chunks_exact_mut(stripe_bytes)
            .map(|memory| Stripe::new(memory, data))
            .collect()
    }
}
