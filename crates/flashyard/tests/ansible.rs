//! The Ansible collection against a real node: a check run predicts exactly what the run does, a
//! second run changes nothing, refusals are one line, and secrets are in no output.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "ansible/foreseen.rs"]
mod foreseen;
#[path = "support/network.rs"]
mod network;
#[cfg(feature = "long")]
#[path = "ansible/rolling.rs"]
mod rolling;
#[path = "ansible/servers.rs"]
mod servers;
#[path = "ansible/site.rs"]
mod site;
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};
use support::{Node, name, text, wait_until};

const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const NODE_SECRET: &str = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const TLS_KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
/// A secret that the node refuses.
const BAD_SECRET: &str = "hunter2hunter2";

/// Properties that change by themselves.
const BY_ITSELF: [&str; 9] = [
    "standing",
    "state",
    "used_bytes",
    "deleted_bytes",
    "usable_bytes",
    "segments",
    "map",
    "counters",
    "members",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Playbooks and settings of these tests.
fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ansible")
}

fn target() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.to_owned()
}

/// Where Ansible is: with FLASHYARD_ANSIBLE=2.17 of that version, which `.ci/install` has to know.
fn tools() -> PathBuf {
    let earlier = std::env::var("FLASHYARD_ANSIBLE").ok();
    let name = earlier.map_or("ansible".into(), |version| format!("ansible-{version}"));
    target().join(name)
}

/// One of Ansible's programs, which finds no settings of whoever runs the test.
fn ansible(program: &str, directory: &Path) -> Command {
    let tools = tools().join("bin");
    let path = tools.join(program);
    assert!(
        path.exists(),
        "{} is missing: .ci/install --ansible",
        path.display()
    );
    set_up(Command::new(path), directory)
}

/// A program that finds Ansible's own, and no settings of whoever runs the test.
fn set_up(mut command: Command, directory: &Path) -> Command {
    let tools = tools().join("bin");
    let others = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{others}", tools.display()))
        .env("HOME", directory)
        .env("LC_ALL", "C.UTF-8")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("ANSIBLE_CONFIG", own().join("ansible.cfg"))
        .env("ANSIBLE_HOME", directory.join("home"))
        .env("RESULTS", directory.join("results"))
        .current_dir(directory);
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// The collection, built and installed once as its page says: its folder.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ansible-collections");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(root().join("ansible"), folder.join("ansible")).unwrap();
        let page = std::fs::read_to_string(root().join("docs/ansible.md")).unwrap();
        let lines = page.lines().map(str::trim_start);
        let lines = lines.filter(|line| line.starts_with("ansible-galaxy "));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let output = set_up(Command::new("sh"), &folder)
            .args(["-ec", &lines.join("\n")])
            .env("ANSIBLE_COLLECTIONS_PATH", &folder)
            // Nothing is asked of a server.
            .env("ANSIBLE_GALAXY_SERVER", "http://127.0.0.1:9")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
        folder
    })
}

/// A node without anything, and where playbooks are run against it.
struct Site {
    node: Node,
    directory: tempfile::TempDir,
    /// All that Ansible printed so far.
    printed: String,
}

/// Results but those of modules that only show.
fn changes(mut results: Vec<Value>) -> Vec<Value> {
    results.retain(|result| !result["action"].as_str().unwrap().ends_with("_info"));
    results
}

/// What people set of a kind of object, as a node shows it.
fn shown(node: &Node, kind: &str) -> Value {
    let (status, body) = support::http::request(node, "GET", &format!("/v1/{kind}"), "");
    assert_eq!(status, 200, "{body}");
    let mut body: Value = serde_json::from_str(&body).unwrap();
    for item in body["items"].as_array_mut().into_iter().flatten() {
        for itself in BY_ITSELF {
            item.as_object_mut().unwrap().remove(itself);
        }
    }
    body
}

impl Site {
    fn new(node: Node) -> Site {
        Site::with(node, json!({}))
    }

