//! What `kernels.cu` is asked to do, and what it must answer: of the benchmark, and of the test
//! that runs the same kernels on a processor.

use parity::field::{inverse, multiply, power_of_two};
use parity::{Column, Kernel, Survivors};

/// Bytes under one checksum.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes that a thread has of each column.
pub const WORD_BYTES: usize = 16;
/// Threads of a block that has this many words or more.
const THREADS: u32 = 256;
/// The lanes of a warp.
const LANES: u32 = 32;
/// What the lanes of a warp take in at once.
const ROW_BYTES: usize = 512;
/// The polynomial of CRC32C, its lowest power in the highest bit.
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// What is computed of each stripe. Its input has as many columns as the stripe has data columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// P and Q, of the data.
    Pq,
    /// P and Q, and the CRC32C of each 4 KiB of data, P and Q.
    PqAndChecksums,
    /// The lost data column, of the others in order and P.
    RecoverOne { lost: usize },
    /// Two lost data columns, of the others in order, P and Q.
    RecoverTwo { lost: [usize; 2] },
}

impl Job {
    /// How the job is called in results.
    pub fn name(self) -> &'static str {
        match self {
            Job::Pq => "pq",
            Job::PqAndChecksums => "pq+crc32c",
            Job::RecoverOne { .. } => "recover one",
            Job::RecoverTwo { .. } => "recover two",
        }
    }

    /// Columns that the job computes of each stripe.
    pub fn results(self) -> usize {
        match self {
            Job::RecoverOne { .. } => 1,
            _ => 2,
        }
    }
}

/// A batch of stripes.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Data columns of a stripe.
    pub data: usize,
    /// Bytes of a column, a multiple of [`WORD_BYTES`].
    pub column_bytes: usize,
    pub stripes: usize,
}

impl Batch {
    /// Bytes of the input.
    pub fn bytes(self) -> usize {
        self.stripes * self.data * self.column_bytes
    }

    /// Bytes of the columns that `job` computes.
    pub fn result_bytes(self, job: Job) -> usize {
        self.stripes * job.results() * self.column_bytes
    }
}

/// One run of a kernel.
#[derive(Debug)]
pub struct Launch {
    pub kernel: &'static str,
    pub grid: (u32, u32),
    pub threads: u32,
    /// What follows the pointers.
    pub arguments: Vec<u32>,
}

/// The run that computes the columns of `job`.
pub fn columns(job: Job, batch: Batch) -> Launch {
    let words = small(batch.column_bytes / WORD_BYTES);
    let threads = words.min(THREADS);
    let data = small(batch.data);
    let (kernel, more) = match job {
        Job::Pq | Job::PqAndChecksums => ("generate_pq", Vec::new()),
        Job::RecoverOne { .. } => ("recover_one", Vec::new()),
        Job::RecoverTwo { lost: [x, y] } => {
            let [of_p, of_q] = factors([x, y]);
            ("recover_two", vec![small(x), small(y), of_p, of_q])
        }
    };
    Launch {
        kernel,
        grid: (words.div_ceil(threads), small(batch.stripes)),
        threads,
        arguments: [vec![data, words], more].concat(),
    }
}

/// The run that computes the checksums of `bytes`, which are whole blocks.
pub fn checksums(bytes: usize) -> Launch {
    let blocks = small(bytes / BLOCK_BYTES);
    Launch {
        kernel: "checksums",
        grid: ((blocks * LANES).div_ceil(THREADS), 1),
        threads: THREADS,
        arguments: vec![blocks],
    }
}

/// The first lost column is the first factor times what P lacks, and the second times what Q lacks.
fn factors([x, y]: [usize; 2]) -> [u32; 2] {
    let distance = power_of_two(y - x);
    let common = inverse(distance ^ 1);
    let of_q = multiply(inverse(power_of_two(x)), common);
    [multiply(distance, common).into(), of_q.into()]
}

/// What the kernel of checksums looks up: see there.
pub fn tables() -> Vec<u32> {
    let stepped = |value: u32, bits: usize| (0..bits).fold(value, |sum, _| step(sum));
    let mut tables = Vec::new();
    for bits in [8 * 4, 8 * ROW_BYTES] {
        for place in 0..4 {
            tables.extend((0..256).map(|byte| stepped(byte << (8 * place), bits)));
        }
    }
    let words_behind = (0..LANES as usize).rev();
    tables.extend(words_behind.map(|words| stepped(1 << 31, 8 * WORD_BYTES * words)));
    tables.push(checksum(&[0; BLOCK_BYTES]));
    tables
}

/// `sum` times x, modulo the polynomial.
fn step(sum: u32) -> u32 {
    (sum >> 1) ^ (if sum & 1 == 1 { CASTAGNOLI } else { 0 })
}

/// The CRC32C of `block`.
pub fn checksum(block: &[u8]) -> u32 {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, block);
    u32::try_from(sum).expect("a CRC32C has 32 bits")
}

/// Does `job` for one stripe, whose columns are given as the job's input, with `kernel`.
pub fn work(kernel: Kernel, job: Job, columns: &[&[u8]], results: &mut [&mut [u8]]) {
    match (job, results) {
        (Job::Pq | Job::PqAndChecksums, [p, q]) => kernel.generate_pq(columns, p, q),
        (Job::RecoverOne { lost }, [column]) => {
            let (data, parity) = columns.split_at(columns.len() - 1);
            let survivors = survivors(data, &[lost]);
            let survivors = Survivors {
                data: &survivors,
                p: Some(parity[0]),
                q: None,
            };
            let recovered = kernel.recover(survivors, &mut [(Column::Data(lost), column)]);
            assert_eq!(recovered, Ok(()));
        }
        (Job::RecoverTwo { lost }, [first, second]) => {
            let (data, parity) = columns.split_at(columns.len() - 2);
            let survivors = survivors(data, &lost);
            let survivors = Survivors {
                data: &survivors,
                p: Some(parity[0]),
                q: Some(parity[1]),
            };
            let [x, y] = lost.map(Column::Data);
            let recovered = kernel.recover(survivors, &mut [(x, first), (y, second)]);
            assert_eq!(recovered, Ok(()));
        }
        (job, results) => panic!("{job:?} has no {} results", results.len()),
    }
}

/// The columns that are left, with a gap for each lost one; those are in order.
fn survivors<'a>(left: &[&'a [u8]], lost: &[usize]) -> Vec<Option<&'a [u8]>> {
    let mut survivors: Vec<Option<&[u8]>> = left.iter().copied().map(Some).collect();
    for lost in lost {
        survivors.insert(*lost, None);
    }
    survivors
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("sizes of the benchmark fit")
}
