//! Every command of the program.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::support::{flashyard, text};

/// What a command does with its standard output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shows {
    /// Shows something, which is not shown again: nothing is made that cannot be shown.
    Once,
    /// Writes data: the null device may have it, and whoever does not read to the end is told.
    Data,
    /// Shows something.
    Answer,
    /// Shows nothing.
    Nothing,
    /// Is refused with this code, as nothing here could let it show something, and why.
    Refused(i32, &'static str),
}
use Shows::{Answer, Data, Nothing, Once, Refused};

/// Every command of the program, in an order in which each finds what it needs. `{n}` is 1 where
/// the output is full, 2 where its reader has gone and 3 where it was closed; `{dir}` is a
/// directory of the test's. What follows `<` is the file that is standard input.
pub const COMMANDS: &[(&str, Shows)] = &[
    ("serve --check-config", Answer),
    ("serve --print-default-config", Answer),
    ("status", Answer),
    ("top --once", Answer),
    ("drive list", Answer),
    ("drive add d{n} --memory 64MiB", Answer),
    (
        "drive add e{n} --emulated cm7-r-7.68 --scale 0.00001",
        Answer,
    ),
    ("drive show d{n}", Answer),
    ("drive smart e{n}", Answer),
    ("host add h{n} --nqn nqn.2014-08.org.example:h{n}", Answer),
    ("host add g{n} --nqn nqn.2014-08.org.example:g{n}", Answer),
    ("host list", Answer),
    ("host show h{n}", Answer),
    ("host show h{n} --commands", Answer),
    ("host key h{n} --generate", Once),
    ("host tls-key g{n} --generate", Once),
    ("drive grant e{n} h{n}", Answer),
    ("drive revoke e{n} h{n}", Answer),
    ("namespace list e{n}", Answer),
    ("namespace delete e{n} 1", Answer),
    ("namespace create e{n} --size 4MiB", Answer),
    (
        "namespace attach e{n} 1",
        Refused(1, "takes an NVMe drive of the machine"),
    ),
    (
        "namespace detach e{n} 1",
        Refused(1, "takes an NVMe drive of the machine"),
    ),
    ("drive wipe d{n}", Answer),
    ("pool create p{n} --level raid0 --drives d{n}", Answer),
    ("pool list", Answer),
    ("pool show p{n}", Answer),
    (
        "volume create v{n} --pool p{n} --size 8MiB --allow any",
        Answer,
    ),
    ("volume list", Answer),
    ("volume show v{n}", Answer),
    (
        "attach v{n} --method fuse --directory {dir}/attached",
        Answer,
    ),
    ("attached --directory {dir}/attached", Answer),
    ("detach v{n} --directory {dir}/attached", Nothing),
    (
        "csi --endpoint unix://{dir}/none/csi.sock --mode controller",
        Refused(1, "shows nothing, and serves until it is ended"),
    ),
    ("perf {volume} --number-ios 8", Answer),
    ("volume resize v{n} 12MiB", Answer),
    ("volume allow v{n} g{n}", Answer),
    ("volume deny v{n} g{n}", Answer),
    ("volume reserve v{n}", Answer),
    ("volume protect v{n} --off", Answer),
    ("volume limit v{n} --iops 1000", Answer),
    ("volume snapshot v{n} s{n}", Answer),
    ("snapshot list", Answer),
    ("snapshot extents s{n}", Answer),
    ("snapshot send s{n}", Data),
    (
        "volume receive w{n} --pool kept --snapshot u{n} <{dir}/stream",
        Answer,
    ),
    ("volume rollback v{n} s{n}", Answer),
    ("volume promote v{n}", Answer),
    (
        "volume replicate kept{n} --to http://127.0.0.1:9 --pool p --every 1h \
         --to-token-file /proc/sys/kernel/ostype",
        Answer,
    ),
    ("volume replications", Answer),
    ("volume unreplicate kept{n}", Answer),
    ("snapshot create v{n}=t{n}", Answer),
    ("volume clone s{n} c{n}", Answer),
    ("snapshot delete t{n}", Answer),
    ("snapshot schedule kept{n} --hourly 2", Answer),
    ("snapshot schedules", Answer),
    ("snapshot unschedule kept{n}", Answer),
    ("volume rename c{n} r{n}", Answer),
    ("volume delete r{n}", Answer),
    ("pool usage p{n}", Answer),
    ("pool scrub p{n} --wait", Answer),
    ("job list", Answer),
    ("job show 1", Answer),
    ("tenant grant a{n} p{n} --size 1MiB", Answer),
    ("tenant limit a{n} --iops 1000", Answer),
    ("tenant list", Answer),
    ("tenant show a{n}", Answer),
    ("tenant revoke a{n} p{n}", Answer),
    ("pool export p{n}", Answer),
    ("pool import p{n}", Answer),
    ("pool add-drive p{n} f{n}", Answer),
    ("pool remove-drive p{n} f{n} --wait", Answer),
    ("pool fail-drive pair{n} a{n}", Answer),
    ("volume delete v{n}", Answer),
    ("snapshot delete s{n}", Answer),
    ("pool destroy p{n}", Answer),
    ("drive remove d{n}", Answer),
    ("host remove h{n}", Answer),
    ("port list", Answer),
    ("port set 1 --path optimized", Answer),
    ("session list", Answer),
    ("token create t{n} --role viewer", Once),
    ("token list", Answer),
    ("token revoke spare{n}", Answer),
    ("token reset-admin --state {dir}", Answer),
    ("login {node} --token-file {token}", Answer),
    ("audit list", Answer),
    ("settings show", Answer),
    ("settings set --scrub-interval 30", Answer),
    ("event list", Answer),
    ("ssd profiles", Answer),
    ("ssd simulate cm7-r-7.68 --fidelity closed-form", Answer),
    (
        "ssd sweep cm7-r-7.68 --fidelity closed-form --namespace 5TB..7TB --points 2",
        Answer,
    ),
    ("ssd fit {dir}/figures.toml", Answer),
    ("lab list", Answer),
    (
        "lab run namespace --size smoke --results {dir}/results{n}.json",
        Answer,
    ),
    ("lab report {dir}/results.json", Answer),
    ("lab report {dir}/results.json --format csv", Answer),
    ("lab compare {dir}/results.json {dir}/results.json", Answer),
    ("completion bash", Answer),
    ("manual {dir}/manual", Nothing),
    ("sim --seed 1 --runs 1 --scenario calm", Answer),
    ("demo --runtime 100ms --directory {dir}", Answer),
];

/// The commands of the program that do something, by its own help, with that.
pub fn commands_of_help() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![Vec::<String>::new()];
    while let Some(verb) = left.pop() {
        let words: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let help = text(&flashyard(&words).stdout);
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let listed = listed.take_while(|line| line.starts_with("  "));
        let names = listed.filter_map(|line| {
            let named = line
                .strip_prefix("  ")
                .filter(|line| !line.starts_with(' '));
            named.and_then(|line| line.split(' ').next())
        });
        let names: Vec<&str> = names.filter(|name| *name != "help").collect();
        if names.is_empty() {
            found.insert(verb.join(" "), help.clone());
        }
        let below = names
            .iter()
            .map(|name| [&verb[..], &[(*name).to_owned()]].concat());
        left.extend(below);
    }
    found
}
