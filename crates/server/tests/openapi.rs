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
    let parameters = document["components"]["parameters"].as_object().unwrap();
    assert!(parameters.contains_key("IfMatch") && parameters.contains_key("IfNoneMatch"));
    assert!(paths.len() >= 10, "only {} paths", paths.len());
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let place = format!("{method} {path}");
            assert!(
                responses.keys().any(|status| status.starts_with('2')),
                "{place}"
            );
            for status in ["400", "401", "403", "409", "500"] {
                assert!(responses.contains_key(status), "{place} lacks {status}");
            }
            assert!(operation["operationId"].is_string(), "{place} has no name");
            assert!(operation["tags"][0].is_string(), "{place} has no tag");
        }
    }
}

/// Generators make a type of each schema that has a name, and invent names for others.
#[test]
fn every_schema_has_a_name() {
    let document: serde_json::Value =
        serde_json::from_str(&server::routes::openapi().unwrap()).unwrap();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(!name.contains('_'), "{name} is no name for a type");
        assert!(schema["description"].is_string(), "{name} is not described");
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (property, of) in properties {
            for inner in [of, &of["items"], &of["additionalProperties"]] {
                assert!(
                    inner["properties"].is_null(),
                    "{name}.{property} is anonymous"
                );
            }
        }
        for variant in schema["oneOf"].as_array().into_iter().flatten() {
            assert!(
                variant["properties"].is_null(),
                "a variant of {name} is anonymous"
            );
        }
    }
}
