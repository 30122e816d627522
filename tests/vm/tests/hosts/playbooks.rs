//! The roles of the Ansible collection on a server with systemd and the kernel's own host: a check
//! run predicts the run, a second run changes nothing, and all of it is there after a start of the
//! machine. The server's files are this machine's; what it changes is on a disk of its own.

#[path = "../../../../crates/flashyard/tests/ansible/foreseen.rs"]
mod foreseen;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use foreseen::{changed, predicts};
use lab::ports::free_port;
use serde_json::{Value, json};
use vm::{Guest, Image, Node, Suite};

use crate::{profile_directory, succeeds, tool};

const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

/// Seconds within which systemd starts the server, or ends it, on a busy machine.
const START: u64 = 400;

/// Has systemd end the server.
const OFF: &str = "systemctl poweroff --no-block";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ansible")
}

fn checkout() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    checkout.canonicalize().expect("the checkout is there")
}

/// A server, off or on, and where playbooks are run against it.
struct Server {
    image: &'static Image,
    directory: PathBuf,
    port: u16,
    printed: String,
}

impl Server {
    fn new(name: &str, image: &'static Image, node: &Node) -> Server {
        let place = profile_directory().with_file_name("vm");
        let directory = place.join(format!("playbooks-{name}"));
        let _ = std::fs::remove_dir_all(&directory);
        let collections = directory.join("collections/ansible_collections/flashyard");
        std::fs::create_dir_all(&collections).expect("a place for playbooks");
        std::os::unix::fs::symlink(checkout().join("ansible"), collections.join("storage"))
            .expect("a place for the collection");
        let disk = directory.join("disk");
        let size = ["-q", "-t", "ext4"];
        succeeds(
            Command::new("/usr/sbin/mke2fs")
                .args(size)
                .arg(&disk)
                .arg("1G"),
        );
        let port = free_port(&[IpAddr::V4(Ipv4Addr::LOCALHOST)]).expect("a port is free");
        let server = Server {
            image,
            directory,
            port,
            printed: String::new(),
        };
        server.write_inventory(node);
        server
    }

    fn write_inventory(&self, node: &Node) {
        let program = profile_directory().join("flashyard");
        let packages = self.directory.join("packages");
        let mut package = Command::new(checkout().join("deploy/package"));
        let package = package.arg(program).arg(&packages).output();
        let package = package.expect("the package is made").stdout;
        let package = String::from_utf8_lossy(&package).trim().to_owned();
        let attachment = json!({
            "name": "data", "nqn": "{{ volume.nqn }}", "nsid": "{{ volume.nsid | int }}",
            "uuid": "{{ volume.uuid }}", "addresses": node.addresses(), "path": "/srv/data",
            "file_system": "xfs",
        });
        let drives: Vec<Value> = (0..4)
            .map(|number| {
                let path = format!("/var/lib/flashyard/drive-{number}");
                json!({"name": format!("d{number}"), "path": path, "size": "32MiB"})
            })
            .collect();
        let pool = json!({"name": "fast", "level": "raid6", "drives": ["d0", "d1", "d2", "d3"]});
        let host = json!({
            "flashyard_dhchap_secret": SECRET,
            "flashyard_attachments": "{{ [attachment] if volume is defined else [] }}",
            "attachment": attachment,
        });
        let node = json!({
            "flashyard_node_name": "node-1", "flashyard_host_networks": ["192.0.2.0/24"],
            "flashyard_admin_networks": ["198.51.100.0/24"], "flashyard_drives": drives,
            "flashyard_pools": [pool],
            "flashyard_settings": {"scrub_interval_days": 14},
        });
        let inventory = json!({"all": {
            "vars": {
                "ansible_connection": "guest", "guest_port": self.port,
                "ansible_python_interpreter": "/usr/bin/python3", "flashyard_package": package,
            },
            "children": {
                "flashyard_hosts": {"hosts": {"db-1": host}},
                "flashyard_nodes": {"hosts": {"node-1": node}},
            },
        }});
        let file = self.directory.join("inventory.yml");
        std::fs::write(file, inventory.to_string()).expect("the inventory is written");
    }

    /// Switches the server off, and starts it again.
    fn restarted(&self, guest: Guest) -> Guest {
        guest.switch_off(START, OFF);
        self.start("systemd starts the server again")
    }

