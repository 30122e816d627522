//! Other people's suites and databases on attached volumes, while nodes die and drives fail, and
//! attacks that last: too long for `make test`. `make test-long` runs them. Without the feature
//! `long` this target has no test at all, so that nothing counts as passed that did not run. Needs
//! root, as attaching does.

#![cfg(feature = "long")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/attached.rs"]
mod attached;
mod attacked;
#[path = "../support/database.rs"]
mod database;
#[path = "../attacks/everything.rs"]
mod everything;
#[path = "../attacks/flood.rs"]
mod flood;
mod fsx;
mod outcomes;
#[path = "../attacks/peer.rs"]
mod peer;
#[path = "../support/postgres.rs"]
mod postgres;
mod postgresql;
#[path = "../support/raid6.rs"]
mod raid6;
mod suite;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
mod xfstests;

/// A setting of a run, from the environment.
fn setting<T: std::str::FromStr>(name: &str, usual: T) -> T {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not of the kind that is asked for")),
        Err(_) => usual,
    }
}

/// The generator of the seed that is asked for, which is told.
fn random() -> sim::Random {
    let seed = setting("LONG_SEED", 1);
    println!("seed {seed}: LONG_SEED={seed} does the same again");
    sim::Random::new(seed)
}
