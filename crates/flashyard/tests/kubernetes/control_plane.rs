//! A Kubernetes control plane of processes on loopback: etcd, the API server and the controllers of
//! volumes. The chart is installed in it, and its sidecars run with the arguments and the rights
//! that the chart gives them.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::cluster::Plugin;
use crate::helm::{rendered, run, tools};
use crate::support::{free_port, text, tool, wait_until, wait_until_or_tell};

/// Where the chart puts the driver.
const NAMESPACE: &str = "flashyard";

const ADMIN_TOKEN: &str = "admin-of-the-test";

/// Those of volumes, and those without which a namespace has no account and no object is deleted.
const CONTROLLERS: &str = "persistentvolume-binder-controller,\
    persistentvolume-attach-detach-controller,persistentvolumeclaim-protection-controller,\
    persistentvolume-protection-controller,volumeattributesclass-protection-controller,\
    serviceaccount-controller,namespace-controller,garbage-collector-controller";

pub struct ControlPlane {
    directory: tempfile::TempDir,
    server: String,
    processes: Vec<Process>,
}

struct Process {
    program: String,
    arguments: Vec<String>,
    child: Child,
}

impl ControlPlane {
    /// Starts one without any object.
    pub fn start() -> ControlPlane {
        let directory = tempfile::tempdir().unwrap();
        let [store, api, peers] = [(); 3].map(|()| free_port());
        let mut plane = ControlPlane {
            server: format!("https://127.0.0.1:{api}"),
            directory,
            processes: Vec::new(),
        };
        plane.login("admin", ADMIN_TOKEN);
        let path = |name: &str| plane.path(name).to_str().unwrap().to_owned();
        let [key, public] = ["account.key", "account.pub"].map(path);
        tool("openssl", &["genrsa", "-out", &key, "2048"]);
        tool("openssl", &["rsa", "-in", &key, "-pubout", "-out", &public]);
        let tokens = path("tokens.csv");
        fs::write(
            &tokens,
            format!("{ADMIN_TOKEN},admin,admin,system:masters\n"),
        )
        .unwrap();
        let (data, certificates, admin) = (path("store"), path("certificates"), path("admin"));
        let store = format!("http://127.0.0.1:{store}");
        let peers = format!("http://127.0.0.1:{peers}");
        plane.spawn(
            "etcd",
            &[
                format!("--data-dir={data}"),
                format!("--listen-client-urls={store}"),
                format!("--advertise-client-urls={store}"),
                format!("--listen-peer-urls={peers}"),
            ],
        );
        plane.spawn(
            "kube-apiserver",
            &[
                format!("--etcd-servers={store}"),
                format!("--secure-port={api}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={certificates}"),
                format!("--token-auth-file={tokens}"),
                "--authorization-mode=RBAC".to_owned(),
                "--allow-privileged".to_owned(),
                // The tests' own network has no other address, and nobody asks for this server's.
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                "--service-account-issuer=https://kubernetes.default".to_owned(),
                format!("--service-account-key-file={public}"),
                format!("--service-account-signing-key-file={key}"),
            ],
        );
        wait_until("the API server is ready", || {
            plane
                .kubectl_output(&["get", "--raw", "/readyz"], "")
                .status
                .success()
        });
        plane.spawn(
            "kube-controller-manager",
            &[
                format!("--kubeconfig={admin}"),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                format!("--controllers={CONTROLLERS}"),
                format!("--service-account-private-key-file={key}"),
            ],
        );
        plane
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file by which programs find the API server as the owner of `token`.
    fn login(&self, name: &str, token: &str) {
        let login = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server, "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(self.path(name), login.to_string()).unwrap();
    }

    /// Starts a program, whose output goes behind that of earlier processes of it.
    fn spawn(&mut self, program: &str, arguments: &[String]) {
        let child = self.started(program, arguments);
        self.processes.push(Process {
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            child,
        });
    }

    fn started(&self, program: &str, arguments: &[String]) -> Child {
        let log = self.path(&format!("{program}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(tools().join("orchestrator").join(program))
            .args(arguments)
            .env("HOME", self.directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        child.unwrap_or_else(|error| panic!("{program}: {error}; make kubernetes-long"))
    }

    /// Kills a program; nobody starts it again until somebody revives what has ended.
    pub fn kill(&mut self, program: &str) {
        let found = self.processes.iter_mut().find(|it| it.program == program);
        let child = &mut found.unwrap().child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts what has ended anew, as a kubelet does: sidecars end when the driver does.
    pub fn revive(&mut self) {
        for index in 0..self.processes.len() {
            if self.processes[index].child.try_wait().unwrap().is_some() {
                let Process {
                    program, arguments, ..
                } = &self.processes[index];
                self.processes[index].child = self.started(program, arguments);
            }
        }
    }

    /// That all processes run.
    pub fn assert_all_run(&mut self) {
        let directory = self.directory.path().to_owned();
        for Process { program, child, .. } in &mut self.processes {
            let log = directory.join(format!("{program}.log"));
            let ended = child.try_wait().unwrap();
            let log = || fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "{program} ended: {}", log());
        }
    }

    /// That the chart gives every sidecar the rights that it asked for.
    pub fn assert_nothing_was_forbidden(&self) {
        for Process { program, .. } in &self.processes {
            let log = fs::read_to_string(self.path(&format!("{program}.log"))).unwrap();
            let refused = log.lines().filter(|line| line.contains("is forbidden"));
            let refused: Vec<&str> = refused.collect();
            assert!(refused.is_empty(), "{program}: {refused:?}");
        }
    }

    fn kubectl_output(&self, words: &[&str], input: &str) -> Output {
        let mut command = Command::new(tools().join("orchestrator/kubectl"));
        command
            .arg(format!("--kubeconfig={}", self.path("admin").display()))
            .args(words)
            .env("HOME", self.directory.path());
        run(command, input)
    }

    /// What kubectl prints, which must succeed.
    pub fn kubectl(&self, words: &[&str], input: &str) -> String {
        let output = self.kubectl_output(words, input);
        let said = text(&output.stderr);
        assert!(output.status.success(), "kubectl {words:?}: {said}");
        text(&output.stdout)
    }

    /// Makes objects, or changes them.
    pub fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl(&["apply", "--filename=-"], &list.to_string());
    }

    /// One object, or all of a kind as a list.
    pub fn get(&self, what: &[&str]) -> Value {
        let words = [&["get", "--output=json"], what].concat();
        serde_json::from_str(&self.kubectl(&words, "")).unwrap()
    }

    /// The object once it is so; what it is instead, and what the processes say, is told in vain.
    pub fn wait(&mut self, what: &[&str], holds: impl Fn(&Value) -> bool) -> Value {
        let words = [&["get", "--output=json"], what].concat();
        let found = RefCell::new(Value::Null);
        let plane = &*self;
        let told = || format!("{what:?}; it was {}", found.borrow());
        wait_until_or_tell(told, || {
            let output = plane.kubectl_output(&words, "");
            let Ok(now) = serde_json::from_slice(&output.stdout) else {
                return false;
            };
            found.replace(now);
            holds(&found.borrow())
        });
        self.assert_all_run();
        found.into_inner()
    }

    /// Waits until there is no such object.
    pub fn wait_until_gone(&self, what: &[&str]) {
        wait_until(&format!("{what:?} is gone"), || {
            let words = [&["get", "--ignore-not-found", "--output=name"], what].concat();
            self.kubectl(&words, "").is_empty()
        });
    }

    /// Installs the chart with `values`, and runs its sidecars beside the driver.
    pub fn install(&mut self, plugin: &Plugin, values: &str) {
        let definitions = tools().join("snapshot-definitions");
        let definitions = format!("--kustomize={}", definitions.display());
        self.kubectl(&["apply", "--server-side", &definitions], "");
        let values = format!("{values}namespace: {{create: true}}\n");
        self.kubectl(&["apply", "--filename=-"], &rendered(&values));
        let account = "flashyard-controller";
        let token = [
            "create",
            "token",
            account,
            "--namespace",
            NAMESPACE,
            "--duration=2h",
        ];
        let token = self.kubectl(&token, "");
        self.login(account, token.trim());
        let deployment = self.get(&["deployment", account, "--namespace", NAMESPACE]);
        let containers = &deployment["spec"]["template"]["spec"]["containers"];
        for container in containers.as_array().unwrap() {
            self.spawn_sidecar(container, plugin);
        }
        let admin = format!("--kubeconfig={}", self.path("admin").display());
        self.spawn("snapshot-controller", &[admin]);
    }

    /// Runs a process that the chart has beside the driver: what its image runs, as it is told to.
    fn spawn_sidecar(&mut self, container: &Value, plugin: &Plugin) {
        let image = container["image"].as_str().unwrap();
        let program = image.rsplit('/').next().unwrap();
        let program = program.split(':').next().unwrap();
        // The driver itself runs, and nobody asks the probe here.
        if ["flashyard", "livenessprobe"].contains(&program) {
            return;
        }
        let socket = plugin.socket.to_str().unwrap();
        let certificate = self.path("metadata");
        let certificate = certificate.to_str().unwrap();
        let arguments = container["args"].as_array().unwrap().iter();
        let arguments = arguments.map(|argument| {
            let argument = argument.as_str().unwrap();
            let argument = argument.replace("/csi/csi.sock", socket);
            argument.replace("/etc/flashyard/metadata", certificate)
        });
        let login = self.path("flashyard-controller");
        let mut arguments: Vec<String> = arguments.collect();
        arguments.push(format!("--kubeconfig={}", login.display()));
        self.spawn(program, &arguments);
    }

    /// Makes a certificate of this machine in the folder `metadata`, and has the definitions of
    /// what the service of snapshots' metadata is told by.
    pub fn prepare_metadata(&self) {
        let folder = self.path("metadata");
        fs::create_dir(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let made = [
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            &path("tls.key"),
            "-out",
            &path("tls.crt"),
        ];
        tool("openssl", &made);
        let definition = "orchestrator/cbt.storage.k8s.io_snapshotmetadataservices.yaml";
        let definition = format!("--filename={}", tools().join(definition).display());
        self.kubectl(&["apply", "--server-side", &definition], "");
    }

    /// Asks the service of snapshots' metadata, as a backup program does: every message it answers
    /// with, or why it does not.
    pub fn metadata(&self, method: &str, question: &Value) -> Result<Vec<Value>, String> {
        let from = tools().join("orchestrator");
        let mut command = Command::new(from.join("grpcurl"));
        command
            .arg("-cacert")
            .arg(self.path("metadata/tls.crt"))
            .arg("-import-path")
            .arg(&from)
            .args(["-proto", "schema.proto", "-d", "@", "127.0.0.1:50051"])
            .arg(format!("snapshotmetadata.SnapshotMetadata/{method}"));
        let output = run(command, &question.to_string());
        match output.status.success() {
            true => {
                let messages = serde_json::Deserializer::from_slice(&output.stdout);
                Ok(messages.into_iter().map(Result::unwrap).collect())
            }
            false => Err(text(&output.stderr)),
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            let (program, mut child) = (process.program, process.child);
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = self.path(&format!("{program}.log"));
                let log = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<&str> = log.lines().rev().take(30).collect();
                eprintln!("{program}, the newest first:\n{}", lines.join("\n"));
            }
        }
    }
}