    /// Starts the server; its disk has what it has changed before.
    fn start(&self, step: &str) -> Guest {
        let disk = self.directory.join("disk");
        let forward = format!("hostfwd=tcp:127.0.0.1:{}-10.0.3.15:7000", self.port);
        let devices = [
            "-fsdev".to_owned(),
            "local,id=machine,path=/,security_model=none,readonly=on,multidevs=remap".to_owned(),
            "-device".to_owned(),
            "virtio-9p-pci,fsdev=machine,mount_tag=machine".to_owned(),
            "-drive".to_owned(),
            format!(
                "file={},if=none,id=disk,format=raw,cache=unsafe",
                disk.display()
            ),
            "-device".to_owned(),
            "virtio-blk-pci,drive=disk".to_owned(),
            "-netdev".to_owned(),
            format!("user,id=control,net=10.0.3.0/24,restrict=on,{forward}"),
            "-device".to_owned(),
            "virtio-net-pci,netdev=control,romfile=".to_owned(),
        ];
        let label = "trixie server";
        let mut guest =
            Guest::boot(self.image, &devices, &self.directory, label).expect("the guest boots");
        let place = self.directory.with_file_name(Suite::Trixie.name());
        let modules = place.join("kernel/usr/lib/modules");
        let modules = modules.canonicalize().expect("the kernel has modules");
        let serve = include_str!("../../ansible/serve.sh");
        let server = include_str!("../../ansible/server.sh");
        guest.hand_over(
            step,
            START,
            &format!(
                "cat >/run/serve <<'SERVE'\n{serve}SERVE\nMODULES={}\n{server}",
                modules.display()
            ),
        );
        guest
    }

    /// Hosts and tasks that change something in a play, which succeeds, with their differences.
    fn play(&mut self, playbook: &str, options: &[&str]) -> Vec<Value> {
        println!("    playbook {playbook} {options:?}");
        let results = self.directory.join("results");
        let _ = std::fs::remove_file(&results);
        let settings = checkout().join("crates/flashyard/tests/ansible/ansible.cfg");
        let output = tool("ansible", "ansible-playbook")
            .args(["--inventory", "inventory.yml", "--diff", "-vvv"])
            .args(options)
            .arg(sources().join(playbook))
            .env("HOME", &self.directory)
            .env("LC_ALL", "C.UTF-8")
            .env("ANSIBLE_CONFIG", settings)
            .env("ANSIBLE_HOME", self.directory.join("home"))
            .env(
                "ANSIBLE_COLLECTIONS_PATH",
                self.directory.join("collections"),
            )
            .env("ANSIBLE_CONNECTION_PLUGINS", sources().join("connection"))
            .env("RESULTS", &results)
            .env("RESULTS_OF", "all")
            .current_dir(&self.directory)
            .output()
            .expect("Ansible runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{playbook} {options:?}: {said}");
        self.printed += &said;
        let lines = std::fs::read_to_string(results).expect("tasks have results");
        let lines = lines.lines();
        let results = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        results.filter(|it| it["changed"] == json!(true)).collect()
    }

    /// A check run predicts the run. Gives the tasks that changed something.
    fn predicts_and_runs(
        &mut self,
        playbook: &str,
        options: &[&str],
    ) -> BTreeSet<(String, String)> {
        let predicted = self.play(playbook, &[options, &["--check"]].concat());
        let done = self.play(playbook, options);
        let names = changed(&done);
        predicts(&changed(&predicted), &names);
        let ours = |results: &[Value]| -> Vec<Value> {
            let modules = ["attach", "file_system"].map(Value::from);
            let results = results.iter().filter(|it| modules.contains(&it["action"]));
            results.map(|it| it["diff"].clone()).collect()
        };
        assert_eq!(ours(&predicted), ours(&done), "{playbook}");
        names
    }

    /// A run changes nothing.
    fn rests(&mut self, playbook: &str, options: &[&str]) {
        let again = self.play(playbook, options);
        assert!(again.is_empty(), "{playbook}, again: {again:?}");
    }
}

/// The volume that the host gets, as variables of the play.
fn volume(guest: &mut Guest, node: &Node, directory: &Path) -> String {
    let nqn = guest.check("the name that the role gave", "cat /etc/nvme/hostnqn");
    let secret = directory.join("secret");
    std::fs::write(&secret, SECRET).expect("the secret is written");
    let add = format!("host add db-1 --nqn {}", nqn.trim());
    node.command(&add).expect("the node takes the host");
    let key = format!("host key db-1 --set {}", secret.display());
    node.command(&key).expect("the node takes the key");
    node.add_pool("fast", "raid6", (4, "256MiB"), &[])
        .expect("the node makes a pool");
    node.command("volume create data --pool fast --size 1GiB --allow db-1")
        .expect("the node makes a volume");
    let shown = node.command("volume show data --output json");
    let shown: Value = serde_json::from_str(&shown.expect("it is there")).expect("JSON");
    json!({"volume": shown}).to_string()
}

