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

#[cfg(feature = "long")]
mod go_client {
    use super::support::{self, Node, text};
    use std::path::Path;
    use std::process::Command;

    /// Runs Go in a module, with nothing but the modules that `.ci/install --go-client` brought.
    fn go(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("go")
            .args(arguments)
            .env("GOTOOLCHAIN", "local")
            .env("GOPROXY", "off")
            .env("GOFLAGS", "-mod=readonly")
            .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"))
            .current_dir(directory)
            .output()
            .unwrap();
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        let why = ".ci/install --go-client brings the modules";
        assert!(
            output.status.success(),
            "go {arguments:?} ({why}): {errors}"
        );
        said
    }

    /// The example on the page about clients, over a client that is generated as documented.
    /// Go builds its own library for that.
    #[test]
    fn documented_go_client_works() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let node = Node::secure_with_data();
        let directory = tempfile::tempdir().unwrap();
        let module = directory.path().join("go");
        let source = root.join("clients/go");
        let [source, copy] = [&source, &module].map(|path| path.to_str().unwrap());
        support::tool("cp", &["--recursive", "--dereference", source, copy]);
        // One that somebody generated there may be old.
        let _ = std::fs::remove_file(module.join("client.gen.go"));
        go(&module, &["generate", "./..."]);
        go(&module, &["vet", "."]);

        let page = std::fs::read_to_string(root.join("docs/clients.md")).unwrap();
        let example = page.split("```go\n").nth(1).unwrap();
        let example = example.split("```").next().unwrap();
        let example = node.in_place_of_documented(example);
        std::fs::create_dir(module.join("example")).unwrap();
        std::fs::write(module.join("example/main.go"), example).unwrap();
        let said = go(&module, &["run", "./example"]);
        assert_eq!(
            said,
            "data has 64 MiB and is online\nno volume is named archive\n"
        );
    }
}
