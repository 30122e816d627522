//! The playbooks of the collection, over two bare servers: a check run predicts the run, a second
//! run changes nothing. Servers have no systemd.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::foreseen::{changed, predicts};
use super::servers::Server;
use super::{SECRET, ansible, documented, installed, own, root, said};
use crate::support::{tool, wait_until};

/// A node, a host, and what is known of them.
pub struct Site {
    pub host: Server,
    pub node: Server,
    pub directory: tempfile::TempDir,
    printed: String,
}

impl Site {
    pub fn new() -> Site {
        let (node, host) = (Server::new("node-1"), Server::new("db-1"));
        let (ours, theirs) = (["192.0.2.10/24"], ["192.0.2.9/24"]);
        node.network.join(&host.network, "storage", &ours, &theirs);
        let directory = tempfile::tempdir().unwrap();
        for (name, block) in documented() {
            std::fs::write(directory.path().join(name), block).unwrap();
        }
        Site {
            host,
            node,
            directory,
            printed: String::new(),
        }
    }

    /// Where the documented inventory is not that of this test: how the servers are reached, and
    /// their drives, which are files.
    fn servers(&self, package: &Path) {
        let node = json!({"machine_pid": self.node.pid, "flashyard_drives": drives()});
        let nodes = serde_json::Map::from_iter([("node-1".to_owned(), node)]);
        self.inventory(package, nodes, json!({}));
    }

    /// The same with variables of each node, and more of the host.
    pub fn inventory(
        &self,
        package: &Path,
        nodes: serde_json::Map<String, Value>,
        mut host: Value,
    ) {
        host["machine_pid"] = json!(self.host.pid);
        host["db_1_secret"] = json!(SECRET);
        let inventory = json!({"all": {
            "vars": {
                "ansible_connection": "machine",
                "ansible_python_interpreter": "/usr/bin/python3",
                "flashyard_package": package,
            },
            "children": {
                "flashyard_nodes": {"hosts": nodes},
                "flashyard_hosts": {"hosts": {"db-1": host}},
            },
        }});
        let file = self.directory.path().join("test.yml");
        std::fs::write(file, inventory.to_string()).unwrap();
    }

    pub fn play(&mut self, playbook: &str, options: &[&str]) -> (Output, Vec<Value>) {
        let results = self.directory.path().join("results");
        let _ = std::fs::remove_file(&results);
        let output = ansible("ansible-playbook", self.directory.path())
            .args(["--inventory", "servers.yml", "--inventory", "test.yml"])
            .args(["--diff", playbook])
            .args(options)
            .env("ANSIBLE_COLLECTIONS_PATH", installed())
            .env("ANSIBLE_CONNECTION_PLUGINS", own().join("connection"))
            .env("RESULTS_OF", "all")
            .output()
            .unwrap();
        self.printed += &said(&output);
        let lines = std::fs::read_to_string(results).unwrap_or_default();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        (output, lines.collect())
    }

    /// Hosts and tasks that changed something, in a play that succeeds.
    pub fn changes(&mut self, playbook: &str, options: &[&str]) -> BTreeSet<(String, String)> {
        let (output, results) = self.play(playbook, options);
        let said = said(&output);
        assert!(output.status.success(), "{playbook} {options:?}: {said}");
        changed(&results)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What is attached has a loop device, which the end of the server leaves there.
        let end = "pkill --signal KILL --exact fio; sleep 1; \
                   for name in data scratch; do umount /srv/$name; flashyard detach $name; done";
        let _ = self.host.command(end).stderr(Stdio::null()).status();
    }
}

/// Drives of a node, in the options of the role.
pub fn drives() -> Value {
    let drives = (0..4).map(|number| {
        let path = format!("/var/lib/flashyard/drive-{number}");
        json!({"name": format!("d{number}"), "path": path, "size": "256MiB"})
    });
    drives.collect()
}

/// The package of the program.
pub fn package(directory: &Path) -> PathBuf {
    let script = root().join("deploy/package");
    let into = directory.join("packages");
    let program = env!("CARGO_BIN_EXE_flashyard");
    let made = tool(script.to_str().unwrap(), &[program, into.to_str().unwrap()]);
    PathBuf::from(made.trim_end())
}