    /// A site whose inventory has more variables.
    fn with(node: Node, more: Value) -> Site {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for (name, block) in documented() {
            std::fs::write(path.join(name), block).unwrap();
        }
        // The secret of one token goes where a link leads, and the link stays.
        std::fs::create_dir(path.join("linked")).unwrap();
        std::os::unix::fs::symlink("linked/ci.token", path.join("ci.token")).unwrap();
        let mut drives = Vec::new();
        for index in 0..4 {
            let file = node.path().join(format!("drive-{index}"));
            drives.push(json!({"name": format!("d{index}"), "path": file, "size": "16MiB"}));
        }
        let mut variables = json!({
            "node": node.endpoints().api, "token_file": node.path().join("admin.token"),
            "token": node.admin_token(), "drives": drives, "data_size": "5MB", "secrets": path,
            "db_1_secret": SECRET, "node_secret": NODE_SECRET, "tls_key": TLS_KEY,
            "bad_secret": BAD_SECRET,
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        });
        let more = more.as_object().unwrap().clone();
        variables.as_object_mut().unwrap().extend(more);
        // In place of the documented inventory, which says the same of another node.
        let inventory = json!({"storage": {"hosts": {"node-1": variables}}});
        std::fs::write(path.join("inventory.yml"), inventory.to_string()).unwrap();
        Site {
            node,
            directory,
            printed: String::new(),
        }
    }

    /// Runs a playbook of the documentation or of this test: the result of each task, in order.
    fn play(&mut self, playbook: &str, options: &[&str]) -> Vec<Value> {
        let documented = self.directory.path().join(playbook);
        let playbook = if documented.exists() {
            documented
        } else {
            own().join(playbook)
        };
        let results = self.directory.path().join("results");
        let _ = std::fs::remove_file(&results);
        let output = ansible("ansible-playbook", self.directory.path())
            .args(["--inventory", "inventory.yml", "--diff", "-vvv"])
            .args(options)
            .arg(&playbook)
            .env("ANSIBLE_COLLECTIONS_PATH", installed())
            .output()
            .unwrap();
        let said = said(&output);
        self.printed += &said;
        assert!(output.status.success(), "{}: {said}", playbook.display());
        let lines = std::fs::read_to_string(results).unwrap_or_default();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    /// All that people set on the node, as it shows it.
    fn state(&self) -> Value {
        let kinds = [
            "drives",
            "pools",
            "volumes",
            "snapshots",
            "schedules",
            "replications",
            "hosts",
            "tenants",
            "tokens",
            "ports",
        ];
        let all = kinds.iter().map(|kind| shown(&self.node, kind));
        Value::Array(all.chain([shown(&self.node, "settings")]).collect())
    }

    /// A check run changes nothing and predicts what the run does, and a second run does nothing.
    fn predicts_runs_and_rests(&mut self, playbook: &str) {
        self.predicts_runs_and_rests_by(playbook, Site::state);
    }

    /// The same, by some of what there is.
    fn predicts_runs_and_rests_by(&mut self, playbook: &str, state: impl Fn(&Site) -> Value) {
        let before = state(self);
        let predicted = changes(self.play(playbook, &["--check"]));
        assert_eq!(
            state(self),
            before,
            "{playbook}: a check run changed something"
        );
        let done = changes(self.play(playbook, &[]));
        assert!(!done.is_empty(), "{playbook}");
        for (predicted, done) in predicted.iter().zip(&done) {
            assert_eq!(predicted, done, "{playbook}");
            assert_eq!(
                done["changed"],
                json!(true),
                "{playbook} tests nothing: {done}"
            );
            assert_ne!(done["diff"]["before"], done["diff"]["after"], "{done}");
        }
        assert_eq!(predicted.len(), done.len(), "{playbook}");
        let after = state(self);
        for result in self.play(playbook, &[]) {
            assert_eq!(
                result["changed"],
                json!(false),
                "{playbook}, again: {result}"
            );
        }
        assert_eq!(state(self), after, "{playbook}: a second run");
    }

    /// A check run says what every run does: each task is a change.
    fn changes_by_every_run(&mut self, playbook: &str) {
        let predicted = self.play(playbook, &["--check"]);
        assert_eq!(predicted, self.play(playbook, &[]));
        let mut all = predicted.iter();
        assert!(all.all(|result| result["changed"] == json!(true)));
    }

    /// Each task fails, in a check run as in a run or only in a run, in one line with what its name
    /// has after the first colon, and changes nothing.
    fn refuses(&mut self, playbook: &str, foreseen: bool) {
        let before = self.state();
        let done = self.play(playbook, &[]);
        for result in &done {
            let (task, message) = (&result["task"], &result["message"]);
            let (task, message) = (task.as_str().unwrap(), message.as_str().unwrap());
            let expected = task.split_once(": ").unwrap().1;
            assert_eq!(result["failed"], json!(true), "{result}");
            assert!(
                message.contains(expected) && !message.contains('\n'),
                "{task} gave {message:?}"
            );
        }
        assert_eq!(self.state(), before, "{playbook}");
        let predicted = self.play(playbook, &["--check"]);
        assert!(!foreseen || predicted == done, "{predicted:?}\n{done:?}");
        assert_eq!(self.state(), before, "{playbook}");
    }

    /// No secret was printed, and no task ended in a traceback.
    fn printed_nothing_secret(&self) {
        assert!(self.directory.path().join("ci.token").is_symlink());
        let made = ["flashyard.token", "ci.token"].map(|name| self.directory.path().join(name));
        let made = made.map(|file| std::fs::read_to_string(file).unwrap());
        let mut secrets = made.map(|secret| secret.trim().to_owned()).to_vec();
        secrets.push(self.node.admin_token());
        secrets.extend([SECRET, NODE_SECRET, TLS_KEY, BAD_SECRET].map(str::to_owned));
        for secret in secrets {
            assert!(!self.printed.contains(&secret), "{secret} was printed");
        }
        assert!(!self.printed.contains("Traceback"), "{}", self.printed);
    }
}

/// Blocks of YAML on the page about Ansible, by the file name in their first line.
fn documented() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(root().join("docs/ansible.md")).unwrap();
    let blocks = page.split("```yaml\n# ").skip(1);
    let blocks = blocks.map(|block| {
        let block = block.split_once("```").unwrap().0;
        let (name, playbook) = block.split_once('\n').unwrap();
        (name.to_owned(), playbook.to_owned())
    });
    blocks.collect()
}

