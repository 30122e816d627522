//! Debian's kernels as hosts: each scenario on each kernel is one test, in a machine of its own.

mod changes;
mod data;
mod file_systems;
mod queries;
mod restart;

use std::path::PathBuf;

use vm::{Guest, Image, Storage, Suite};

/// Boots `suite` and runs `scenario` in it.
fn run(suite: Suite, name: &str, scenario: fn(&mut Guest, Storage)) {
    let directory = directory();
    let image = Image::build(suite, &directory).expect("kernel and tools are at hand");
    let label = format!("{} {name}", suite.name());
    let mut guest = Guest::boot(&image, &directory, &label).expect("the guest boots");
    let storage = Storage::in_kernel(&mut guest);
    scenario(&mut guest, storage);
}

/// `vm` in cargo's target directory: downloads, images and consoles.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test
        .ancestors()
        .nth(3)
        .expect("tests are in TARGET/PROFILE/deps");
    target.join("vm")
}

macro_rules! scenarios {
    ($module:ident, $suite:expr) => {
        mod $module {
            #[test]
            fn queries() {
                super::run($suite, "queries", super::queries::scenario);
            }

            #[test]
            fn data() {
                super::run($suite, "data", super::data::scenario);
            }

            #[test]
            fn file_systems() {
                super::run($suite, "file systems", super::file_systems::scenario);
            }

            #[test]
            fn changes() {
                super::run($suite, "changes", super::changes::scenario);
            }

            #[test]
            fn restart() {
                super::run($suite, "restart", super::restart::scenario);
            }
        }
    };
}

scenarios!(linux_6_1, vm::Suite::Bookworm);
scenarios!(linux_6_12, vm::Suite::Trixie);
