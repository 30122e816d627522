//! Debian's kernels as hosts: each scenario on each kernel is one test, in a machine of its own.

mod administration;
mod announced;
mod arrays;
mod attaching;
mod authentication;
mod changes;
mod claims;
mod commands;
mod data;
mod file_systems;
mod groups;
#[cfg(feature = "long")]
mod many;
mod namespaces;
mod nvme_cli;
mod os_brick;
mod paths;
#[cfg(feature = "long")]
mod playbooks;
mod pools;
mod queries;
mod rdma;
mod rdma_library;
#[cfg(feature = "long")]
mod rdma_loss;
#[cfg(feature = "long")]
mod rdma_plan;
mod reservations;
mod restart;
mod tls;
mod tools;
mod unready;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use vm::{Guest, Image, Node, Suite};

/// Starts a node, boots `suite` and runs `scenario` in it.
fn run(suite: Suite, name: &str, scenario: fn(&mut Guest, Node)) {
    run_with(suite, name, |_| Vec::new(), scenario);
}

/// The same in a machine with more `devices`, whose files are below a directory.
fn run_with(
    suite: Suite,
    name: &str,
    devices: fn(&Path) -> Vec<String>,
    scenario: fn(&mut Guest, Node),
) {
    let directory = profile_directory().with_file_name("vm");
    let label = format!("{} {name}", suite.name());
    let program = profile_directory().join("flashyard");
    let image = image(suite, &program, &directory);
    let node = Node::start(&program, &directory, &label).expect("the node serves");
    let devices = devices(&directory.join(format!("{}.devices", label.replace(' ', "-"))));
    let mut guest = Guest::boot(image, &devices, &directory, &label).expect("the guest boots");
    scenario(&mut guest, node);
}

/// The scenario in which the guest has an NVMe drive of its own.
fn run_with_drive(suite: Suite) {
    run_with(
        suite,
        "namespaces",
        namespaces::devices,
        namespaces::scenario,
    );
}

/// Fetches and packs each suite's image once in a run.
fn image(suite: Suite, program: &Path, directory: &Path) -> &'static Image {
    static BOOKWORM: OnceLock<Image> = OnceLock::new();
    static TRIXIE: OnceLock<Image> = OnceLock::new();
    let image = match suite {
        Suite::Bookworm => &BOOKWORM,
        Suite::Trixie => &TRIXIE,
    };
    let programs = [
        program,
        Path::new(env!("CARGO_BIN_EXE_atomic-write")),
        Path::new(env!("CARGO_BIN_EXE_forward")),
        Path::new(env!("CARGO_BIN_EXE_rdma-host")),
    ];
    let build = || Image::build(suite, &programs, directory);
    image.get_or_init(|| build().expect("kernel and tools are at hand"))
}

/// Where cargo puts programs: TARGET/PROFILE, of which a test is in `deps`.
fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent);
    profile
        .expect("a test is in TARGET/PROFILE/deps")
        .to_path_buf()
}

/// A Python program that `.ci/install --KIND` brings; the others of its kind are in reach.
fn tool(kind: &str, program: &str) -> Command {
    let target = profile_directory();
    let target = target.parent().expect("a place for tools");
    let tools = target.join(kind).join("bin");
    let path = tools.join(program);
    assert!(
        path.exists(),
        "{} is missing: .ci/install --{kind}",
        path.display()
    );
    let others = std::env::var("PATH").expect("programs have a place");
    let mut command = Command::new(path);
    command
        .env("PATH", format!("{}:{others}", tools.display()))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn succeeds(command: &mut Command) {
    let status = command.status().expect("the program runs");
    assert!(status.success(), "{command:?} ended with {status}");
}

macro_rules! scenarios {
    ($suite:expr, $($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name).replace('_', " ");
                super::run($suite, &name, super::$name::scenario);
            }
        )*
    };
}

/// Linux 6.1 knows no TLS for NVMe/TCP.
#[test]
fn linux_6_12_tls() {
    run_with(Suite::Trixie, "tls", tls::devices, tls::scenario);
}

/// One kernel is enough for another transport of the same controllers.
#[test]
fn linux_6_12_rdma() {
    run_with(Suite::Trixie, "rdma", rdma::devices, rdma::scenario);
}

#[test]
fn linux_6_12_rdma_library() {
    run_with(
        Suite::Trixie,
        "rdma library",
        rdma::devices,
        rdma_library::scenario,
    );
}

