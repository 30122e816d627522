//! Every address that a node tells is one that whoever hears of it can use: on several interfaces,
//! of both families, from elsewhere and from the node's machine. Needs root, for network name
//! spaces.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "addresses/announced.rs"]
mod announced;
#[path = "support/commands.rs"]
mod commands;
#[path = "support/network.rs"]
mod network;
mod support;
#[path = "addresses/told.rs"]
mod told;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use api::{DriveSpec, Status, VolumeSpec};
use client::{Client, Login};
use commands::COMMANDS;
use initiator::{ConnectOptions, DiscoveryRecord, discover};
use network::Machine;
use reactor::{Reactor, ReactorConfig};
use server::endpoints::Endpoints;
use server::tokens::{ADMIN_TOKEN_FILE, read_admin_token};
use support::{name, text, wait_for};
use tempfile::TempDir;

const HOST: &str = "nqn.2026-11.example.flashyard:host";

/// Two machines on two links, one of which has a link-local address that is known.
struct Network {
    node: Machine,
    host: Machine,
}

impl Network {
    fn new() -> Network {
        let (node, host) = (Machine::new(), Machine::new());
        let ours = ["192.0.2.1/24", "2001:db8:1::1/64", "fe80::1/64"];
        let theirs = ["192.0.2.9/24", "2001:db8:1::9/64", "fe80::9/64"];
        node.join(&host, "storage", &ours, &theirs);
        let ours = ["198.51.100.1/24", "2001:db8:2::1/64"];
        let theirs = ["198.51.100.9/24", "2001:db8:2::9/64"];
        node.join(&host, "manage", &ours, &theirs);
        Network { node, host }
    }
}

/// A node on one of the machines.
struct Served {
    process: Child,
    directory: TempDir,
    endpoints: Endpoints,
}