/// What the inventory plug-in says of the node, and of the hosts that changes.yml left.
fn inventory_has_nodes_and_hosts(site: &Site) {
    let url = &site.node.endpoints().api;
    let token = site.node.path().join("admin.token");
    let list = |entry: Value| {
        let asked = json!({"plugin": "flashyard.storage.nodes", "nodes": [entry]});
        let file = site.directory.path().join("flashyard.yml");
        std::fs::write(file, asked.to_string()).unwrap();
        let output = ansible("ansible-inventory", site.directory.path())
            .args(["--inventory", "flashyard.yml", "--list"])
            .env("ANSIBLE_COLLECTIONS_PATH", installed())
            .output();
        output.unwrap()
    };
    let output = list(json!({"node": url, "token_file": token}));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["flashyard_nodes"]["hosts"], json!(["ansible"]));
    assert_eq!(found["flashyard_hosts"]["hosts"], json!(["db-1", "db-2"]));
    assert_eq!(found["flashyard_tenant_acme"]["hosts"], json!(["db-2"]));
    let of = |host: &str| found["_meta"]["hostvars"][host].clone();
    assert!(of("ansible")["flashyard_node"].to_string().contains(url));
    assert!(
        of("db-1")["flashyard_nqn"]
            .to_string()
            .contains(":uuid:5c1a9b1e-")
    );
    // One of db-1 alone, and one of any host.
    assert_eq!(of("db-1")["flashyard_volumes"].as_array().unwrap().len(), 2);
    assert_eq!(
        of("db-2")["flashyard_volumes"][0]["capacity_bytes"],
        json!(6_815_744)
    );
    let output = list(json!({"node": url, "token_file": "/nonexistent"}));
    let said = said(&output);
    assert!(
        said.contains("token_file /nonexistent: No such file"),
        "{said}"
    );
}

