//! What a node tells about itself, to the programs that listen: Prometheus and its checker.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api::HostKeyRequest;
use serde_json::Value;
use support::{Node, free_address, free_port, name, text, wait_for, wait_until};

/// The body of an answer with status 200.
fn get(address: &str, path: &str, token: Option<&str>) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let token = token.map_or(String::new(), |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{token}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ')
        .nth(1)
        .filter(|status| *status == "200")
        .map(|_| body.to_owned())
}

fn api_address(node: &Node) -> String {
    let api = &node.endpoints().api;
    api.strip_prefix("http://").unwrap().to_owned()
}

fn figures(node: &Node) -> String {
    let (address, token) = (api_address(node), node.admin_token());
    wait_for("figures", || get(&address, "/metrics", Some(&token)))
}

/// The value of the series that a line begins with.
fn value(figures: &str, series: &str) -> f64 {
    let of_series = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
    figures.lines().find_map(of_series).unwrap_or(0.0)
}

/// Reads `count` blocks of the volume `demo`.
fn read_blocks(node: &Node, count: u32) {
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    let target = format!("tcp://{}/{nqn}", node.endpoints().nvme[0]);
    node.answer(&["perf", &target, "--number-ios", &count.to_string()]);
}

/// A process that ends with the test.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn figures_are_as_prometheus_wants_them_and_count_what_hosts_did() {
    let node = Node::develop(&["--drives", "2"]);
    read_blocks(&node, 300);
    let reads = "flashyard_volume_read_operations_total{volume=\"demo\"}";
    let figures = wait_for("the reads", || {
        Some(figures(&node)).filter(|figures| value(figures, reads) >= 300.0)
    });
    let bytes = "flashyard_volume_read_bytes_total{volume=\"demo\"}";
    assert_eq!(value(&figures, bytes), 300.0 * 4096.0);
    let count = "flashyard_volume_read_latency_seconds_count{volume=\"demo\"}";
    assert_eq!(value(&figures, count), 300.0);
    assert!(
        value(
            &figures,
            "flashyard_core_seconds_total{core=\"0\",activity=\"busy\"}"
        ) > 0.0
    );
    let longest = value(&figures, "flashyard_core_longest_step_seconds{core=\"0\"}");
    assert!(longest > 0.0);
    assert!(value(&figures, "flashyard_core_long_steps_total{core=\"0\"}") >= 0.0);
    let mut checker = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = checker.stdin.take().unwrap();
    input.write_all(figures.as_bytes()).unwrap();
    drop(input);
    let output = checker.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn alert_rules_are_as_prometheus_wants_them() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus-rules.yml");
    let output = Command::new("promtool")
        .args(["check", "rules"])
        .arg(rules)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn prometheus_scrapes_a_node() {
    let node = Node::develop(&["--drives", "2"]);
    read_blocks(&node, 100);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("token"), node.admin_token()).unwrap();
    let settings = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: flashyard\n  \
         authorization:\n    credentials_file: token\n  static_configs:\n  - targets: [{}]\n",
        api_address(&node)
    );
    std::fs::write(path.join("prometheus.yml"), settings).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let log = std::fs::File::create(path.join("log")).unwrap();
    let _prometheus = Receiver(
        Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(path)
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    let query = "/api/v1/query?query=flashyard_volume_read_operations_total";
    let result = wait_for("a scrape", || {
        let answer: Value = serde_json::from_str(&get(&address, query, None)?).ok()?;
        answer["data"]["result"].get(0).cloned()
    });
    assert_eq!(result["metric"]["volume"], "demo");
    assert_eq!(result["value"][1], "100");
    let query = "/api/v1/query?query=up";
    let up: Value = serde_json::from_str(&get(&address, query, None).unwrap()).unwrap();
    assert_eq!(up["data"]["result"][0]["value"][1], "1", "{up}");
}

#[test]
fn figures_need_a_token_and_hold_no_secret() {
    let node = Node::develop(&["--drives", "1"]);
    let client = node.client();
    let host = name("db1");
    let spec = api::HostSpec {
        nqn: "nqn.2026-11.example:db1".to_owned(),
        tenant: None,
    };
    client.add_host(&host, &spec).unwrap();
    let key = client
        .generate_host_key(&host, &HostKeyRequest::default())
        .unwrap();
    let secret = serde_json::to_value(&key).unwrap()["secret"].clone();
    let secret = secret.as_str().unwrap().to_owned();
    let figures = figures(&node);
    let token = node.admin_token();
    let shown = get(&api_address(&node), "/v1/metrics", Some(&token)).unwrap();
    for secret in [secret.as_str(), token.as_str(), "DHHC"] {
        assert!(!figures.contains(secret) && !shown.contains(secret));
    }
    assert_eq!(get(&api_address(&node), "/metrics", None), None);
    assert_eq!(get(&api_address(&node), "/metrics", Some("wrong")), None);
}

