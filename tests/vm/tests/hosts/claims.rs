//! Claims of Kubernetes on a host with the kernel's own NVMe/TCP: the CSI driver's part for hosts
//! runs in the guest, the one for the controller outside.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use csi::proto::volume_capability::access_mode::Mode;
use csi_calls::{Caller, Claim, capability, map};
use lab::ports::free_port;
use vm::{Guest, Node};

use crate::profile_directory;

const HOST: &str = "guest";

/// Where claims are staged and mounted in the guest.
const PLACE: &str = "/run/claims";

/// The guest's second network takes calls from outside; and what is written.
const NETWORK: &str = "
    ip link set eth1 up
    ip address add 10.0.3.15/24 dev eth1
    mkdir -p /run/claims
    head -c 8388608 /dev/urandom >/tmp/data";

/// The processes of the driver stay until they are killed.
const DRIVER: &str = "exec flashyard csi --mode node --endpoint unix:///run/csi.sock \
    --host-nqn nqn.2026-11.example:guest";

/// Far longer than the controller takes to serve.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// Claims of one subsystem.
const CLAIMS: usize = 12;

/// The port outside at which the driver in the guest is reached: of each test, which has a thread.
fn port() -> u16 {
    thread_local! {
        static PORT: u16 = free_port(&[Ipv4Addr::LOCALHOST.into()]).expect("a port is free");
    }
    PORT.with(|port| *port)
}

pub fn devices(_: &Path) -> Vec<String> {
    let network = format!(
        "user,id=calls,net=10.0.3.0/24,hostfwd=tcp:127.0.0.1:{}-10.0.3.15:4500",
        port()
    );
    let card = "virtio-net-pci,netdev=calls,romfile=";
    ["-netdev", &network, "-device", card]
        .map(str::to_owned)
        .to_vec()
}

/// The part for the controller, which ends when this is dropped.
struct Controller {
    process: Child,
    directory: tempfile::TempDir,
}

impl Controller {
    fn start(node: &Node) -> Controller {
        let directory = tempfile::tempdir().expect("a place for the controller");
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "0f1e2d3c4b5a69788796a5b4c3d2e1f0").expect("a secret is written");
        let mut command = Command::new(profile_directory().join("flashyard"));
        command
            .args(["csi", "--mode", "controller", "--host-secret-file"])
            .arg(secret)
            .args(["--endpoint", &endpoint(directory.path())])
            .stdin(Stdio::null());
        let told = node.tell(&mut command).expect("the node runs");
        let process = told.spawn().expect("the controller starts");
        let started = Instant::now();
        while UnixStream::connect(socket(directory.path())).is_err() {
            assert!(started.elapsed() < STARTS_WITHIN, "the controller serves");
            std::thread::sleep(Duration::from_millis(20));
        }
        Controller { process, directory }
    }

    fn caller(&self) -> Caller {
        let host = format!("http://127.0.0.1:{}", port());
        Caller::new(&endpoint(self.directory.path()), &host)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It fails only if it has ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("controller.sock")
}

fn endpoint(directory: &Path) -> String {
    format!("unix://{}", socket(directory).display())
}

/// Starts both parts of the driver, over a pool.
fn start(guest: &mut Guest, node: &Node) -> Controller {
    node.add_pool("fast", "raid6", (4, "1GiB"), &[])
        .expect("the node makes a pool");
    guest.check("a network for calls", NETWORK);
    start_driver(guest);
    guest.spawn("forward", "exec forward 4500 /run/csi.sock");
    guest.eventually("calls are taken", 30, "nc -w 1 10.0.3.15 4500 </dev/null");
    Controller::start(node)
}

/// A claim that demands TLS and one that does not: the machine connects under it for both.
pub fn under_tls(guest: &mut Guest, node: &Node) {
    let controller = start(guest, node);
    let caller = &controller.caller();
    let mut claims = Vec::new();
    for (name, tls) in [("encrypted", "required"), ("usual", "none")] {
        let used = capability(Mode::SingleNodeWriter, Some("ext4"));
        let mut claim = Claim::new(name, 32, used, Path::new(PLACE));
        claim.create.parameters = map(&[("hostAuth", "dhchap"), ("tls", tls)]);
        claim.bring(caller, HOST).expect("the claim is mounted");
        let file = claim.target.join("data");
        guest.check(
            "a claim under TLS",
            &format!("cp /tmp/data {0}; sync; cmp {0} /tmp/data", file.display()),
        );
        claims.push(claim);
    }
    guest.check(
        "each path is under TLS",
        "for path in /sys/class/nvme/nvme*; do
            grep -q tcp $path/transport || continue
            grep -q . $path/tls_key
        done",
    );
    for claim in claims {
        claim.take(caller, HOST).expect("the claim ends");
    }
}

