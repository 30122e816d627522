//! The checked-in OpenAPI document is the one the server gives.

#[test]
fn the_checked_in_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let current = server::routes::openapi().unwrap();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        checked_in == current,
        "docs/openapi.json differs from the routes: run \
         `UPDATE_OPENAPI=1 cargo test -p server --test openapi` and read the difference"
    );
}

#[test]
fn every_answer_and_every_refusal_is_described() {
    let document: serde_json::Value =
        serde_json::from_str(&server::routes::openapi().unwrap()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 10, "only {} paths", paths.len());
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let place = format!("{method} {path}");
            assert!(
                responses.keys().any(|status| status.starts_with('2')),
                "{place}"
            );
            assert!(
                responses.contains_key("default"),
                "{place} describes no refusal"
            );
            assert!(operation["operationId"].is_string(), "{place} has no name");
        }
    }
}