#[test]
fn top_shows_what_is_read() {
    let node = Node::develop(&["--drives", "2"]);
    let shown = wait_for("two samples", || {
        let shown = node.ask(&["top", "--once"]);
        Some(text(&shown.stdout)).filter(|shown| shown.contains("demo"))
    });
    assert!(shown.contains("READ P99"), "{shown}");
    let client = node.client();
    read_blocks(&node, 2000);
    let seen = wait_for("a point with reads", || {
        let metrics = client.metrics(1).unwrap();
        let mut points = metrics.points.into_iter();
        points.find(|point| point.read.operations_per_second > 0.0)
    });
    assert!(seen.read.bytes_per_second >= 4096.0 * seen.read.operations_per_second * 0.99);
    let json = node.answer(&["top", "--once", "--output", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["volumes"][0]["name"], "demo", "{json}");
    let refused = node.client().metrics(5).unwrap_err().to_string();
    assert!(refused.contains("5 seconds; allowed: 1 or 10"), "{refused}");
}

/// A self-signed authority of `localhost`, made by the node itself: certificate and key.
fn certificate(directory: &Path) -> (String, String) {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    (path("certificate.pem"), path("certificate-key.pem"))
}

/// rsyslog with the network stream driver for TLS where it is installed; what it receives comes as
/// JSON, a message a line.
fn rsyslog(directory: &Path, input: &str) -> Receiver {
    let settings = format!(
        "global(workDirectory=\"{path}\")\n{input}\n\
         template(name=\"all\" type=\"list\") {{ property(name=\"jsonmesg\") \
         constant(value=\"\\n\") }}\n\
         action(type=\"omfile\" file=\"{path}/received\" template=\"all\")\n",
        path = directory.display()
    );
    std::fs::write(directory.join("rsyslog.conf"), settings).unwrap();
    let path = |name: &str| directory.join(name);
    let log = std::fs::File::create(path("rsyslog.log")).unwrap();
    Receiver(
        Command::new("/usr/sbin/rsyslogd")
            .arg("-n")
            .arg("-f")
            .arg(path("rsyslog.conf"))
            .arg("-i")
            .arg(path("rsyslog.pid"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap(),
    )
}

/// What rsyslog understood of the first message that says `text`.
fn received(directory: &Path, text: &str) -> Value {
    wait_for(text, || {
        let lines = std::fs::read_to_string(directory.join("received")).ok()?;
        let messages = lines.lines().map(serde_json::from_str);
        let mut messages = messages.filter_map(Result::<Value, _>::ok);
        messages.find(|message| message["msg"] == text)
    })
}

/// Changes something, and looks at what arrives of it.
fn expect_audit_line(node: &Node, directory: &Path, object: &str) {
    let spec = api::HostSpec {
        nqn: format!("nqn.2026-11.example:{object}"),
        tenant: None,
    };
    node.client().add_host(&name(object), &spec).unwrap();
    let message = received(directory, &format!("PUT /v1/hosts/{object}"));
    assert_eq!(message["pri"], "85", "{message}");
    assert_eq!(message["programname"], "flashyard", "{message}");
    let data = message["structured-data"].as_str().unwrap();
    assert!(data.contains("token=\"admin\"") && data.contains("status=\"200\""));
    let text = serde_json::to_string(&message).unwrap();
    assert!(!text.contains(&node.admin_token()));
}

#[test]
fn rsyslog_understands_events_and_audit_lines_over_udp_and_tcp() {
    let node = Node::develop(&["--drives", "1"]);
    for (module, scheme, input) in [("imudp", "udp", "imudp"), ("imtcp", "tcp", "imtcp")] {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let input = format!(
            "module(load=\"{module}\")\ninput(type=\"{input}\" port=\"{port}\" \
             address=\"127.0.0.1\")"
        );
        let _receiver = rsyslog(directory.path(), &input);
        wait_for("rsyslog", || {
            std::fs::read_to_string(directory.path().join("rsyslog.pid")).ok()
        });
        node.answer(&[
            "settings",
            "set",
            "--syslog",
            &format!("{scheme}://127.0.0.1:{port}"),
        ]);
        // Over UDP nothing says whether the receiver listens yet: the first may be lost.
        wait_until("a first message", || {
            node.ask(&["host", "remove", "nobody"]);
            std::thread::sleep(Duration::from_millis(300));
            directory.path().join("received").exists()
        });
        let refused = received(directory.path(), "DELETE /v1/hosts/nobody");
        assert_eq!(refused["pri"], "84", "{refused}");
        expect_audit_line(&node, directory.path(), &format!("{scheme}-host"));
    }
    let shown = wait_for("messages to be counted", || {
        let sent = |shown: &String| value(shown, "flashyard_syslog_messages_total") > 3.0;
        Some(figures(&node)).filter(sent)
    });
    assert_eq!(value(&shown, "flashyard_syslog_dropped_total"), 0.0);
}

#[test]
fn syslog_over_tls_trusts_only_the_given_authority() {
    let maker = Node::configured_secure("");
    let (certificate, key) = certificate(maker.path());
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let input = format!(
        "global(defaultNetstreamDriver=\"gtls\" defaultNetstreamDriverCAFile=\"{certificate}\" \
         defaultNetstreamDriverCertFile=\"{certificate}\" \
         defaultNetstreamDriverKeyFile=\"{key}\")\n\
         module(load=\"imtcp\" streamDriver.name=\"gtls\" streamDriver.mode=\"1\" \
         streamDriver.authMode=\"anon\")\n\
         input(type=\"imtcp\" port=\"{port}\")"
    );
    let _receiver = rsyslog(directory.path(), &input);
    let node = Node::develop(&["--drives", "1"]);
    let other = Node::configured_secure("");
    let url = format!("tls://localhost:{port}");
    let (stranger, _) = self::certificate(other.path());
    node.answer(&[
        "settings",
        "set",
        "--syslog",
        &url,
        "--syslog-ca",
        &stranger,
    ]);
    node.ask(&["host", "remove", "distrusted"]);
    std::thread::sleep(Duration::from_secs(3));
    let arrived = std::fs::read_to_string(directory.path().join("received"));
    assert!(!arrived.unwrap_or_default().contains("distrusted"));
    node.answer(&[
        "settings",
        "set",
        "--syslog",
        &url,
        "--syslog-ca",
        &certificate,
    ]);
    expect_audit_line(&node, directory.path(), "tls-host");
}

/// Receivers that are not there are told of, and so is what they missed once they are.
#[test]
fn absent_receivers_are_told_and_so_is_what_they_missed() {
    let node = Node::develop(&["--drives", "2"]);
    let [syslog, graphite] = [free_address(), free_address()];
    let (to_syslog, to_graphite) = (format!("tcp://{syslog}"), graphite.to_string());
    let set = ["settings", "set", "--syslog", &to_syslog];
    let figures_too = ["--graphite", &to_graphite, "--graphite-interval", "1"];
    node.answer(&[&set[..], &figures_too].concat());
    let receivers = [
        (syslog, "syslog", "messages"),
        (graphite, "Graphite", "batches of figures"),
    ];
    let told = |said: &str| node.answer(&["event", "list"]).contains(said);
    for (address, kind, sent) in receivers {
        let said = format!("the {kind} receiver {address} has taken no {sent} for ");
        wait_until(&said, || told(&said));
    }
    // Another setting changes nothing about it.
    node.answer(&["settings", "set", "--log-level", "debug"]);
    let takes_all = |address| {
        let listener = TcpListener::bind(address).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the node ends.
            std::io::copy(&mut stream, &mut std::io::sink())
        })
    };
    let taking = receivers.map(|(address, ..)| takes_all(address));
    for (address, kind, sent) in receivers {
        let said = format!("the {kind} receiver {address} takes {sent} again, ");
        wait_until(&said, || told(&said));
    }
    let lost = value(&figures(&node), "flashyard_graphite_failures_total");
    assert!(lost >= 2.0, "{lost}");
    read_blocks(&node, 100);
    drop(node);
    for taking in taking {
        taking.join().unwrap().unwrap();
    }
}

#[test]
fn graphite_gets_figures_and_a_slow_receiver_stops_nothing() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = Node::develop(&["--drives", "2"]);
    let set = ["settings", "set", "--graphite", &address];
    let extra = ["--graphite-prefix", "lab.a", "--graphite-interval", "1"];
    node.answer(&[&set[..], &extra[..]].concat());
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = String::new();
    while !text.contains(".volume_read_bytes_total.demo ") {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).unwrap();
        text += &String::from_utf8_lossy(&part[..length]);
    }
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("lab.a.") && first.split(' ').count() == 3,
        "{first}"
    );
    // From here on nobody reads: batches fail, and figures and the data side go on.
    drop(stream);
    drop(listener);
    wait_until("failures to be counted", || {
        value(&figures(&node), "flashyard_graphite_failures_total") >= 2.0
    });
    read_blocks(&node, 100);
    node.answer(&["settings", "set", "--graphite", "none"]);
    assert!(node.client().settings().unwrap().graphite.is_none());
}

#[test]
fn receivers_that_nothing_could_be_sent_to_are_refused() {
    let node = Node::develop(&["--drives", "1"]);
    node.refuses(&[
        (
            &["settings", "set", "--graphite", "here"],
            1,
            &["graphite.address", "HOST:PORT"],
        ),
        (
            &[
                "settings",
                "set",
                "--graphite",
                "h:1",
                "--graphite-prefix",
                "a..b",
            ],
            1,
            &["graphite.prefix", "a..b", "dots between"],
        ),
        (
            &[
                "settings",
                "set",
                "--graphite",
                "h:1",
                "--graphite-interval",
                "0",
            ],
            1,
            &["graphite.interval_seconds", "1 to 3600"],
        ),
        (
            &["settings", "set", "--syslog", "h:514"],
            2,
            &["udp://HOST:PORT"],
        ),
        (
            &["settings", "set", "--syslog", "tcp://h:0"],
            1,
            &["syslog.address", "HOST:PORT"],
        ),
        (
            &[
                "settings",
                "set",
                "--syslog",
                "udp://h:1",
                "--syslog-ca",
                "/dev/null",
            ],
            1,
            &["syslog.ca_certificate", "tls"],
        ),
    ]);
}