/// The host has its volume mounted, by a node that it has proved itself to, through the firewall.
fn is_as_the_inventory_says(site: &Site) {
    let mounted = "findmnt --noheadings --output FSTYPE /srv/data";
    assert_eq!(site.host.answer(mounted), "xfs\n");
    let [nvme, api] = ["4420", "4400"].map(|port| {
        let connect = format!("exec 3<>/dev/tcp/192.0.2.10/{port}");
        site.host
            .run(&format!("bash -c '{connect}'"))
            .status
            .success()
    });
    assert!(nvme && !api, "NVMe/TCP {nvme}, REST API {api}");
    let secret = site
        .host
        .answer("stat --format %a /etc/nvme/flashyard.dhchap");
    assert_eq!(secret, "600\n");
    let pinned = site.directory.path().join("flashyard-pins/node-1.pem");
    let certificate = site.node.answer("cat /var/lib/flashyard/certificate.pem");
    assert_eq!(std::fs::read_to_string(pinned).unwrap(), certificate);
    sign_in(&site.node);
    let hosts = site.node.answer("flashyard --output json host list");
    let hosts: Value = serde_json::from_str(&hosts).unwrap();
    assert_eq!(hosts["items"][0]["key"]["hash"], json!("sha256"), "{hosts}");
}

/// Has the program manage the node on its own machine, which the rules of the role let through.
pub fn sign_in(node: &Server) {
    let fingerprint = "sed -n 's/.*\"certificate\": \"\\(.*\\)\".*/\\1/p' \
                       /var/lib/flashyard/endpoints.json";
    node.answer(&format!(
        "flashyard login https://127.0.0.1:4400 --token-file /var/lib/flashyard/admin.token \
         --fingerprint $({fingerprint})"
    ));
}

/// The documented playbook attaches a volume, and removals take it away: check runs predict both.
fn attaches_and_detaches(site: &mut Site) {
    site.node
        .answer("flashyard volume create scratch --pool fast --size 64MiB --allow db-1");
    let shown = site
        .node
        .answer("flashyard --output json volume show scratch");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let nqn = shown["nqn"].as_str().unwrap();
    let address = format!("tcp://192.0.2.10:4420/{nqn}?nsid=1");
    let nqn = format!("scratch_nqn={nqn}");
    for playbook in ["attach.yml", "detach.yml"] {
        let options = ["--extra-vars", &nqn, "--limit", "db-1"];
        let predicted = site.changes(playbook, &[&options[..], &["--check"]].concat());
        let done = site.changes(playbook, &options);
        assert!(
            done.len() == 2 && predicted == done,
            "{predicted:?} {done:?}"
        );
        let again = site.changes(playbook, &options);
        assert!(again.is_empty(), "{playbook}, again: {again:?}");
        if playbook == "attach.yml" {
            let attached = own().join("attached.yml");
            site.changes(attached.to_str().unwrap(), &["--limit", "db-1"]);
            is_attached_at_each_start(site, &address);
            refuses(site, "detach_refused.yml");
            site.host.answer("mount /srv/scratch");
        }
    }
    let left =
        "cat /etc/fstab /proc/mounts; flashyard attached; find /etc/systemd -name '*scratch*'";
    let left = site.host.answer(left);
    assert!(!left.contains("scratch"), "{left}");
    refuses(site, "attach_refused.yml");
}

/// A service that systemd knows every word of attaches the volume, and is enabled.
fn is_attached_at_each_start(site: &Site, address: &str) {
    let unit = "flashyard-attach-scratch.service";
    let place = "/etc/systemd/system";
    let start = site.host.answer(&format!(
        "systemd-analyze verify {place}/{unit} 2>&1; systemctl is-enabled {unit} >&2;
         readlink --canonicalize {place}/remote-fs.target.wants/{unit};
         sed -n 's/^ExecStart=//p' {place}/{unit}"
    ));
    let expected = format!(
        "{place}/{unit}\n/usr/bin/flashyard attach {address} --name scratch --method auto \
         --dhchap-secret-file /etc/nvme/flashyard.dhchap\n"
    );
    assert_eq!(start, expected);
}

/// Each task fails in one line with what its name has after the first colon.
fn refuses(site: &mut Site, playbook: &str) {
    let refused = own().join(playbook);
    let (output, results) = site.play(refused.to_str().unwrap(), &["--limit", "db-1"]);
    assert!(output.status.success(), "{}", said(&output));
    let all = results.iter();
    let tried: Vec<_> = all.filter(|it| it["action"] != json!("command")).collect();
    assert!(!tried.is_empty(), "{results:?}");
    for result in tried {
        let (task, message) = (&result["task"], result["message"].as_str().unwrap());
        let expected = task.as_str().unwrap().split_once(": ").unwrap().1;
        assert!(
            result["failed"] == json!(true) && message.contains(expected),
            "{result}"
        );
        assert!(!message.contains('\n'), "{result}");
    }
}