#[test]
fn check_runs_predict_runs_and_second_runs_change_nothing() {
    let mut site = Site::new(Node::configured("node.name = \"ansible\"\n"));
    site.predicts_runs_and_rests("storage.yml");
    for result in site.play("look.yml", &[]) {
        assert_eq!(result["changed"], json!(false), "{result}");
    }
    let address = site.node.endpoints().nvme[0].to_string();
    assert!(
        site.printed.contains(&format!("data at {address}")),
        "{}",
        site.printed
    );
    let shown = site.play("shown.yml", &["--check"]);
    assert!(shown.iter().all(|result| result["changed"] == json!(false)));
    site.refuses("refused.yml", true);
    site.refuses("refused_by_the_node.yml", false);
    site.predicts_runs_and_rests("changes.yml");
    inventory_has_nodes_and_hosts(&site);
    site.changes_by_every_run("again.yml");
    site.predicts_runs_and_rests("removals.yml");
    site.printed_nothing_secret();
}

/// As when the replica is once a later copy than that is complete, and none is being made.
fn copied_later_than(node: &Node, earlier: Option<String>) -> Option<String> {
    let standing = || node.client().replication(&name("data")).unwrap().standing;
    wait_until("a copy", || {
        let standing = standing();
        standing.copied > earlier && standing.job.is_none()
    });
    standing().copied
}

/// The documented playbooks about replicas, with two nodes.
#[test]
fn a_volume_is_replicated_and_its_replica_takes_over() {
    let other = Node::develop(&[]);
    let mut site = Site::with(
        Node::configured("node.name = \"ansible\"\n"),
        json!({
            "other_node": other.endpoints().api, "other_pool": "pool",
            "other_token_file": other.path().join("admin.token"),
        }),
    );
    site.play("storage.yml", &[]);
    site.predicts_runs_and_rests_by("replicate.yml", |site| shown(&site.node, "replications"));
    let found = site.node.client().replication(&name("data")).unwrap();
    assert_eq!(found.bandwidth, Some(100_000_000));
    site.refuses("replication_refused.yml", true);
    let first = copied_later_than(&site.node, None);
    site.changes_by_every_run("replication_token.yml");
    // That began another copy. None is due for minutes after it.
    copied_later_than(&site.node, first);
    let replica = other.client().volume(&name("data")).unwrap();
    assert!(replica.replica_of.is_some());
    let of_other = |kind| shown(&other, kind);
    site.predicts_runs_and_rests_by("failover.yml", |_| {
        json!([of_other("hosts"), of_other("volumes")])
    });
    let promoted = other.client().volume(&name("data")).unwrap();
    assert_eq!(promoted.replica_of, None);
    assert_eq!(promoted.hosts, [name("db-1")]);
    for playbook in ["replicate_otherwise.yml", "unreplicate.yml"] {
        site.predicts_runs_and_rests_by(playbook, |site| shown(&site.node, "replications"));
    }
    assert!(!site.printed.contains(&other.admin_token()));
    assert!(!site.printed.contains("Traceback"), "{}", site.printed);
}

#[test]
fn certificates_are_verified() {
    let site = Site::new(Node::configured_secure(""));
    let url = site.node.endpoints().api.clone();
    let port = url.rsplit(':').next().unwrap();
    let ask = format!("import ssl; print(ssl.get_server_certificate(('127.0.0.1', {port})))");
    let output = ansible("python", site.directory.path())
        .args(["-c", &ask])
        .output()
        .unwrap();
    let certificate = site.directory.path().join("node.pem");
    std::fs::write(&certificate, &output.stdout).unwrap();
    let trusted = format!("ca_file={}", certificate.display());
    let token = site.node.path().join("admin.token");
    let module = |arguments: &str| {
        let output = ansible("ansible", site.directory.path())
            .args([
                "localhost",
                "--module-name",
                "flashyard.storage.settings_info",
            ])
            .args(["--args", &format!("{arguments} retries=0")])
            .env("ANSIBLE_COLLECTIONS_PATH", installed())
            .env("FLASHYARD_NODE", &url)
            .env("FLASHYARD_TOKEN_FILE", &token)
            .output()
            .unwrap();
        (output.status.success(), said(&output))
    };
    let (well, said) = module(&format!("{trusted} server_name=localhost"));
    assert!(well && said.contains("log_level"), "{said}");
    for (arguments, expected) in [
        (
            "",
            "its certificate is not trusted: self-signed certificate",
        ),
        (
            &format!("{trusted} server_name=other.example"),
            "its certificate is not trusted: Hostname mismatch",
        ),
        ("ca_file=/nonexistent", "ca_file /nonexistent: No such file"),
    ] {
        let (well, said) = module(arguments);
        assert!(!well && said.contains(expected), "{arguments}: {said}");
        assert!(!said.contains("Traceback"), "{said}");
    }
}