/// Of two guests, on a network that is made bad.
#[cfg(feature = "long")]
#[test]
fn linux_6_12_rdma_loss() {
    let directory = profile_directory().with_file_name("vm");
    let image = image(
        Suite::Trixie,
        &profile_directory().join("flashyard"),
        &directory,
    );
    rdma_loss::run(image, "trixie rdma loss");
}

/// The program is the optimised one of `make build`: nine nodes run on emulated processors.
#[cfg(feature = "long")]
#[test]
fn linux_6_12_rdma_plan() {
    let directory = profile_directory().with_file_name("vm");
    let program = profile_directory()
        .with_file_name("release")
        .join("flashyard");
    // Beside the image of the others, which has the program of the tests.
    let image = Image::build(Suite::Trixie, &[&program], &directory.join("release"));
    let image = image.expect("kernel, tools and `make build` are at hand");
    rdma_plan::run(&image, "trixie rdma plan");
}

/// One kernel is enough for what os-brick does.
#[test]
fn linux_6_12_os_brick() {
    run_with(
        Suite::Trixie,
        "os brick",
        os_brick::devices,
        os_brick::scenario,
    );
}

/// What an administrator asks is answered by the newer tools too.
mod by_nvme_cli_3 {
    use vm::{Guest, Node, Suite};

    use super::{nvme_cli, run_with};

    fn run(name: &str, scenario: fn(&mut Guest, Node)) {
        let name = format!("{name} by nvme-cli 3");
        run_with(Suite::Trixie, &name, nvme_cli::devices, scenario);
    }

    #[test]
    fn queries() {
        run("queries", nvme_cli::queries);
    }

    #[test]
    fn authentication() {
        run("authentication", nvme_cli::authentication);
    }

    #[test]
    fn administration() {
        run("administration", nvme_cli::administration);
    }

    #[test]
    fn reservations() {
        run("reservations", nvme_cli::reservations);
    }

    #[test]
    fn tls() {
        run_with(
            Suite::Trixie,
            "tls by nvme-cli 3",
            nvme_cli::tls_devices,
            nvme_cli::tls,
        );
    }
}

/// One kernel is enough for what nvme-stas does.
#[test]
fn linux_6_12_announced() {
    run_with(
        Suite::Trixie,
        "announced",
        announced::devices,
        announced::scenario,
    );
}

/// One kernel is enough for what the CSI driver does.
#[test]
fn linux_6_12_claims() {
    run_with(Suite::Trixie, "claims", claims::devices, claims::scenario);
}

/// One kernel is enough to count a thousand disks on.
#[cfg(feature = "long")]
#[test]
fn linux_6_12_many() {
    run(Suite::Trixie, "many", many::scenario);
}

/// Minutes for each playbook: Python runs on emulated processors.
#[cfg(feature = "long")]
mod with_systemd {
    use super::{Image, Node, Suite, image, playbooks, profile_directory};

    fn run(name: &str, scenario: fn(&'static Image, Node)) {
        let directory = profile_directory().with_file_name("vm");
        let program = profile_directory().join("flashyard");
        let image = image(Suite::Trixie, &program, &directory);
        let node = Node::start(&program, &directory, name).expect("the node serves");
        scenario(image, node);
    }

    #[test]
    fn playbooks_make_a_host() {
        run("trixie playbooks host", playbooks::host);
    }

    #[test]
    fn playbooks_make_a_node() {
        run("trixie playbooks node", playbooks::node);
    }
}

mod linux_6_12 {
    use vm::Suite;

    scenarios! {
        Suite::Trixie,
        queries, data, file_systems, changes, authentication, paths, groups, pools, arrays,
        reservations, administration, attaching, unready, restart
    }

    #[test]
    fn namespaces() {
        super::run_with_drive(Suite::Trixie);
    }
}

/// The main paths; the rest follows in `make test-long`.
mod linux_6_1 {
    use vm::Suite;

    scenarios! {
        Suite::Bookworm,
        queries, data, authentication, attaching, restart
    }
}

#[cfg(feature = "long")]
mod also_linux_6_1 {
    use vm::Suite;

    scenarios! {
        Suite::Bookworm,
        file_systems, changes, paths, groups, pools, arrays, reservations, administration, unready
    }

    #[test]
    fn namespaces() {
        super::run_with_drive(Suite::Bookworm);
    }
}
