//! Every limit of the REST API ends in a 4xx that names it: code, field, what was found, what is
//! allowed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "bounds/named.rs"]
mod named;
mod support;

use api::{ErrorBody, ErrorCode, HostSpec, Name};
use server::state::{Kind, State};
use support::http::{exchange, request};
use support::{Node, name};

/// Method, path and body; status, code and field of the refusal; a part of its message.
type Case = (
    &'static str,
    String,
    String,
    u16,
    ErrorCode,
    &'static str,
    &'static str,
);

const INVALID: ErrorCode = ErrorCode::InvalidArgument;

fn check(node: &Node, (method, path, body, status, code, field, says): &Case) {
    let (found, answer) = request(node, method, path, body);
    let place: String = format!("{method} {path} {body}")
        .chars()
        .take(200)
        .collect();
    assert_eq!(found, *status, "{place}: {answer}");
    let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
    assert_eq!(refused.code, *code, "{place}: {answer}");
    assert_eq!(refused.field.as_deref(), Some(*field), "{place}: {answer}");
    assert!(refused.message.contains(says), "{place}: {answer}");
    assert!(answer.len() < 8 << 10, "{place} is answered with {answer}");
}

/// A request whose body or query is wrong.
fn wrong(
    method: &'static str,
    path: &str,
    body: &str,
    field: &'static str,
    says: &'static str,
) -> Case {
    let (path, body) = (path.to_owned(), body.to_owned());
    (method, path, body, 400, INVALID, field, says)
}

fn of_requests() -> Vec<Case> {
    let long = |bytes: usize| "a".repeat(bytes);
    let deep = "[".repeat(50_000);
    let uri = ErrorCode::UriTooLong;
    vec![
        wrong("GET", "/v1/drives?limit=0", "", "limit", "1 to 1000"),
        wrong("GET", "/v1/drives?limit=1001", "", "limit", "1 to 1000"),
        wrong("GET", "/v1/drives?limit=-1", "", "limit", "allowed"),
        wrong(
            "GET",
            "/v1/drives?limit=4294967296",
            "",
            "limit",
            "too large",
        ),
        wrong("GET", "/v1/drives?limit=", "", "limit", "allowed"),
        wrong("GET", "/v1/jobs/18446744073709551616", "", "id", "allowed"),
        wrong("GET", "/v1/metrics?interval=11", "", "interval", "1 or 10"),
        wrong(
            "GET",
            "/v1/history?kind=node&step=11",
            "",
            "step",
            "10, 60 or 900",
        ),
        wrong(
            "GET",
            "/v1/history?kind=node&seconds=3601",
            "",
            "seconds",
            "10 to 3600",
        ),
        wrong(
            "GET",
            "/v1/history?kind=node&names=n",
            "",
            "names",
            "allowed: none",
        ),
        wrong("GET", "/v1/history?kind=drive", "", "names", "1 to 100"),
        wrong(
            "GET",
            &format!("/v1/history?kind=drive&names={}d", "d,".repeat(100)),
            "",
            "names",
            "1 to 100",
        ),
        wrong(
            "PUT",
            "/v1/hosts/any",
            r#"{"nqn":"n"}"#,
            "name",
            "another name",
        ),
        wrong(
            "GET",
            &format!("/v1/drives/{}", long(64)),
            "",
            "name",
            "1 to 63",
        ),
        (
            "GET",
            format!("/v1/volumes/{}", long(9000)),
            String::new(),
            414,
            uri,
            "path",
            "8192",
        ),
        (
            "DELETE",
            format!("/v1/volumes/v?force={}", long(9000)),
            String::new(),
            414,
            uri,
            "query",
            "8192",
        ),
        (
            "PUT",
            "/v1/volumes/v".to_owned(),
            format!("{{\"pool\":\"{}\"}}", long(1 << 20)),
            413,
            ErrorCode::BodyTooLarge,
            "body",
            "1048576",
        ),
        wrong("PUT", "/v1/volumes/v", &deep, "body", "allowed"),
        wrong(
            "PUT",
            "/v1/volumes/v",
            &format!("{{\"hosts\":{deep}"),
            "hosts[0]",
            "expected",
        ),
        wrong(
            "PUT",
            "/v1/volumes/v",
            &format!("{{\"{}\":1}}", long(9000)),
            LONG,
            "unknown",
        ),
        wrong(
            "PUT",
            "/v1/volumes/v",
            r#"{"pool":"a","pool":"b"}"#,
            "pool",
            "duplicate",
        ),
        wrong(
            "POST",
            "/v1/pools/p/import",
            r#"{"rename_volumes":{"a":"b","a":"c"}}"#,
            "rename_volumes",
            "twice",
        ),
    ]
}