impl Served {
    /// With `settings` for its ports and its API, and a volume `data` for every host.
    fn start(machine: &Machine, settings: &str) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        let file = state.join("flashyard.toml");
        let all = format!("state_directory = \"{}\"\n{settings}", state.display());
        std::fs::write(&file, all).unwrap();
        let process = Served::spawn(machine, state);
        let endpoints = wait_for("the node starts", || Endpoints::read(state).ok());
        let served = Served {
            process,
            directory,
            endpoints,
        };
        machine.run(|| {
            let client = served.client(&served.endpoints.api);
            let drive = DriveSpec::Memory {
                size: "64MiB".parse().unwrap(),
            };
            client.add_drive(&name("d"), &drive).unwrap();
            let volume = VolumeSpec {
                drive: Some(name("d")),
                hosts: vec![name("any")],
                ..VolumeSpec::default()
            };
            client.create_volume(&name("data"), &volume).unwrap();
        });
        served
    }

    /// The process of a node whose settings are in its state directory.
    fn spawn(machine: &Machine, state: &Path) -> Child {
        let [said, log] = ["said", "log"].map(|name| File::create(state.join(name)).unwrap());
        let mut serve = machine.command(env!("CARGO_BIN_EXE_flashyard"));
        serve
            .args(["serve", "--config"])
            .arg(state.join("flashyard.toml"));
        serve.stdin(Stdio::null()).stdout(said).stderr(log);
        serve.spawn().unwrap()
    }

    fn client(&self, url: &str) -> Client {
        let certificate = self.endpoints.certificate.as_ref();
        Client::with(&Login {
            url: url.to_owned(),
            token: Some(read_admin_token(self.directory.path()).unwrap()),
            certificate: certificate.map(|digits| digits.parse().unwrap()),
        })
        .unwrap()
    }

    fn status(&self, machine: &Machine, url: &str) -> Status {
        machine.run(|| self.client(url).status().unwrap())
    }

    /// The program on a machine, as somebody who has logged in at `url`.
    fn ask(&self, machine: &Machine, url: &str, arguments: &[&str]) -> Output {
        let run = |arguments: &[&str]| {
            let mut program = machine.command(env!("CARGO_BIN_EXE_flashyard"));
            program.env("XDG_CONFIG_HOME", self.directory.path());
            program.args(arguments).output().unwrap()
        };
        let token_file = self.directory.path().join(ADMIN_TOKEN_FILE);
        let mut login = vec!["login", url, "--token-file", token_file.to_str().unwrap()];
        if let Some(certificate) = &self.endpoints.certificate {
            login.extend(["--fingerprint", certificate]);
        }
        let logged_in = run(&login);
        assert!(logged_in.status.success(), "{logged_in:?}");
        run(arguments)
    }

    fn answer(&self, machine: &Machine, url: &str, arguments: &[&str]) -> String {
        let output = self.ask(machine, url, arguments);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?} at {url}: {said}");
        text(&output.stdout)
    }

    /// Its first words on standard output.
    fn greeting(&self) -> String {
        let said = self.directory.path().join("said");
        wait_for("the greeting", || {
            let said = std::fs::read_to_string(&said).ok()?;
            said.contains("Manage it:").then_some(said)
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The addresses in the discovery log that a host on `machine` reads at `address`.
fn discovered(machine: &Machine, address: &str) -> Vec<String> {
    machine.run(|| {
        let address = reactor::net::parse_address(address).unwrap();
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        let log = reactor.run(async move { discover(address, &ConnectOptions::new(HOST)).await });
        let volume = |record: &DiscoveryRecord| record.subsystem_nqn.contains("data");
        let records = log.unwrap().into_iter().filter(volume);
        records
            .map(|record| format!("{} {}", record.address, record.service))
            .collect()
    })
}

const EVERYWHERE: &str = "
[[nvme.ports]]
listen = \"0.0.0.0:4420\"
[[nvme.ports]]
listen = \"[::]:4420\"
[api]
listen = \"[::]:4400\"
";

const ALL_V4: &[&str] = &["192.0.2.1:4420", "198.51.100.1:4420"];
const ALL_V6: &[&str] = &["[2001:db8:1::1]:4420", "[2001:db8:2::1]:4420"];

#[test]
fn a_node_that_listens_everywhere_tells_addresses_that_it_has() {
    let Network { node, host } = Network::new();
    let served = Served::start(&node, EVERYWHERE);
    for (machine, url, expected) in [
        // Where it was reached, and in the other family all that it has.
        (&host, "https://192.0.2.1:4400", [&ALL_V4[..1], ALL_V6]),
        (&host, "https://198.51.100.1:4400", [&ALL_V4[1..], ALL_V6]),
        (
            &host,
            "https://[2001:db8:1::1]:4400",
            [ALL_V4, &ALL_V6[..1]],
        ),
        (
            &host,
            "https://[::ffff:192.0.2.1]:4400",
            [&ALL_V4[..1], ALL_V6],
        ),
        // Nobody asks a node over loopback for that: it is all that it has.
        (&node, "https://127.0.0.1:4400", [ALL_V4, ALL_V6]),
        (&node, "https://[::1]:4400", [ALL_V4, ALL_V6]),
        (&node, "https://192.0.2.1:4400", [&ALL_V4[..1], ALL_V6]),
    ] {
        let status = served.status(machine, url);
        assert_eq!(status.nvme_addresses, expected.concat(), "{url}");
    }
    for (address, expected) in [
        ("192.0.2.1:4420", "192.0.2.1 4420"),
        ("198.51.100.1:4420", "198.51.100.1 4420"),
        ("[2001:db8:1::1]:4420", "2001:db8:1::1 4420"),
        ("[2001:db8:2::1]:4420", "2001:db8:2::1 4420"),
        ("[fe80::1%storage]:4420", "fe80::1 4420"),
    ] {
        assert_eq!(discovered(&host, address), [expected], "{address}");
    }
    let greeting = served.greeting();
    for line in [
        "REST API   https://192.0.2.1:4400\n",
        "REST API   https://[2001:db8:2::1]:4400\n",
        "NVMe/TCP   192.0.2.1:4420\n",
        "NVMe/TCP   [2001:db8:2::1]:4420\n",
        "  nvme discover    -t tcp -a 192.0.2.1 -s 4420\n",
        "Manage it: flashyard login https://[::1]:4400 ",
    ] {
        assert!(greeting.contains(line), "{line:?} is not in {greeting}");
    }
    assert!(
        !greeting.contains("0.0.0.0") && !greeting.contains("[::]"),
        "{greeting}"
    );
    let shown = served.answer(
        &host,
        "https://198.51.100.1:4400",
        &["volume", "show", "data"],
    );
    let nqn = node.run(|| {
        let client = served.client(&served.endpoints.api);
        client.volume(&name("data")).unwrap().nqn
    });
    for address in ["198.51.100.1", "2001:db8:1::1", "2001:db8:2::1"] {
        let line = format!("nvme connect -t tcp -a {address} -s 4420 -n {nqn}");
        assert!(shown.contains(&line), "{line:?} is not in {shown}");
    }
}

const FEW: &str = "
[[nvme.ports]]
listen = \"127.0.0.1:4420\"
[[nvme.ports]]
listen = \"192.0.2.1:4421\"
[[nvme.ports]]
listen = \"[fe80::1%storage]:4422\"
[api]
listen = \"0.0.0.0:4400\"
";

/// Addresses of one machine and of one link are for those who are there.
#[test]
fn what_is_out_of_reach_is_not_told() {
    let Network { node, host } = Network::new();
    let served = Served::start(&node, FEW);
    let elsewhere = served.status(&host, "https://192.0.2.1:4400");
    assert_eq!(elsewhere.nvme_addresses, ["192.0.2.1:4421"]);
    let here = ["127.0.0.1:4420", "192.0.2.1:4421", "[fe80::1%storage]:4422"];
    for url in ["https://127.0.0.1:4400", "https://192.0.2.1:4400"] {
        assert_eq!(served.status(&node, url).nvme_addresses, here);
    }
    let shown = served.answer(&node, "https://127.0.0.1:4400", &["volume", "show", "data"]);
    assert!(shown.contains("-a fe80::1%storage -s 4422 "), "{shown}");
    let everything = ["127.0.0.1 4420", "192.0.2.1 4421", "fe80::1 4422"];
    assert_eq!(discovered(&node, "127.0.0.1:4420"), everything);
    assert_eq!(discovered(&host, "192.0.2.1:4421"), everything[1..2]);
    assert_eq!(discovered(&host, "[fe80::1%storage]:4422"), everything[1..]);
}

const ADVERTISED: &str = "
[[nvme.ports]]
listen = \"0.0.0.0:4420\"
advertise = \"203.0.113.7:5000\"
[[nvme.ports]]
listen = \"[::]:4421\"
advertise = \"[2001:db8:9::7]:5001\"
[api]
listen = \"0.0.0.0:4400\"
";

#[test]
fn what_is_advertised_is_told_to_everybody() {
    let Network { node, host } = Network::new();
    let served = Served::start(&node, ADVERTISED);
    let advertised = ["203.0.113.7:5000", "[2001:db8:9::7]:5001"];
    for (machine, url) in [
        (&host, "https://192.0.2.1:4400"),
        (&node, "https://127.0.0.1:4400"),
    ] {
        assert_eq!(served.status(machine, url).nvme_addresses, advertised);
    }
    for address in ["192.0.2.1:4420", "[2001:db8:2::1]:4421"] {
        let expected = ["203.0.113.7 5000", "2001:db8:9::7 5001"];
        assert_eq!(discovered(&host, address), expected);
    }
    let greeting = served.greeting();
    assert!(greeting.contains("-a 203.0.113.7 -s 5000\n"), "{greeting}");
    let url = "https://192.0.2.1:4400";
    served.answer(&host, url, &["host", "add", "h", "--nqn", HOST]);
    for command in commands_that_show() {
        let arguments: Vec<&str> = command.split(' ').collect();
        let shown = served.answer(&host, url, &arguments);
        let tells = TELLING.contains(&command.as_str());
        for address in ["203.0.113.7", "2001:db8:9::7"] {
            assert_eq!(shown.contains(address), tells, "{command}: {shown}");
        }
        // Where it listens, which is what its own ports are, is nobody's to connect to.
        let listens = ["0.0.0.0", "[::]"].iter().any(|all| shown.contains(all));
        assert_eq!(listens, command == "port list", "{command}: {shown}");
    }
    // Somebody has logged in there by now.
    told::it_publishes(&served, &host, url, &advertised);
}

/// Commands that tell where hosts connect.
const TELLING: [&str; 5] = [
    "status",
    "volume show data",
    "host show h",
    "host show h --commands",
    "port list",
];

/// Every command that only shows what the node with a volume `data` says, of all that there are.
fn commands_that_show() -> Vec<String> {
    let words = ["list", "show", "schedules", "status", "top"];
    let shows = |command: &&str| command.split(' ').any(|word| words.contains(&word));
    let objects = [("d{n}", "d"), ("v{n}", "data"), ("h{n}", "h")];
    let all = COMMANDS.iter().map(|(command, _)| *command).filter(shows);
    let named = all.map(|command| {
        objects
            .iter()
            .fold(command.to_owned(), |command, (of, to)| {
                command.replace(&format!(" {of}"), &format!(" {to}"))
            })
    });
    // What the node here has none of, and what asks no node.
    let named: Vec<String> = named
        .filter(|command| !command.contains('{') && command != "job show 1")
        .filter(|command| command != "lab list")
        .collect();
    for telling in TELLING {
        assert!(named.iter().any(|command| command == telling), "{telling}");
    }
    named
}

const AT_ANOTHER: &str = "
[[nvme.ports]]
listen = \"0.0.0.0:4420\"
advertise = \"198.51.100.1:4420\"
[api]
listen = \"0.0.0.0:4400\"
";

/// A volume by its name is attached at what is advertised, and not where the API was reached.
#[test]
fn what_is_advertised_is_dialled() {
    let Network { node, host } = Network::new();
    let served = Served::start(&node, AT_ANOTHER);
    let url = "https://192.0.2.1:4400";
    let directory = tempfile::tempdir().unwrap();
    let at = ["--directory", directory.path().to_str().unwrap()];
    let attach = ["attach", "data", "--method", "fuse", "--host-nqn", HOST];
    served.answer(&host, url, &[&attach[..], &at].concat());
    let sessions = host.run(|| served.client(url).sessions().unwrap().items);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let from = &sessions[0].remote;
    assert!(from.starts_with("198.51.100.9:"), "{sessions:?}");
    served.answer(&host, url, &[&["detach", "data"], &at[..]].concat());
}

/// A machine without a network is reached from itself.
#[test]
fn without_a_network_loopback_is_told() {
    let alone = Machine::new();
    let served = Served::start(&alone, EVERYWHERE);
    let status = served.status(&alone, "https://127.0.0.1:4400");
    assert_eq!(status.nvme_addresses, ["127.0.0.1:4420", "[::1]:4420"]);
    let greeting = served.greeting();
    assert!(
        greeting.contains("REST API   https://[::1]:4400\n"),
        "{greeting}"
    );
    assert!(
        greeting.contains("-t tcp -a 127.0.0.1 -s 4420\n"),
        "{greeting}"
    );
}

/// The network through which a node is managed may come up later than the one of its hosts.
#[test]
fn hosts_do_not_wait_for_the_address_of_the_api() {
    let Network { node, host } = Network::new();
    let settings = "
[[nvme.ports]]
listen = \"192.0.2.1:4420\"
[api]
listen = \"198.51.100.1:4400\"
";
    let mut served = Served::start(&node, settings);
    served.process.kill().unwrap();
    served.process.wait().unwrap();
    let change = |how: &str| node.ip(&["address", how, "198.51.100.1/24", "dev", "manage"]);
    change("delete");
    served.process = Served::spawn(&node, served.directory.path());
    let log = served.directory.path().join("log");
    wait_for("the log says it", || {
        let said = std::fs::read_to_string(&log).ok()?;
        said.contains("the REST API cannot listen at").then_some(())
    });
    assert_eq!(discovered(&host, "192.0.2.1:4420"), ["192.0.2.1 4420"]);
    let greeting = served.greeting();
    assert!(greeting.contains("not yet: "), "{greeting}");
    change("add");
    let endpoints = wait_for("the API", || Endpoints::read(served.directory.path()).ok());
    assert_eq!(endpoints.api, "https://198.51.100.1:4400");
    let status = served.status(&host, &endpoints.api);
    assert_eq!(status.problems, Vec::<String>::new());
}

/// By a volume's name, by addresses of both families and of a link, and by the name of a host.
#[test]
fn volumes_are_attached_and_loaded_from_elsewhere() {
    let Network { node, host } = Network::new();
    let served = Served::start(&node, EVERYWHERE);
    let url = "https://192.0.2.1:4400";
    let nqn = host.run(|| served.client(url).volume(&name("data")).unwrap().nqn);
    for target in ["[fe80::1%storage]", "[2001:db8:2::1]", "[::ffff:192.0.2.1]"] {
        let target = format!("tcp://{target}:4420/{nqn}");
        served.answer(&host, url, &["perf", &target, "--number-ios", "10"]);
    }
    // The name has an address of each family, and the port only one of them.
    let alone = Machine::new();
    let local = Served::start(&alone, "[[nvme.ports]]\nlisten = \"127.0.0.1:4420\"\n");
    let nqn = alone.run(|| {
        let client = local.client("https://127.0.0.1:4400");
        client.volume(&name("data")).unwrap().nqn
    });
    let target = format!("tcp://localhost:4420/{nqn}");
    let url_there = "https://127.0.0.1:4400";
    local.answer(&alone, url_there, &["perf", &target, "--number-ios", "10"]);
    let directory = tempfile::tempdir().unwrap();
    let at = ["--directory", directory.path().to_str().unwrap()];
    for (machine, served, url, volume) in [
        (&host, &served, url, "data"),
        (&alone, &local, url_there, target.as_str()),
    ] {
        let attach = ["attach", volume, "--method", "fuse", "--host-nqn", HOST];
        let device = served.answer(machine, url, &[&attach[..], &at].concat());
        let read = format!("if={}", device.trim());
        let read = Command::new("dd")
            .args([&read, "of=/dev/null", "count=8"])
            .output();
        assert!(read.unwrap().status.success());
        served.answer(machine, url, &[&["detach", volume], &at[..]].concat());
    }
    let nowhere = format!("tcp://nowhere.invalid:4420/{nqn}");
    for verb in ["perf", "attach"] {
        let refused = served.ask(&host, url, &[verb, &nowhere]);
        let said = text(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains("nowhere.invalid:4420: "),
            "{said}"
        );
    }
}
