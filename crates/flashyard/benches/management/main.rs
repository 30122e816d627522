//! `cargo bench -p flashyard --bench management`: what hosts notice of what comes at a node's
//! management side, and how long a thousand volumes take to list and to start.
//!
//! The node's data path is on CPU 0; the load is on CPU 1, with the node's control plane and with
//! what floods it. So in each round the load runs alone, then for each kind of flood beside one at
//! another node, which stands where this one's control plane does, and beside one at this node:
//! what the first costs is this machine's, for having two processors. Figures are medians, ratios
//! medians of the rounds' own. `ROUNDS` and `SECONDS` change the defaults of 5 and 3.

mod flood;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/perf.rs"]
mod perf;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use api::{Size, VolumeSpec};
use bench::median;
use serde_json::{Value, json};

use flood::{Flood, KINDS, Kind};
use node::Node;
use perf::Sample;

const VOLUMES: usize = 1000;

/// How often volumes are listed, and the node started.
const LISTS: usize = 20;
const STARTS: usize = 5;

/// A load that leaves the processors some time, and one that takes all there is.
const LOADS: [(&str, &str); 2] = [
    (
        "20,000 reads a second",
        "--rw randread --bs 4k --iodepth 32 --rate-iops 20000",
    ),
    ("QD 32", "--rw randread --bs 4k --iodepth 32"),
];

fn main() -> Result<()> {
    if !bench::is_asked_for() {
        return Ok(());
    }
    let (rounds, seconds) = (bench::setting("ROUNDS", 5), bench::setting("SECONDS", 3));
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let mut node = with_volumes(&directory.path().join("node"))?;
    println!("Machine: {}\n", bench::machine());
    let many = many(&mut node)?;
    let other = with_volumes(&directory.path().join("other"))?;
    let mut tables = Vec::new();
    for (load, words) in LOADS {
        tables.push(flooded(&node, &other, load, words, rounds, seconds)?);
    }
    let result = json!({ "machine": bench::machine(), "many": many, "floods": tables });
    bench::save("management", &[], &result);
    Ok(())
}

/// A node with a volume that stands on nothing, and a thousand in a raid6 pool of six files.
fn with_volumes(directory: &Path) -> Result<Node> {
    let node = Node::start_speaking(directory, "https")?;
    let client = node.client()?;
    let null = api::DriveSpec::Null {
        size: Size(400 << 30),
    };
    client.add_drive(&"null".parse()?, &null)?;
    let volume = VolumeSpec {
        drive: Some("null".parse()?),
        hosts: vec![api::ANY_HOST.parse()?],
        ..VolumeSpec::default()
    };
    client.create_volume(&"null".parse()?, &volume)?;
    node.create_pool(&"pool".parse()?, directory, Size(1 << 30))?;
    let volume = VolumeSpec {
        pool: Some("pool".parse()?),
        size: Some(Size(16 << 20)),
        ..VolumeSpec::default()
    };
    for number in 0..VOLUMES {
        client.create_volume(&format!("v{number:04}").parse()?, &volume)?;
    }
    Ok(node)
}

/// How long a thousand volumes take to list, and a node that was killed to serve them again.
fn many(node: &mut Node) -> Result<Value> {
    let client = node.client()?;
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let began = Instant::now();
        let listed = client.volumes()?.items.len();
        lists.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(listed > VOLUMES, "{listed} volumes are listed");
    }
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(node.restart()?.as_secs_f64());
    }
    let listed = node.client()?.volumes()?.items.len();
    assert!(listed > VOLUMES, "{listed} volumes came back");
    let (list_ms, start_s) = (median(lists), median(starts));
    println!(
        "1,000 volumes of a pool: listed in {list_ms:.1} ms, served {start_s:.2} s after a kill\n"
    );
    Ok(json!({ "list_ms": list_ms, "start_s": start_s }))
}

/// The load alone, beside floods of another node, and beside floods of this one.
fn flooded(
    node: &Node,
    other: &Node,
    load: &str,
    words: &str,
    rounds: usize,
    seconds: usize,
) -> Result<Value> {
    let words = format!("{words} --runtime {seconds}s");
    let measure = || perf::measure(&mut node.perf("null", &words)?, "read");
    let mut floods: Vec<Vec<Kind>> = KINDS.iter().map(|kind| vec![*kind]).collect();
    floods.push(KINDS.to_vec());
    let (mut alone, mut rows) = (Vec::new(), vec![Vec::new(); floods.len()]);
    for _ in 0..rounds {
        let quiet = measure()?;
        alone.push(quiet);
        for (kinds, row) in floods.iter().zip(&mut rows) {
            let beside = |victim: &Node| -> Result<(Sample, f64)> {
                let flood = Flood::start(kinds, &victim.login()?);
                let began = Instant::now();
                let sample = measure()?;
                let took = began.elapsed().as_secs_f64();
                Ok((sample, flood.end()? as f64 / took))
            };
            let (elsewhere, _) = beside(other)?;
            let (here, rate) = beside(node)?;
            eprintln!("{load}, {kinds:?}: alone {quiet}; elsewhere {elsewhere}; here {here}");
            row.push(Round {
                quiet,
                elsewhere,
                here,
                rate,
            });
        }
    }
    let free = |of: fn(&Sample) -> f64| median(alone.iter().map(of));
    println!(
        "Load of {load}: alone {:.0} IOPS, p99 {:.1} us\n",
        free(|sample| sample.iops),
        free(|sample| sample.p99_us)
    );
    println!(
        "| what comes | a second | IOPS, of alone | of elsewhere | p99, of alone | of elsewhere |"
    );
    println!("|---|---|---|---|---|---|");
    let mut saved = Vec::new();
    for (kinds, row) in floods.iter().zip(&rows) {
        let name = match kinds.as_slice() {
            [one] => one.to_string(),
            _ => "all of these".to_owned(),
        };
        saved.push(print(&name, row));
    }
    println!();
    Ok(json!({ "load": load, "rows": saved }))
}

/// One round of one kind.
#[derive(Clone, Copy)]
struct Round {
    quiet: Sample,
    elsewhere: Sample,
    here: Sample,
    rate: f64,
}

fn print(name: &str, rounds: &[Round]) -> Value {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    let rate = of(|round| round.rate);
    let [iops, iops_elsewhere, p99, p99_elsewhere] = [
        of(|round| round.here.iops / round.quiet.iops),
        of(|round| round.here.iops / round.elsewhere.iops),
        of(|round| round.here.p99_us / round.quiet.p99_us),
        of(|round| round.here.p99_us / round.elsewhere.p99_us),
    ];
    println!(
        "| {name} | {rate:.0} | {iops:.3} | {iops_elsewhere:.3} | {p99:.2} | {p99_elsewhere:.2} |"
    );
    json!({ "flood": name, "a_second": rate, "ratios": {
        "iops_of_alone": iops, "iops_of_elsewhere": iops_elsewhere,
        "p99_of_alone": p99, "p99_of_elsewhere": p99_elsewhere,
    } })
}