/// Hosts find the node by themselves once that is wanted: it is restarted for it.
fn is_announced(site: &mut Site) {
    let playbook = own().join("node.yml");
    let playbook = playbook.to_str().unwrap();
    let options = ["--extra-vars", "{flashyard_mdns: true}"];
    let announced = |site: &Site| {
        let events = site.node.answer("flashyard event list");
        events.contains("announced by mDNS as node-1-4420-")
    };
    assert!(!announced(site));
    let done = site.changes(playbook, &options);
    let written = |(_, task): &(String, String)| task.contains("Write the settings file");
    assert!(done.iter().any(written), "{done:?}");
    wait_until("it is announced", || announced(site));
    let again = site.changes(playbook, &options);
    assert!(again.is_empty(), "{again:?}");
}

/// A certificate of an authority goes to the node, which is restarted for it and then serves it.
fn certificate_is_given(site: &mut Site) {
    let [certificate, key] = ["given.pem", "given-key.pem"].map(|name| {
        let path = site.directory.path().join(name);
        path.to_str().unwrap().to_owned()
    });
    let make = [
        "req",
        "-x509",
        "-newkey",
        "ed25519",
        "-nodes",
        "-subj",
        "/CN=node-1",
    ];
    let name = ["-addext", "subjectAltName=DNS:node-1", "-days", "2"];
    tool(
        "openssl",
        &[&make[..], &name, &["-keyout", &key, "-out", &certificate]].concat(),
    );
    let given = format!("flashyard_certificate={certificate} flashyard_certificate_key={key}");
    let playbook = own().join("node.yml");
    let playbook = playbook.to_str().unwrap();
    let options = ["--extra-vars", &given];
    let done = site.changes(playbook, &options);
    for task in [
        "Copy the certificate",
        "Write the settings file",
        "Stop the program",
    ] {
        let found = done.iter().any(|(_, other)| other.contains(task));
        assert!(found, "{task}: {done:?}");
    }
    let key = site
        .node
        .answer("stat --format '%a %G' /etc/flashyard/certificate-key.pem");
    assert_eq!(key, "440 disk\n");
    let shown = "openssl s_client -connect 127.0.0.1:4400 </dev/null 2>/dev/null";
    let shown = site
        .node
        .answer(&format!("{shown} | openssl x509 -noout -subject"));
    assert!(shown.contains("node-1"), "{shown}");
    let again = site.changes(playbook, &options);
    assert!(again.is_empty(), "{again:?}");
}

/// Another certificate than the pinned one is refused, before anything is asked of that node.
fn other_certificate_is_refused(site: &mut Site) {
    let pinned = site.directory.path().join("flashyard-pins/node-1.pem");
    std::fs::write(&pinned, "another\n").unwrap();
    let playbook = own().join("pinned.yml");
    let (output, _) = site.play(playbook.to_str().unwrap(), &[]);
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("The certificate of node-1 is not the one in"),
        "{said}"
    );
}

#[test]
fn site_is_made_of_bare_servers() {
    let mut site = Site::new();
    let package = package(site.directory.path());
    site.servers(&package);
    let predicted = site.changes("flashyard.storage.site", &["--check"]);
    for server in [&site.node, &site.host] {
        let left = server.answer("ls -d /etc/nvme /etc/flashyard /usr/bin/flashyard || true");
        assert_eq!(left, "", "a check run changed something");
    }
    let done = site.changes("flashyard.storage.site", &[]);
    predicts(&predicted, &done);
    is_as_the_inventory_says(&site);
    let again = site.changes("flashyard.storage.site", &[]);
    assert!(again.is_empty(), "a second run: {again:?}");
    attaches_and_detaches(&mut site);
    is_announced(&mut site);
    other_certificate_is_refused(&mut site);
    certificate_is_given(&mut site);
    assert!(!site.printed.contains(SECRET), "{SECRET} was printed");
}

/// systemd and the program know every word of files that the servers of the other test have not.
#[test]
fn services_and_settings_of_the_roles_are_right() {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path();
    std::fs::create_dir(into.join("flashyard.service.d")).unwrap();
    let roles = format!("role_folder={}", root().join("ansible/roles").display());
    let output = ansible("ansible-playbook", into)
        .arg(own().join("services.yml"))
        .args(["--extra-vars", &roles])
        .args(["--extra-vars", &format!("into={}", into.display())])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let program = env!("CARGO_BIN_EXE_flashyard");
    let settings = into.join("flashyard.toml");
    let arguments = ["serve", "--check-config", "--config"];
    tool(
        program,
        &[&arguments[..], &[settings.to_str().unwrap()]].concat(),
    );
    let service = root().join("deploy/flashyard.service");
    std::fs::copy(service, into.join("flashyard.service")).unwrap();
    let path = into.join("flashyard.service");
    let unit = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, unit.replace("/usr/bin/flashyard", program)).unwrap();
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        said(&output)
    );
}