/// The kernel has the volume by both paths, its host has proved itself, and the mount is there.
fn is_mounted(guest: &mut Guest) {
    guest.eventually("the volume is mounted", START, "findmnt /srv/data");
    // Emulated processors may keep the host silent for too long, and it connects anew.
    guest.eventually(
        "by the kernel, with its secret, on both paths",
        START,
        "
        set -e
        findmnt --noheadings --output SOURCE,FSTYPE /srv/data | grep -q '^/dev/nvme.*xfs$'
        [ $(cat /sys/class/nvme/nvme*/state | grep -c live) = 2 ]
        cat /sys/module/nvme_core/parameters/multipath | grep -qx Y
        dmesg | grep -q 'authenticated with hash'
        [ $(stat -c %a /etc/nvme/flashyard.dhchap) = 600 ]
        flashyard attached | grep -w connected
        ! flashyard attached | grep -w degraded",
    );
}

/// Nothing of the volume is left, and no start of the machine attaches it or waits for it.
fn is_gone(guest: &mut Guest) {
    guest.eventually(
        "nothing of the volume is left",
        START,
        "
        set -e
        [ -z \"$(findmnt /srv/data)\" ]
        [ -z \"$(grep /srv/data /etc/fstab)\" ]
        [ ! -e /dev/nvme0n1 ]
        [ -z \"$(flashyard attached --output json | grep data)\" ]
        [ -z \"$(find /etc/systemd -name '*flashyard-attach*')\" ]
        systemctl list-units --all --plain --no-legend '*attach-data*' 'srv-data*' >/tmp/units
        cat /tmp/units
        [ ! -s /tmp/units ]",
    );
}

/// A host gets its module, name, secret, volume and mount, which are there after a start.
pub fn host(image: &'static Image, node: Node) {
    let mut server = Server::new("host", image, &node);
    let mut guest = server.start("systemd starts a bare server");
    guest.check(
        "nothing is there",
        "[ ! -e /etc/nvme ] && [ ! -e /sys/module/nvme_tcp ]",
    );
    server.predicts_and_runs("host.yml", &[]);
    guest.check("the module is loaded", "[ -e /sys/module/nvme_tcp ]");
    let volume = volume(&mut guest, &node, &server.directory);
    let options = ["--extra-vars", &volume];
    let done = server.predicts_and_runs("host.yml", &options);
    assert_eq!(done.len(), 2, "{done:?}");
    is_mounted(&mut guest);
    server.rests("host.yml", &options);
    guest.check(
        "data is written",
        "head -c 8388608 /dev/urandom >/srv/data/written; cp /srv/data/written /root/written; sync",
    );
    let mut guest = server.restarted(guest);
    is_mounted(&mut guest);
    guest.check("data is there", "cmp /srv/data/written /root/written");
    server.rests("host.yml", &options);
    let done = server.predicts_and_runs("detach.yml", &[]);
    assert_eq!(done.len(), 2, "{done:?}");
    server.rests("detach.yml", &[]);
    is_gone(&mut guest);
    let mut guest = server.restarted(guest);
    guest.eventually(
        "systemd has started all",
        START,
        "systemctl is-active multi-user.target remote-fs.target",
    );
    is_gone(&mut guest);
    server.rests("detach.yml", &[]);
    assert!(!server.printed.contains(SECRET), "{SECRET} was printed");
}

/// A node gets its service, firewall, drives and pool, which are there after a start.
pub fn node(image: &'static Image, node: Node) {
    let mut server = Server::new("node", image, &node);
    let mut guest = server.start("systemd starts a bare server");
    server.predicts_and_runs("node.yml", &[]);
    is_served(&mut guest);
    server.rests("node.yml", &[]);
    guest.check("all is on the disk", "sync");
    let mut guest = server.restarted(guest);
    is_served(&mut guest);
    server.rests("node.yml", &[]);
}

/// The node's service runs as its own user, behind its firewall, with its pool.
fn is_served(guest: &mut Guest) {
    guest.eventually("the service runs", START, "systemctl is-active flashyard");
    guest.eventually(
        "it has no problem",
        START,
        "
        set -e
        state=/var/lib/flashyard
        print=$(sed -n 's/.*\"certificate\": \"\\(.*\\)\".*/\\1/p' $state/endpoints.json)
        flashyard login https://127.0.0.1:4400 --token-file $state/admin.token --fingerprint $print
        flashyard --output json pool list | grep -q '\"fast\"'",
    );
    guest.check(
        "it is not root, and the firewall is loaded",
        "
        [ $(stat -c %U /proc/$(systemctl show --value --property MainPID flashyard)) = flashyard ]
        nft list table inet flashyard | grep -q 192.0.2.0/24
        systemctl is-enabled flashyard",
    );
}
