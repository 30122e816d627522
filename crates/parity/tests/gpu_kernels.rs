//! The kernels for a GPU compute what the portable kernel does. They are compiled as C and run
//! here, a thread at a time, under the sanitizers of addresses and of undefined behaviour. What was
//! compiled of them for the driver is of the same source.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernels::{BLOCK_BYTES, Batch, Job, Launch};
use parity::Kernel;
use sha2::{Digest, Sha256};

#[path = "../benches/gpu/kernels.rs"]
mod kernels;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/gpu")
}

/// The program that runs a kernel, compiled for the test of this name.
fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gpu-kernels-{name}"));
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-x", "c"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg(folder().join("host.c"))
        .arg("-o")
        .arg(&program)
        .status()
        .expect("a C compiler is there, which s2n-tls needs too");
    assert!(compiled.success(), "host.c does not compile");
    program
}

/// What the kernel leaves in `result_bytes` of zeroes.
fn run(
    program: &Path,
    launch: &Launch,
    tables: &[u8],
    columns: &[u8],
    result_bytes: usize,
) -> Vec<u8> {
    let (grid, threads) = (launch.grid, launch.threads);
    let numbers = [
        result_bytes,
        grid.0 as usize,
        grid.1 as usize,
        threads as usize,
    ];
    let mut child = Command::new(program)
        .arg(launch.kernel)
        .args(numbers.map(|number| number.to_string()))
        .args([tables.len().to_string(), columns.len().to_string()])
        .args(launch.arguments.iter().map(u32::to_string))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = [tables, columns].concat();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{launch:?}: {}", output.status);
    writer.join().unwrap().unwrap();
    output.stdout
}

/// Random bytes, the same ones for the same seed.
fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

fn expected(job: Job, batch: Batch, input: &[u8]) -> Vec<u8> {
    let mut results = vec![0; batch.result_bytes(job)];
    let stripes = input.chunks_exact(batch.data * batch.column_bytes);
    let parts = results.chunks_exact_mut(job.results() * batch.column_bytes);
    for (stripe, part) in stripes.zip(parts) {
        let columns: Vec<&[u8]> = stripe.chunks_exact(batch.column_bytes).collect();
        let mut into: Vec<&mut [u8]> = part.chunks_exact_mut(batch.column_bytes).collect();
        kernels::work(Kernel::portable(), job, &columns, &mut into);
    }
    results
}

/// Runs the job as the benchmark does, and compares all that it leaves.
fn agrees(program: &Path, job: Job, batch: Batch) {
    let input = random(batch.bytes() as u64, batch.bytes());
    let launch = kernels::columns(job, batch);
    let found = run(program, &launch, &[], &input, batch.result_bytes(job));
    assert!(
        found == expected(job, batch, &input),
        "{} of {batch:?} differs",
        job.name()
    );
    if job == Job::PqAndChecksums {
        sums_agree(program, &input);
        sums_agree(program, &found);
    }
}

fn sums_agree(program: &Path, bytes: &[u8]) {
    let tables: Vec<u8> = kernels::tables()
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect();
    let blocks = bytes.len() / BLOCK_BYTES;
    let found = run(
        program,
        &kernels::checksums(bytes.len()),
        &tables,
        bytes,
        4 * blocks,
    );
    let sums = bytes.chunks_exact(BLOCK_BYTES).map(kernels::checksum);
    let expected: Vec<u8> = sums.flat_map(u32::to_le_bytes).collect();
    assert_eq!(found, expected, "of {blocks} blocks");
}

/// Columns of one block of threads, of several, and of a part of one.
const COLUMNS: [(usize, usize); 4] = [(4096, 3), (16_384, 2), (64, 5), (16 * 300, 2)];

#[test]
fn parity_is_that_of_the_portable_kernel() {
    let program = program("parity");
    for data in [1, 2, 4, 8, 22, 255] {
        for (column_bytes, stripes) in COLUMNS {
            let batch = Batch {
                data,
                column_bytes,
                stripes,
            };
            agrees(&program, Job::Pq, batch);
        }
    }
}

#[test]
fn every_lost_column_comes_back() {
    let program = program("one");
    for data in [4, 8, 22] {
        for lost in 0..data {
            let batch = Batch {
                data,
                column_bytes: 4096,
                stripes: 2,
            };
            agrees(&program, Job::RecoverOne { lost }, batch);
        }
    }
}

#[test]
fn every_two_lost_columns_come_back() {
    let program = program("two");
    for data in [2, 4, 8, 22] {
        for y in 1..data {
            for x in 0..y {
                let batch = Batch {
                    data,
                    column_bytes: 1024,
                    stripes: 2,
                };
                agrees(&program, Job::RecoverTwo { lost: [x, y] }, batch);
            }
        }
    }
}

#[test]
fn checksums_are_those_of_the_pool() {
    let program = program("checksums");
    for blocks in [1, 7, 8, 9, 40] {
        let mut input = random(blocks as u64, blocks * BLOCK_BYTES);
        input[..BLOCK_BYTES].fill(if blocks == 7 { 0 } else { 0xff });
        sums_agree(&program, &input);
    }
    let batch = Batch {
        data: 4,
        column_bytes: 8192,
        stripes: 2,
    };
    agrees(&program, Job::PqAndChecksums, batch);
}

#[test]
fn what_the_driver_gets_was_compiled_of_this_source() {
    let source = std::fs::read(folder().join("kernels.cu")).unwrap();
    let compiled = std::fs::read_to_string(folder().join("kernels.ptx")).unwrap();
    let hash: String = Sha256::digest(source)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let first = compiled.lines().next().unwrap();
    assert_eq!(
        first,
        format!("// kernels.cu, SHA-256 {hash}"),
        "`.ci/gpu ptx` compiles it again"
    );
}