/// Plug-ins under Apache-2.0 are allowed, and each version of ansible-test has to be told so.
#[test]
fn sanity_tests_ignore_the_licence_of_plugins_and_nothing_else() {
    let collection = root().join("ansible");
    let runtime = std::fs::read_to_string(collection.join("meta/runtime.yml")).unwrap();
    let mut lines = BTreeSet::new();
    for kind in ["inventory", "modules"] {
        for file in std::fs::read_dir(collection.join("plugins").join(kind)).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            let Some(name) = file.strip_suffix(".py") else {
                continue;
            };
            let ignored = "validate-modules:missing-gplv3-license";
            lines.insert(format!("plugins/{kind}/{file} {ignored}\n"));
            let text = std::fs::read_to_string(collection.join("plugins").join(kind).join(&file));
            let grouped = runtime.contains(&format!("    - {name}\n"));
            let asks_a_node = text.unwrap().contains("  - flashyard.storage.connection\n");
            assert_eq!(grouped, asks_a_node, "action_groups and {name}");
        }
    }
    let expected: String = lines.into_iter().collect();
    for version in ["2.17", "2.18", "2.19", "2.20", "2.21"] {
        let file = collection.join(format!("tests/sanity/ignore-{version}.txt"));
        if std::env::var_os("UPDATE_ANSIBLE").is_some() {
            std::fs::write(&file, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap();
        let file = file.display();
        assert_eq!(found, expected, "{file}: UPDATE_ANSIBLE=1 writes it");
    }
}

/// `ansible-test` on a copy of the collection, where it wants it; it has to succeed.
fn ansible_test(kind: &str, options: &[&str], home: Option<&Path>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("ansible_collections/flashyard");
    std::fs::create_dir_all(&inside).unwrap();
    let (source, copy) = (root().join("ansible"), inside.join("storage"));
    let [source, into] = [&source, &copy].map(|path| path.to_str().unwrap());
    support::tool("cp", &["--recursive", "--dereference", source, into]);
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = ansible("python", folder.path())
        .args(["-c", version])
        .output();
    let version = text(&version.unwrap().stdout);
    let output = ansible("ansible-test", &copy)
        .args([kind, "--python", version.trim()])
        .args(options)
        .env("HOME", home.unwrap_or(folder.path()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

/// Unit tests: of acts that no real node does, such as hanging up before it answers.
#[test]
fn units_of_the_collection_pass() {
    let said = ansible_test("units", &["--num-workers", "1"], None);
    assert!(said.contains(" passed"), "{said}");
}

/// All of Ansible's own tests of modules and their documentation, in the versions that it pins.
/// Minutes, with what it installs: a checker of code is not what guards data.
#[cfg(feature = "long")]
#[test]
fn sanity_tests_of_the_collection_pass() {
    let home = tools().join("home");
    assert!(
        home.join("primed").exists(),
        "{} lacks what sanity tests need: .ci/install --ansible-sanity",
        home.display()
    );
    let said = ansible_test("sanity", &[], Some(&home));
    for test in ["validate-modules", "pylint", "yamllint", "import"] {
        let ran = format!("Running sanity test \"{test}\"");
        assert!(said.contains(&ran), "{test}: {said}");
    }
    assert!(
        !said.contains("Collecting "),
        "it fetched something: {said}"
    );
}