/// As much of a field's name as is said again.
const LONG: &str = concat!(
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "..."
);

fn of_drives() -> Vec<Case> {
    let drive = |body: &str, field, says| wrong("PUT", "/v1/drives/x", body, field, says);
    let path = |path: &str| {
        drive(
            &format!(r#"{{"kind":"path","path":"{path}"}}"#),
            "path",
            "allowed",
        )
    };
    let model = |rest: &str, field, says| {
        let body = format!(r#"{{"kind":"emulated","profile":"cm7-r-7.68",{rest}}}"#);
        drive(&body, field, says)
    };
    let curve = |query: &str, field, says| {
        let path = format!("/v1/profiles/cm7-r-7.68/curve?{query}");
        wrong("GET", &path, "", field, says)
    };
    vec![
        drive(r#"{"kind":"memory","size":0}"#, "size", "4096"),
        // Nothing is that large, and a node must not die of trying.
        drive(
            r#"{"kind":"memory","size":4611686018427387904}"#,
            "size",
            "4 PiB",
        ),
        drive(
            r#"{"kind":"null","size":18446744073709551615}"#,
            "size",
            "4096",
        ),
        drive(
            r#"{"kind":"null","size":"99999999999TiB"}"#,
            "size",
            "2^64-1",
        ),
        drive(
            r#"{"kind":"path","path":"/tmp/x","size":-1}"#,
            "size",
            "allowed",
        ),
        path("relative"),
        drive(
            &format!(r#"{{"kind":"path","path":"/{}"}}"#, "p".repeat(4095)),
            "path",
            "4095",
        ),
        path("/tmp/a\\nb"),
        path("/tmp/a\\u0000b"),
        model(r#""scale_ppm":0"#, "scale_ppm", "0"),
        model(r#""scale_ppm":1000001"#, "scale_ppm", "1000001"),
        model(r#""scale_ppm":4294967296"#, "scale_ppm", "4294967296"),
        model(r#""dilation_percent":0"#, "dilation_percent", "0"),
        model(
            r#""dilation_percent":100001"#,
            "dilation_percent",
            "1 to 100000",
        ),
        drive(
            &format!(r#"{{"kind":"emulated","profile":"{}"}}"#, "p".repeat(9000)),
            "profile",
            "",
        ),
        wrong(
            "DELETE",
            "/v1/drives/d0/namespaces/4294967296",
            "",
            "nsid",
            "number",
        ),
        curve("points=1", "points", "2 to 101"),
        curve("points=102", "points", "2 to 101"),
        curve("outstanding=4097", "outstanding", "1 to 4096"),
        curve("read_percent=101", "read_percent", "0 to 100"),
        curve("read_percent=256", "read_percent", "allowed"),
        curve("block_bytes=0", "block_bytes", "4096"),
        curve("block_bytes=16781312", "block_bytes", "16 MiB"),
        curve("rw=sideways", "rw", "randwrite"),
    ]
}

fn of_volumes() -> Vec<Case> {
    let volume = |body: &str, field, says| wrong("PUT", "/v1/volumes/v", body, field, says);
    let size =
        |size: &str, says| volume(&format!(r#"{{"pool":"pool","size":{size}}}"#), "size", says);
    let full = ErrorCode::OutOfSpace;
    let limits =
        |body: &str, field, says| wrong("PUT", "/v1/volumes/demo/limits", body, field, says);
    let grant = |rest: &str, field, says| {
        let body = format!(r#"{{"size":"1GiB",{rest}}}"#);
        wrong("PUT", "/v1/tenants/t/grants/pool", &body, field, says)
    };
    vec![
        size("0", "4 KiB"),
        size("4503599627374592", "4 PiB"),
        size("18446744073709551615", "4 PiB"),
        (
            "PUT",
            "/v1/volumes/v".to_owned(),
            r#"{"pool":"pool","size":"1024TiB","reserved":true}"#.to_owned(),
            409,
            full,
            "size",
            "is free",
        ),
        wrong(
            "POST",
            "/v1/volumes/demo/resize",
            r#"{"size":"5000TiB"}"#,
            "size",
            "4 PiB",
        ),
        volume(
            r#"{"pool":"pool","size":4096,"block_bytes":1024}"#,
            "block_bytes",
            "512, 4096",
        ),
        limits(r#"{"read":{"iops":99}}"#, "read.iops", "100 or more"),
        limits(
            r#"{"write":{"bytes_per_second":1}}"#,
            "write.bytes_per_second",
            "1048576",
        ),
        limits(
            r#"{"total":{"iops":9007199254740992}}"#,
            "total.iops",
            "up to",
        ),
        limits(
            r#"{"total":{"iops_per_gib":0}}"#,
            "total.iops_per_gib",
            "1 or more",
        ),
        limits(r#"{"burst_ms":60001}"#, "burst_ms", "1 to 60000"),
        limits(r#"{"minimum_iops":1}"#, "minimum_iops", "100"),
        limits(
            r#"{"total":{"iops":200},"minimum_iops":300}"#,
            "minimum_iops",
            "200",
        ),
        grant(r#""volumes":1000001"#, "volumes", "1000000"),
        grant(r#""snapshots":4294967296"#, "snapshots", "4294967296"),
        limits(
            r#"{"total":{"bytes_per_second_per_gib":0}}"#,
            "total.bytes_per_second_per_gib",
            "1 or more",
        ),
        wrong(
            "POST",
            "/v1/snapshots",
            r#"{"snapshots":[]}"#,
            "snapshots",
            "one or more",
        ),
        (
            "POST",
            "/v1/snapshots".to_owned(),
            r#"{"snapshots":[{"name":"s","volume":"demo"},{"name":"s","volume":"demo"}]}"#
                .to_owned(),
            409,
            ErrorCode::AlreadyExists,
            "snapshots[1].name",
            "twice",
        ),
    ]
}

fn of_schedules() -> Vec<Case> {
    let schedule = |volumes: usize, keep: &str, field, says| {
        let volumes = serde_json::to_string(&vec!["demo"; volumes]).unwrap();
        let body = format!(r#"{{"volumes":{volumes},"keep":{keep}}}"#);
        wrong("PUT", "/v1/schedules/s", &body, field, says)
    };
    vec![
        schedule(0, r#"{"hourly":1}"#, "volumes", "1 to 256"),
        schedule(257, r#"{"hourly":1}"#, "volumes", "1 to 256"),
        schedule(1, r#"{"hourly":1001}"#, "keep.hourly", "0 to 1000"),
        schedule(1, r#"{"daily":1001}"#, "keep.daily", "0 to 1000"),
        schedule(1, r#"{"weekly":1001}"#, "keep.weekly", "0 to 1000"),
        schedule(1, r#"{"hourly":0}"#, "keep", "at least one"),
    ]
}

fn of_replications() -> Vec<Case> {
    let replication = |to: &str, seconds: u64, field, says| {
        let body = format!(
            r#"{{"volume":"demo","to":"{to}","token":"fy_","pool":"p","every_seconds":{seconds}}}"#
        );
        wrong("PUT", "/v1/replications/r", &body, field, says)
    };
    let (here, long) = ("http://127.0.0.1:9", format!("http://{}", "a".repeat(506)));
    vec![
        replication(here, 0, "every_seconds", "1 to 604800"),
        replication(here, 604_801, "every_seconds", "1 to 604800"),
        replication(&long, 1, "to", "512 bytes"),
        wrong(
            "PUT",
            "/v1/replications/r",
            r#"{"volume":"demo","to":"http://a","pool":"p","every_seconds":1,"bandwidth":9}"#,
            "bandwidth",
            "1048576 to 9007199254740991",
        ),
        replication("https://node-2", 1, "certificate", "64"),
    ]
}

fn of_the_rest() -> Vec<Case> {
    let settings = |body: &str, field, says| wrong("PATCH", "/v1/settings", body, field, says);
    let graphite = |rest: &str, field, says| {
        let body = format!(r#"{{"graphite":{{"address":"127.0.0.1:9",{rest}}}}}"#);
        settings(&body, field, says)
    };
    let address = format!(
        r#"{{"syslog":{{"address":"{}:9","transport":"udp"}}}}"#,
        "h".repeat(300)
    );
    let host = |nqn: &str| {
        wrong(
            "PUT",
            "/v1/hosts/h",
            &format!(r#"{{"nqn":"{nqn}"}}"#),
            "nqn",
            "223",
        )
    };
    let token = |body: &str, field, says| wrong("PUT", "/v1/tokens/t", body, field, says);
    let pool = |body: &str, field, says| wrong("PUT", "/v1/pools/p", body, field, says);
    let many = serde_json::to_string(&many_drives().collect::<Vec<_>>()).unwrap();
    let many = format!(r#"{{"level":"raid0","drives":{many}}}"#);
    vec![
        settings(
            r#"{"shutdown_timeout_seconds":0}"#,
            "shutdown_timeout_seconds",
            "1",
        ),
        settings(
            r#"{"shutdown_timeout_seconds":3601}"#,
            "shutdown_timeout_seconds",
            "3600",
        ),
        settings(
            r#"{"scrub_interval_days":3651}"#,
            "scrub_interval_days",
            "3650",
        ),
        settings(r#"{"scrub_interval_days":-1}"#, "scrub_interval_days", "-1"),
        settings(&address, "syslog.address", "260"),
        graphite(
            r#""interval_seconds":0"#,
            "graphite.interval_seconds",
            "1 to 3600",
        ),
        graphite(
            r#""interval_seconds":3601"#,
            "graphite.interval_seconds",
            "1 to 3600",
        ),
        graphite(
            &format!(r#""prefix":"{}""#, "p".repeat(129)),
            "graphite.prefix",
            "128",
        ),
        host(&format!("nqn.2014-08.org.example:{}", "h".repeat(200))),
        token(
            r#"{"role":"viewer","expires":"tomorrow"}"#,
            "expires",
            "allowed",
        ),
        token(
            r#"{"role":"viewer","expires":"2001-01-01T00:00:00Z"}"#,
            "expires",
            "later",
        ),
        token(
            r#"{"role":"admin","tenant":"t"}"#,
            "role",
            "viewer, operator",
        ),
        pool(r#"{"level":"raid6","drives":["m0"]}"#, "drives", "4 to 32"),
        pool(r#"{"level":"raid0","drives":[]}"#, "drives", "1 to 32"),
        pool(&many, "drives", "there are 33"),
        pool(
            r#"{"level":"raid0","drives":["m0","m0"]}"#,
            "drives",
            "twice",
        ),
        pool(
            r#"{"level":"raid1","drives":["m0","tiny"]}"#,
            "drives",
            "are needed",
        ),
        pool(
            r#"{"level":"raid0","drives":["tiny"]}"#,
            "drives",
            "are needed",
        ),
        pool(
            r#"{"level":"raid0","drives":["m0"],"width":0}"#,
            "width",
            "allowed",
        ),
        pool(
            r#"{"level":"raid0","drives":["m0"],"width":256}"#,
            "width",
            "256",
        ),
    ]
}

/// One drive more than a pool has.
fn many_drives() -> impl Iterator<Item = String> {
    (0..33).map(|number| format!("many-{number}"))
}

fn all_cases() -> Vec<Case> {
    let [requests, drives, volumes] = [of_requests(), of_drives(), of_volumes()];
    let of_pools = [of_schedules(), of_replications()].concat();
    [requests, drives, volumes, of_pools, of_the_rest()].concat()
}

#[test]
fn every_limit_is_refused_by_name() {
    let node = Node::develop(&["--drives", "4"]);
    let memory = r#"{"kind":"memory","size":"16MiB"}"#;
    assert_eq!(request(&node, "PUT", "/v1/drives/m0", memory).0, 200);
    let tiny = r#"{"kind":"memory","size":4096}"#;
    assert_eq!(request(&node, "PUT", "/v1/drives/tiny", tiny).0, 200);
    for drive in many_drives() {
        let path = format!("/v1/drives/{drive}");
        assert_eq!(request(&node, "PUT", &path, tiny).0, 200);
    }
    all_cases().iter().for_each(|case| check(&node, case));
    assert!(node.client().status().is_ok());
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

#[test]
fn headers_are_bounded_in_number_and_in_bytes() {
    let node = Node::develop(&["--drives", "1"]);
    let many: Vec<String> = (0..80).map(|number| format!("X-{number}: x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = format!("X-Long: {}", "x".repeat(40_000));
    for headers in [many.as_slice(), &[long.as_str()]] {
        let (status, _, body) = exchange(&node, "GET", "/v1/status", headers, "");
        let refused: ErrorBody = serde_json::from_str(&body).unwrap();
        assert_eq!((status, refused.code), (431, ErrorCode::HeadersTooLarge));
        assert_eq!(refused.field.as_deref(), Some("headers"));
        assert!(refused.message.contains("allowed: 64 with 32768"), "{body}");
    }
}

/// A pool keeps 8 KiB about a volume and has room for so many volumes; whichever comes to its end
/// says so, and what is smaller passes.
#[test]
fn what_a_pool_keeps_about_volumes_is_bounded() {
    let node = Node::develop(&["--drives", "4"]);
    let client = node.client();
    let hosts: Vec<Name> = (0..40)
        .map(|number| name(&format!("host-{number}")))
        .collect();
    for host in &hosts {
        let nqn = format!("nqn.2014-08.org.example:{}:{host}", "h".repeat(180));
        client
            .add_host(host, &HostSpec { nqn, tenant: None })
            .unwrap();
    }
    let spec = |count: usize| {
        let hosts = serde_json::to_string(&hosts[..count]).unwrap();
        format!(r#"{{"pool":"pool","size":4096,"hosts":{hosts}}}"#)
    };
    let volume = |number: usize| format!("/v1/volumes/v{number}");
    let case = wrong("PUT", &volume(0), &spec(40), "hosts", "8192");
    check(&node, &case);
    assert_eq!(request(&node, "PUT", &volume(0), &spec(26)).0, 200);
    let mut more = hosts[26..].iter();
    let (status, answer) = more
        .find_map(|host| {
            let path = format!("/v1/volumes/v0/hosts/{host}");
            let (status, answer) = request(&node, "PUT", &path, "");
            (status != 200).then_some((status, answer))
        })
        .unwrap();
    let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, refused.field.as_deref()), (400, Some("hosts")));

    let (status, answer) = (1..1000)
        .find_map(|number| {
            let (status, answer) = request(&node, "PUT", &volume(number), &spec(26));
            (status != 200).then_some((status, answer))
        })
        .unwrap();
    let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (status, refused.code),
        (409, ErrorCode::OutOfSpace),
        "{answer}"
    );
    assert!(
        refused.message.contains("delete volumes or snapshots"),
        "{answer}"
    );
    assert!(refused.message.contains("allowed"), "{answer}");
    assert_eq!(request(&node, "DELETE", &volume(0), "").0, 204);
    assert_eq!(request(&node, "PUT", &volume(0), &spec(26)).0, 200);
}

/// The node has one replication fewer than it may have, by copies of one in its state.
#[test]
fn there_are_so_many_replications_and_no_more() {
    let mut node = Node::develop(&["--drives", "4"]);
    let spec = |volume: &str| {
        let to = "http://127.0.0.1:9";
        let rest = r#""token":"fy_","pool":"p","every_seconds":9"#;
        format!(r#"{{"volume":"{volume}","to":"{to}",{rest}}}"#)
    };
    let replication = |number: usize| format!("/v1/replications/r{number}");
    let create = ["volume", "create", "other", "--pool", "pool", "--size"];
    node.answer(&[&create[..], &["1MiB"]].concat());
    assert_eq!(request(&node, "PUT", &replication(0), &spec("demo")).0, 200);
    assert!(node.terminate().success(), "{}", node.log());
    let state = State::open(node.path()).unwrap();
    let mut record = state
        .load()
        .unwrap()
        .replications
        .remove(&name("r0"))
        .unwrap();
    // Of volumes that are not here.
    record.volume = uuid::Uuid::from_u128(1);
    let names: Vec<Name> = (1..256).map(|number| name(&format!("r{number}"))).collect();
    let copies = names.iter().map(|name| (name, &record));
    state.put_all(Kind::Replication, copies).unwrap();
    drop(state);
    node.start();
    let (status, answer) = request(&node, "PUT", &replication(256), &spec("other"));
    let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
    let found = (status, refused.code, refused.message.as_str());
    let message = "256 replications exist; allowed: 256";
    assert_eq!(found, (409, ErrorCode::OutOfSpace, message));
    // One that goes makes room; a volume has one, and a replication stays with its volume.
    assert_eq!(request(&node, "DELETE", &replication(1), "").0, 204);
    assert_eq!(
        request(&node, "PUT", &replication(256), &spec("demo")).0,
        409
    );
    assert_eq!(
        request(&node, "PUT", &replication(2), &spec("other")).0,
        400
    );
    assert_eq!(
        request(&node, "PUT", &replication(256), &spec("other")).0,
        200
    );
}

/// The node has one schedule fewer than it may have, by copies of one in its state.
#[test]
fn there_are_so_many_schedules_and_no_more() {
    let mut node = Node::develop(&["--drives", "4"]);
    let spec = r#"{"volumes":["demo"],"keep":{"weekly":1}}"#;
    let schedule = |number: usize| format!("/v1/schedules/s{number}");
    assert_eq!(request(&node, "PUT", &schedule(0), spec).0, 200);
    assert!(node.terminate().success(), "{}", node.log());
    let state = State::open(node.path()).unwrap();
    let record = state.load().unwrap().schedules.remove(&name("s0")).unwrap();
    let names: Vec<Name> = (1..999).map(|number| name(&format!("s{number}"))).collect();
    let copies = names.iter().map(|name| (name, &record));
    state.put_all(Kind::Schedule, copies).unwrap();
    drop(state);
    node.start();
    assert_eq!(request(&node, "PUT", &schedule(999), spec).0, 200);
    let (status, answer) = request(&node, "PUT", &schedule(1000), spec);
    let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
    let found = (status, refused.code, refused.message.as_str());
    let message = "1000 schedules exist; allowed: 1000";
    assert_eq!(found, (409, ErrorCode::OutOfSpace, message));
    // One that is there may be changed, and one that goes makes room.
    let other = spec.replace("weekly", "daily");
    assert_eq!(request(&node, "PUT", &schedule(999), &other).0, 200);
    assert_eq!(request(&node, "DELETE", &schedule(0), "").0, 204);
    assert_eq!(request(&node, "PUT", &schedule(1000), spec).0, 200);
}
