//! The description of the REST API is valid, and clients that generators make of it work: they list
//! volumes, make and delete one, and read refusals as what they are, on a real node.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Node, text};

fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = target.join("openapi/bin");
    assert!(
        tools.join("openapi-spec-validator").exists(),
        "{} lacks the tools: .ci/install --openapi",
        tools.display()
    );
    tools
}

/// Runs one of the tools, which must succeed; what it prints.
fn run(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let tools = tools();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let output = Command::new(tools.join(program))
        .args(arguments)
        .env("PATH", path)
        .env("PYTHONPATH", directory)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(directory)
        .output()
        .unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    said
}

/// The document as the node serves it, in a directory of its own.
fn served(node: &Node) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (status, document) = support::http::request(node, "GET", "/openapi.json", "");
    assert_eq!(status, 200);
    std::fs::write(directory.path().join("openapi.json"), document).unwrap();
    directory
}

/// Runs a script with a client that is in `directory`.
fn script(node: &Node, directory: &Path, name: &str) {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let script = scripts.join(name);
    let (url, token) = (node.endpoints().api.clone(), node.admin_token());
    let said = run(
        directory,
        "python",
        &[script.to_str().unwrap(), &url, &token],
    );
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn the_document_is_valid_and_openapi_python_client_makes_a_client_of_it() {
    let node = Node::develop(&["--drives", "4"]);
    let directory = served(&node);
    let path = directory.path();
    let said = run(path, "openapi-spec-validator", &["openapi.json"]);
    assert!(said.contains("openapi.json: OK"), "{said}");
    let generate = [
        "generate",
        "--path",
        "openapi.json",
        "--meta",
        "none",
        "--fail-on-warning",
    ];
    run(path, "openapi-python-client", &generate);
    script(&node, path, "with_openapi_python_client.py");
}

#[test]
fn openapi_generator_makes_a_client_of_it() {
    let node = Node::develop(&["--drives", "4"]);
    let directory = served(&node);
    let path = directory.path();
    let generate = [
        "generate",
        "--generator-name",
        "python",
        "--input-spec",
        "openapi.json",
        "--output",
        ".",
        "--additional-properties",
        "packageName=flashyard_client",
    ];
    run(path, "openapi-generator-cli", &generate);
    script(&node, path, "with_openapi_generator.py");
}

/// Asks over HTTPS whatever the certificate is, and prints what browsers are told about HTTPS.
const ASK: &str = "
import ssl, sys, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
answer = urllib.request.urlopen(sys.argv[1] + '/openapi.json', context=context)
print(answer.headers['Strict-Transport-Security'])
";

#[test]
fn every_answer_over_https_keeps_browsers_there() {
    let secure = Node::configured_secure("");
    let said = run(
        secure.path(),
        "python",
        &["-c", ASK, &secure.endpoints().api],
    );
    assert_eq!(said, "max-age=31536000\n");
    let plain = Node::configured("");
    let said = run(plain.path(), "python", &["-c", ASK, &plain.endpoints().api]);
    assert_eq!(said, "None\n");
}
