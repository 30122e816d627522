//! Who may do what: every request without permission is refused, and changes are on record.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use api::{ErrorCode, HostKeyRequest, HostSpec, Name, Role, SecretText, TokenSpec};
use client::{Client, ClientError, Login};
use support::{Node, flashyard, name, text};

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

fn with_token(node: &Node, token: Option<&SecretText>) -> Client {
    Client::with(&Login {
        url: node.endpoints().api.clone(),
        token: token.cloned(),
        certificate: None,
    })
    .unwrap()
}

/// A client with a new token.
fn client_of(node: &Node, token: &str, role: Role, tenant: Option<&str>) -> Client {
    let spec = TokenSpec {
        role,
        tenant: tenant.map(name),
        expires: None,
    };
    let made = node.client().create_token(&name(token), &spec).unwrap();
    with_token(node, made.secret.as_ref())
}

fn code<T>(answer: Result<T, ClientError>) -> Option<ErrorCode> {
    match answer {
        Ok(_) => None,
        Err(ClientError::Refused(body)) => Some(body.code),
        Err(other) => panic!("{other}"),
    }
}

/// Status line and the rest of the answer to what is sent as it is.
fn raw(node: &Node, request: &str) -> String {
    let address = node.endpoints().api.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn nothing_is_told_or_done_without_a_good_token() {
    let node = Node::develop(&["--drives", "1"]);
    for token in [None, Some(""), Some("fy_0"), Some("fy_\u{e9}")] {
        let Some(token) = token else {
            assert_eq!(
                code(with_token(&node, None).status()),
                Some(ErrorCode::Unauthenticated)
            );
            continue;
        };
        let head =
            format!("GET /v1/status HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer {token}\r\n");
        let answer = raw(&node, &format!("{head}Connection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 401"), "{token:?}: {answer}");
        assert!(
            answer.to_lowercase().contains("www-authenticate: bearer"),
            "{answer}"
        );
    }
    let stranger = with_token(&node, Some(&"fy_0".into()));
    assert_eq!(
        code(stranger.delete_volume(&name("demo"), false)),
        Some(ErrorCode::Unauthenticated)
    );
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
    let told = flashyard(&["--node", &node.endpoints().api, "status"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(text(&told.stderr).contains("flashyard login"), "{told:?}");
}

#[test]
fn guessing_is_slowed_down_and_good_tokens_still_work() {
    let node = Node::develop(&["--drives", "1"]);
    let stranger = with_token(&node, Some(&"fy_0".into()));
    let began = Instant::now();
    let answers: Vec<_> = (0..14).map(|_| code(stranger.status())).collect();
    assert_eq!(answers[0], Some(ErrorCode::Unauthenticated));
    let (_, late) = answers.split_at(11);
    assert_eq!(late, [Some(ErrorCode::TooManyRequests); 3]);
    // Each of them came a second after the question.
    assert!(began.elapsed() >= Duration::from_secs(3));
    assert_eq!(code(node.client().status()), None);
    let events = node.client().events(0).unwrap().items;
    let told = events.iter().filter(|event| event.object == "api").count();
    assert_eq!(told, 1, "{events:?}");
}

#[test]
fn a_role_is_what_it_is_good_for() {
    let node = Node::develop(&["--drives", "2"]);
    let viewer = client_of(&node, "v", Role::Viewer, None);
    let operator = client_of(&node, "o", Role::Operator, None);
    let forbidden = Some(ErrorCode::Forbidden);
    let host = HostSpec {
        nqn: NQN.into(),
        tenant: None,
    };
    assert_eq!(code(viewer.volumes()), None);
    assert_eq!(code(viewer.add_host(&name("h"), &host)), forbidden);
    assert_eq!(code(viewer.delete_volume(&name("demo"), false)), forbidden);
    assert_eq!(code(operator.add_host(&name("h"), &host)), None);
    assert_eq!(code(operator.remove_drive(&name("d1"))), forbidden);
    assert_eq!(code(operator.tokens()), forbidden);
    assert_eq!(code(operator.audit(0)), forbidden);
    assert_eq!(code(operator.revoke_token(&name("admin"))), forbidden);
    let caller = operator.myself().unwrap();
    assert_eq!((caller.name, caller.role), (name("o"), Role::Operator));
}

fn names<'a>(objects: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    objects.into_iter().map(ToString::to_string).collect()
}

#[test]
fn a_tenant_sees_its_own_and_nothing_else() {
    let node = Node::develop(&["--drives", "3"]);
    node.answer(&["host", "add", "ours", "--nqn", NQN, "--tenant", "acme"]);
    let other = NQN.replace("5c1a9b1e", "6c1a9b1e");
    node.answer(&[
        "host", "add", "theirs", "--nqn", &other, "--tenant", "rival",
    ]);
    for (volume, drive, tenant) in [("a", "d1", "acme"), ("r", "d2", "rival")] {
        node.answer(&[
            "volume", "create", volume, "--drive", drive, "--tenant", tenant,
        ]);
    }
    let acme = client_of(&node, "acme", Role::Operator, Some("acme"));
    let missing = Some(ErrorCode::NotFound);
    let forbidden = Some(ErrorCode::Forbidden);

    let volumes = acme.volumes().unwrap().items;
    assert_eq!(names(volumes.iter().map(|volume| &volume.name)), ["a"]);
    let hosts = acme.hosts().unwrap().items;
    assert_eq!(names(hosts.iter().map(|host| &host.name)), ["ours"]);
    let status = acme.status().unwrap();
    assert_eq!((status.volumes.total, status.drives.total), (1, 0));

    assert_eq!(code(acme.volume(&name("a"))), None);
    for volume in [name("r"), name("demo")] {
        assert_eq!(code(acme.volume(&volume)), missing);
        assert_eq!(code(acme.delete_volume(&volume, false)), missing);
        assert_eq!(code(acme.allow_host(&volume, &name("ours"))), missing);
    }
    assert_eq!(code(acme.host(&name("theirs"))), missing);
    assert_eq!(code(acme.allow_host(&name("a"), &name("theirs"))), missing);
    assert_eq!(code(acme.allow_host(&name("a"), &name("ours"))), None);
    assert_eq!(code(acme.drives()), forbidden);
    assert_eq!(code(acme.events(0)), forbidden);
    assert_eq!(code(acme.settings()), forbidden);

    // It has the hosts that it was given, and says what these have to prove.
    let claimed = HostSpec {
        nqn: NQN.replace("5c1a9b1e", "7c1a9b1e"),
        tenant: None,
    };
    assert_eq!(code(acme.add_host(&name("h"), &claimed)), forbidden);
    assert_eq!(code(acme.remove_host(&name("ours"))), forbidden);
    let request = HostKeyRequest::default();
    assert_eq!(code(acme.generate_host_key(&name("ours"), &request)), None);
    let refused = acme.generate_host_key(&name("theirs"), &request);
    assert_eq!(code(refused), missing);
    assert_eq!(code(acme.delete_volume(&name("a"), false)), None);
    assert_eq!(node.client().volumes().unwrap().items.len(), 2);
}

#[test]
fn a_name_in_another_spelling_is_no_way_around() {
    let node = Node::develop(&["--drives", "1"]);
    let spec = TokenSpec {
        role: Role::Operator,
        tenant: Some(name("acme")),
        expires: None,
    };
    let token = node.client().create_token(&name("t"), &spec).unwrap();
    let token = token.secret.unwrap();
    let token = token.reveal();
    for path in [
        "/v1/volumes/%64emo",
        "/v1/hosts/../volumes/demo",
        "/v1/volumes/x/../demo",
        "/v1//volumes/demo",
        "/v1/volumes/demo/",
        "//v1/volumes/demo",
        "/V1/volumes/demo",
    ] {
        for method in ["GET", "DELETE"] {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n");
            let answer = raw(
                &node,
                &format!("{head}Authorization: Bearer {token}\r\n\r\n"),
            );
            assert!(
                answer.starts_with("HTTP/1.1 40"),
                "{method} {path}: {answer}"
            );
            assert!(!answer.contains("\"nqn\""), "{method} {path}: {answer}");
        }
    }
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
}

#[test]
fn headers_cannot_be_injected() {
    let node = Node::develop(&["--drives", "1"]);
    let token = node.admin_token();
    let head = format!("GET /v1/status HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer {token}\r\n");
    for id in [
        "a\rSet-Cookie: x=1",
        "a\nSet-Cookie: x=1",
        "a%0d%0aSet-Cookie: x=1",
    ] {
        let answer = raw(
            &node,
            &format!("{head}X-Request-Id: {id}\r\nConnection: close\r\n\r\n"),
        );
        let answer = answer.to_lowercase();
        assert!(
            !answer.contains("\nset-cookie") && !answer.contains("\rset-cookie"),
            "{answer}"
        );
    }
    let both = "Content-Length: 1\r\nTransfer-Encoding: chunked\r\nContent-Length: 9";
    let answer = raw(&node, &format!("{head}{both}\r\n\r\n"));
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
}

#[test]
fn a_token_ends_when_it_is_revoked_or_expires_and_survives_a_crash_until_then() {
    let mut node = Node::develop(&["--drives", "1"]);
    let made = node.answer(&[
        "token", "create", "ci", "--role", "viewer", "--output", "json",
    ]);
    let made: api::Token = serde_json::from_str(&made).unwrap();
    let secret = made.secret.unwrap();
    let again = node.answer(&[
        "token", "create", "ci", "--role", "viewer", "--output", "json",
    ]);
    assert!(!again.contains("secret"), "{again}");
    let state = std::fs::read(node.path().join("state.redb")).unwrap();
    assert!(
        !state
            .windows(secret.reveal().len())
            .any(|part| part == secret.reveal().as_bytes())
    );
    node.kill();
    node.start();
    assert_eq!(code(with_token(&node, Some(&secret)).status()), None);
    node.answer(&["token", "revoke", "ci"]);
    assert_eq!(
        code(with_token(&node, Some(&secret)).status()),
        Some(ErrorCode::Unauthenticated)
    );
    let last = node.ask(&["token", "revoke", "admin"]);
    assert!(text(&last.stderr).contains("last one"), "{last:?}");
    let listed = node.answer(&["token", "list"]);
    assert!(
        listed.contains("admin") && !listed.contains("ci "),
        "{listed}"
    );
}

#[test]
fn changes_are_on_record_with_who_made_them() {
    let mut node = Node::develop(&["--drives", "1"]);
    let viewer = client_of(&node, "reader", Role::Viewer, None);
    let _ = viewer.delete_volume(&name("demo"), false);
    node.answer(&["volume", "deny", "demo", "any"]);
    node.kill();
    node.start();
    let log = node.client().audit(0).unwrap().items;
    let told: Vec<_> = log
        .iter()
        .map(|entry| {
            (
                entry.id,
                entry.token.as_str(),
                entry.path.as_str(),
                entry.status,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (1, "admin", "/v1/tokens/reader", 200),
            (2, "reader", "/v1/volumes/demo", 403),
            (3, "admin", "/v1/volumes/demo/hosts/any", 200),
        ]
    );
    assert_eq!(log[1].code, Some(ErrorCode::Forbidden));
    assert!(
        log.iter()
            .all(|entry| !entry.request.is_empty() && entry.from.starts_with("127.0.0.1"))
    );
    let shown = node.answer(&["audit", "list", "--after", "1"]);
    assert!(
        shown.contains("refused, 403") && !shown.contains("/v1/tokens"),
        "{shown}"
    );
}

#[test]
fn the_first_token_and_the_certificate_are_their_owners_alone() {
    let node = Node::configured_secure("");
    for file in ["admin.token", "certificate-key.pem"] {
        let mode = node
            .path()
            .join(file)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

fn log_in(node: &Node, home: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .env_remove("FLASHYARD_NODE")
        .env("XDG_CONFIG_HOME", home)
        .args(["login", &node.endpoints().api])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_login_pins_the_certificate_and_serves_the_commands_that_follow() {
    let node = Node::configured_secure("");
    let home = tempfile::tempdir().unwrap();
    let token_file = node.path().join("admin.token");
    let token_file = token_file.to_str().unwrap();
    assert!(node.endpoints().api.starts_with("https://"));

    let unsure = log_in(&node, home.path(), &["--token-file", token_file]);
    assert_eq!(unsure.status.code(), Some(2), "{unsure:?}");
    let fingerprint = node.endpoints().certificate.clone().unwrap();
    assert!(text(&unsure.stderr).contains(&fingerprint), "{unsure:?}");

    let wrong = "0".repeat(64);
    let wrong = ["--token-file", token_file, "--fingerprint", &wrong];
    assert_eq!(log_in(&node, home.path(), &wrong).status.code(), Some(3));

    let right = ["--token-file", token_file, "--fingerprint", &fingerprint];
    let done = log_in(&node, home.path(), &right);
    assert!(done.status.success(), "{done:?}");
    let status = Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .env_remove("FLASHYARD_NODE")
        .env("XDG_CONFIG_HOME", home.path())
        .arg("status")
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    assert_eq!(code(node.client().volumes()), None);

    let clear = node.endpoints().api.replace("https", "http");
    let clear = flashyard(&["--node", &clear, "status"]);
    assert_eq!(clear.status.code(), Some(3), "{clear:?}");
}

#[test]
fn a_development_node_needs_no_login() {
    let node = Node::develop(&["--drives", "1"]);
    let status = Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .env("XDG_CONFIG_HOME", node.path())
        .env_remove("FLASHYARD_TOKEN_FILE")
        .args(["--node", &node.endpoints().api, "status"])
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
}

/// Whatever a token has refused, what was changed stays on record; of a burst the first refusals
/// are kept whole.
#[test]
fn refused_changes_do_not_push_made_ones_out_of_the_audit_log() {
    let node = Node::develop(&["--drives", "1"]);
    let made = node.client().audit(0).unwrap().items.len();
    let viewer = client_of(&node, "v", Role::Viewer, None);
    let before = std::fs::metadata(node.path().join("state.redb"))
        .unwrap()
        .len();
    for number in 0..500 {
        let refused = viewer.delete_volume(&name(&format!("x{number}")), false);
        assert_eq!(code(refused), Some(ErrorCode::Forbidden));
    }
    let after = std::fs::metadata(node.path().join("state.redb"))
        .unwrap()
        .len();
    assert!(after < before + (1 << 20), "{before} bytes became {after}");
    let entries = node.client().audit(0).unwrap().items;
    let refused = entries.iter().filter(|entry| entry.is_refused()).count();
    assert_eq!(refused, 20);
    assert_eq!(entries.len(), made + 1 + refused);
    let secret = node.client().create_token(
        &name("w"),
        &TokenSpec {
            role: Role::Viewer,
            tenant: None,
            expires: None,
        },
    );
    let token = secret.unwrap().secret.unwrap();
    let token = token.reveal();
    let long = "a".repeat(8000);
    let head = format!("DELETE /v1/volumes/{long} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n");
    let answer = raw(
        &node,
        &format!("{head}Authorization: Bearer {token}\r\n\r\n"),
    );
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let entries = node.client().audit(0).unwrap().items;
    assert!(entries.last().unwrap().path.len() < 300);
}

/// All users of a machine share one address: connections that show no token make room.
#[test]
fn idle_connections_do_not_hold_the_api_shut() {
    let node = Node::develop(&["--drives", "1"]);
    let address = node.endpoints().api.strip_prefix("http://").unwrap();
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(address).unwrap());
    }
    assert!(node.client().status().is_ok());
    // One that asks for what needs no token, again and again, has an end as well.
    let mut kept = TcpStream::connect(address).unwrap();
    let ask = "GET /openapi.json HTTP/1.1\r\nHost: n\r\nConnection: keep-alive\r\n\r\n";
    let (mut answers, mut bytes) = (0, [0; 64 << 10]);
    while kept.write_all(ask.as_bytes()).is_ok() && answers < 60 {
        std::thread::sleep(Duration::from_millis(500));
        match kept.read(&mut bytes) {
            Ok(1..) => answers += 1,
            _ => break,
        }
    }
    assert!(answers < 60, "it was served for half a minute");
    drop(idle);
}