pub fn scenario(guest: &mut Guest, mut node: Node) {
    let controller = start(guest, &node);
    let caller = &controller.caller();
    let ext4 = file_system(guest, caller, "ext4", [64, 160]);
    let xfs = file_system(guest, caller, "xfs", [320, 480]);
    guest.check(
        "each path has proven who the host is",
        "for path in /sys/class/nvme/*; do grep -q ^DHHC $path/dhchap_secret; done",
    );
    shared(guest, caller);

    guest.check("the driver is killed", "kill -9 $(cat /run/driver.pid)");
    start_driver(guest);
    node.kill().expect("the node runs");
    node.restart().expect("the node serves again");
    guest.eventually(
        "each path is back",
        150,
        "grep -qx live /sys/class/nvme/*/state && ! grep -qvx live /sys/class/nvme/*/state",
    );
    // The node's API is at another port now.
    let controller = Controller::start(&node);
    let caller = &controller.caller();
    for claims in [ext4, xfs] {
        for (claim, file) in claims {
            let path = claim.target.join(file);
            guest.check(
                "all is there",
                &format!(
                    "echo 3 >/proc/sys/vm/drop_caches; cmp {} /tmp/data",
                    path.display()
                ),
            );
            claim.take(caller, HOST).expect("the claim ends");
        }
    }
    nothing_is_left(guest);
}

fn start_driver(guest: &mut Guest) {
    let script = format!("rm -f /run/csi.sock; exec sh -c 'echo $$ >/run/driver.pid; {DRIVER}'");
    guest.spawn("driver", &script);
    guest.eventually("the driver serves", 60, "test -S /run/csi.sock");
}

/// Grows under a writer; a restored snapshot is mounted beside. Both stay, each with a file that
/// has `/tmp/data`.
fn file_system(
    guest: &mut Guest,
    caller: &Caller,
    kind: &str,
    [small, large]: [i64; 2],
) -> [(Claim, &'static str); 2] {
    let used = capability(Mode::SingleNodeWriter, Some(kind));
    let claim = |name: &str, mib| {
        Claim::new(
            &format!("{name}-{kind}"),
            mib,
            used.clone(),
            Path::new(PLACE),
        )
    };
    let mut data = claim("data", small);
    data.bring(caller, HOST).expect("the claim is mounted");
    let target = data.target.display();
    guest.check(
        &format!("{kind}: write"),
        &format!("cp /tmp/data {target}/before; sync"),
    );
    let snapshot = data.snapshot(caller, &format!("before-{kind}"));
    let snapshot = snapshot.expect("a snapshot is taken");

    guest.spawn(
        "writer",
        &format!(
            "while [ ! -e /tmp/grown-{kind} ]; do cp /tmp/data {target}/during; sync; done
            cmp {target}/during /tmp/data"
        ),
    );
    let total = |claim: &Claim| claim.file_system_bytes(caller).expect("the driver says");
    let before = total(&data);
    data.expand(caller, large).expect("the volume grows");
    data.node_expand(caller, large)
        .expect("its file system grows while it is written");
    assert!(total(&data) > before, "{kind}");
    guest.check(
        &format!("{kind}: grown"),
        &format!("touch /tmp/grown-{kind}"),
    );
    guest.join(&format!("{kind}: write meanwhile"), "writer", 60);

    let mut restored = claim("restored", large);
    restored.restore_from(&snapshot.snapshot_id);
    restored
        .bring(caller, HOST)
        .expect("a restored claim is mounted");
    assert!(total(&restored) > before, "{kind}: restored larger");
    let absent = restored.target.join("during");
    guest.check(
        &format!("{kind}: as of the snapshot"),
        &format!("test ! -e {}", absent.display()),
    );
    [(data, "during"), (restored, "before")]
}

/// Raw blocks of one subsystem: all of them over one controller a path.
fn shared(guest: &mut Guest, caller: &Caller) {
    let count = "ls /sys/class/nvme | wc -l";
    let before: usize = guest
        .check("paths", count)
        .trim()
        .parse()
        .expect("a number");
    let used = capability(Mode::SingleNodeWriter, None);
    let mut claims = Vec::with_capacity(CLAIMS);
    for number in 0..CLAIMS {
        let mut claim = Claim::new(&format!("raw-{number}"), 16, used.clone(), Path::new(PLACE));
        claim.create.parameters = map(&[("sharing", "shared")]);
        claim.bring(caller, HOST).expect("a device");
        let target = claim.target.display();
        guest.check(
            "a device of its own",
            &format!(
                "echo {number} | dd of={target} bs=4096 conv=sync,fsync 2>/dev/null
                test $(blockdev --getsize64 {target}) = 16777216"
            ),
        );
        claims.push(claim);
    }
    let paths = guest.check("paths beside those of all", count);
    assert_eq!(paths.trim(), (before + 2).to_string());
    for (number, claim) in claims.iter().enumerate() {
        let target = claim.target.display();
        guest.check(
            "what was written",
            &format!("test $(dd if={target} bs=4096 count=1 2>/dev/null | head -n 1) = {number}"),
        );
        claim.take(caller, HOST).expect("the device goes");
    }
    guest.eventually(
        "its paths are gone",
        30,
        &format!("test $({count}) = {before}"),
    );
}

fn nothing_is_left(guest: &mut Guest) {
    guest.eventually("no path is left", 30, "test -z \"$(ls /sys/class/nvme)\"");
    guest.check(
        "no mount and no attachment is left",
        &format!(
            "! grep {PLACE} /proc/mounts
            [ -z \"$(flashyard attached --output json | tr -d '[] ')\" ]"
        ),
    );
}
