//! Debian's kernels as hosts: each scenario on each kernel is one test, in a machine of its own.

mod changes;
mod data;
mod file_systems;
mod queries;
mod restart;

use vm::{Guest, Image, Node, Suite};

/// Starts a node, boots `suite` and runs `scenario` in it.
fn run(suite: Suite, name: &str, scenario: fn(&mut Guest, Node)) {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("tests are in TARGET/PROFILE/deps");
    let target = profile.parent().expect("tests are in TARGET/PROFILE/deps");
    // Downloads, images, drives and logs.
    let directory = target.join("vm");
    let label = format!("{} {name}", suite.name());

    let image = Image::build(suite, &directory).expect("kernel and tools are at hand");
    let node =
        Node::start(&profile.join("flashyard"), &directory, &label).expect("the node serves");
    let mut guest = Guest::boot(&image, &directory, &label).expect("the guest boots");
    scenario(&mut guest, node);
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
