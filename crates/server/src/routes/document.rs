//! The OpenAPI document: what every operation has alike is said here, once.
//!
//! Routes describe themselves: path, parameters, body, what they answer with. To that come tags,
//! what answers and path parameters are in words, the headers of conditional requests, and each
//! refusal under its status. Schemas all get a name, for generators to make a type of.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

/// Tags: what they are about, and the first words of the paths that they stand for.
const TAGS: [(&str, &str, &[&str]); 10] = [
    (
        "Node",
        "The node itself: how it is, what it does, what happened, its settings.",
        &["status", "metrics", "history", "events", "jobs", "settings"],
    ),
    (
        "Drives",
        "Drives, their namespaces and their health, and what they carry.",
        &["drives", "carried-labels"],
    ),
    (
        "Pools",
        "Drives under one redundancy, out of which volumes are made.",
        &["pools", "importable-pools"],
    ),
    ("Volumes", "What hosts connect to.", &["volumes"]),
    (
        "Snapshots",
        "What volumes of pools were at one instant.",
        &["snapshots", "schedules", "replications"],
    ),
    (
        "Hosts",
        "Who may connect, and what they have to prove.",
        &["hosts"],
    ),
    (
        "Sessions",
        "Who is connected now, and through which addresses.",
        &["sessions", "ports"],
    ),
    (
        "Tenants",
        "Whose volumes and hosts are, and how much of pools they may take.",
        &["tenants"],
    ),
    (
        "Access",
        "Tokens, and the log of what was done with them.",
        &["tokens", "self", "audit"],
    ),
    (
        "Profiles",
        "Models of drives, to study before buying them.",
        &["profiles"],
    ),
];

/// Refusals by their status, with the name that the document has for each.
const REFUSALS: [(u16, &str, &str); 12] = [
    (
        400,
        "BadRequest",
        "The request itself is wrong: `field` names where, `message` what was found and what is \
         allowed.",
    ),
    (
        401,
        "Unauthenticated",
        "The request carries no token, or one that is unknown or has expired.",
    ),
    (403, "Forbidden", "The token is not good for this."),
    (
        404,
        "NotFound",
        "Nothing has that name, as far as the token may know.",
    ),
    (
        408,
        "RequestTimeout",
        "The body did not arrive whole in time.",
    ),
    (
        409,
        "Conflict",
        "The request is right and its objects are not as it needs them: one exists and is \
         different, is in use or is not ready, or there is no room. `code` says which.",
    ),
    (
        412,
        "PreconditionFailed",
        "The object is not what `If-Match` names, or is what `If-None-Match` names.",
    ),
    (413, "BodyTooLarge", "The body has more than 1 MiB."),
    (
        414,
        "UriTooLong",
        "The path and the query have more than 8 KiB.",
    ),
    (
        429,
        "TooManyRequests",
        "Too many wrong tokens came from this address.",
    ),
    (
        431,
        "HeadersTooLarge",
        "There are more than 64 headers, or they have more than 32 KiB.",
    ),
    (
        500,
        "InternalError",
        "The node failed: a fault of its own, and the only one of these that is.",
    ),
];

/// The document of routes that described themselves, with what they have alike.
pub fn completed(document: &OpenApi) -> Value {
    // It is maps and texts, which serialize; a test compares it with the one that is checked in.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    name_lists(&mut document);
    name_variants(&mut document["components"]["schemas"]);
    lift_descriptions(&mut document["components"]["schemas"]);
    let mut paths = document["paths"].take();
    for (path, methods) in entries(&mut paths) {
        for (method, operation) in entries(methods) {
            complete(operation, method, path, &document["components"]["schemas"]);
        }
    }
    document["paths"] = paths;
    document["components"]["responses"] = refusals();
    document["components"]["parameters"] = conditions();
    document["tags"] = tags();
    document
}

fn entries(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// Lists name what they are of, and refer to it.
fn name_lists(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else {
        return;
    };
    let lists = schemas.keys().filter_map(|name| name.strip_prefix("List_"));
    let items: Vec<String> = lists.map(str::to_owned).collect();
    for item in items {
        if let Some(mut list) = schemas.remove(&format!("List_{item}")) {
            list["properties"]["items"]["items"] = reference("schemas", &item);
            schemas.insert(format!("{item}List"), list);
        }
    }
    rename_references(document);
}

fn rename_references(value: &mut Value) {
    match value {
        Value::Object(properties) => {
            for (name, value) in properties {
                match value {
                    Value::String(target) if name == "$ref" => {
                        if let Some((place, item)) = target.split_once("List_") {
                            *target = format!("{place}{item}List");
                        }
                    }
                    other => rename_references(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rename_references),
        _ => {}
    }
}

/// Variants that have a title become schemas of that name, told apart by their `kind`.
fn name_variants(schemas: &mut Value) {
    let mut named = Vec::new();
    for (_, schema) in entries(schemas) {
        let variants = schema.pointer_mut("/oneOf").and_then(Value::as_array_mut);
        let mut mapping = serde_json::Map::new();
        for variant in variants.into_iter().flatten() {
            let text = |pointer| Some(variant.pointer(pointer)?.as_str()?.to_owned());
            if let (Some(title), Some(kind)) = (text("/title"), text("/properties/kind/enum/0")) {
                let refers = reference("schemas", &title);
                mapping.insert(kind, refers["$ref"].clone());
                named.push((title, std::mem::replace(variant, refers)));
            }
        }
        if !mapping.is_empty() {
            schema["discriminator"] = json!({ "propertyName": "kind", "mapping": mapping });
        }
    }
    for (title, variant) in named {
        schemas[title] = variant;
    }
}

/// A property that may be absent is described itself, not the schema that it refers to.
fn lift_descriptions(schemas: &mut Value) {
    for (_, schema) in entries(schemas) {
        let properties = schema.pointer_mut("/properties");
        for (_, property) in properties.into_iter().flat_map(entries) {
            let inner = property
                .pointer_mut("/oneOf/0")
                .and_then(Value::as_object_mut);
            let described = inner.and_then(|inner| inner.remove("description"));
            if let Some(description) = described {
                property["description"] = description;
            }
        }
    }
}

fn complete(operation: &mut Value, method: &str, path: &str, schemas: &Value) {
    let noun = noun(path);
    operation["tags"] = json!([tag(path, noun)]);
    if let Some(summary) = operation["summary"].as_str() {
        operation["summary"] = summary.replace('\n', " ").into();
    }
    let mut parameters = operation["parameters"].take();
    let mut parameters = parameters
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    for parameter in &mut parameters {
        if parameter["in"] == "path" && parameter["description"].is_null() {
            parameter["description"] = of_path(&parameter["name"], noun).into();
        }
    }
    let reads = method == "get";
    let tagged = !reads || path.starts_with("/v1/");
    if !reads {
        parameters.push(reference("parameters", "IfMatch"));
    }
    if tagged {
        parameters.push(reference("parameters", "IfNoneMatch"));
    }
    let has_parameters = !parameters.is_empty();
    if has_parameters {
        operation["parameters"] = parameters.into();
    } else if let Some(operation) = operation.as_object_mut() {
        operation.remove("parameters");
    }
    let names_something = path.contains('{') || method == "post";
    let summary = operation["summary"].as_str().unwrap_or_default().to_owned();
    describe_answers(
        &mut operation["responses"],
        reads && tagged,
        &summary,
        schemas,
    );
    let Some(responses) = operation["responses"].as_object_mut() else {
        return;
    };
    responses.remove("default");
    if reads && tagged {
        let description = "It is still what `If-None-Match` names.";
        responses.insert("304".to_owned(), json!({ "description": description }));
    }
    for (status, name, _) in REFUSALS {
        let applies = match status {
            404 => names_something,
            412 => !reads,
            _ => true,
        };
        if applies {
            responses.insert(status.to_string(), reference("responses", name));
        }
    }
}

/// The word in a path that its object is called by.
fn noun(path: &str) -> &str {
    let mut words = path.trim_start_matches("/v1").split('/').skip(1);
    let noun = words.next().unwrap_or_default();
    match (noun, words.nth(1)) {
        ("pools", Some("snapshots")) => "snapshots",
        _ => noun,
    }
}

fn tag(path: &str, noun: &str) -> &'static str {
    let found = TAGS.iter().find(|(_, _, nouns)| nouns.contains(&noun));
    debug_assert!(found.is_some(), "{path} has no tag");
    found.map_or("Node", |(name, ..)| name)
}

/// What a parameter of a path is: `{name}` is the object's that the path is about.
fn of_path(parameter: &Value, noun: &str) -> String {
    match parameter.as_str().unwrap_or_default() {
        "name" => format!("Name of the {}", noun.trim_end_matches('s')),
        "id" => format!("Number of the {}", noun.trim_end_matches('s')),
        "nsid" => "Identifier of the namespace (NSID)".to_owned(),
        other => format!("Name of the {other}"),
    }
}

fn describe_answers(responses: &mut Value, tagged: bool, summary: &str, schemas: &Value) {
    for (_, response) in entries(responses) {
        let schema = response["content"]["application/json"]["schema"]["$ref"].as_str();
        let name = schema.and_then(|place| place.rsplit_once('/'));
        let described = name.and_then(|(_, name)| schemas[name]["description"].as_str());
        let described = described.and_then(|text| text.split(['.', ';']).next());
        response["description"] = match (described, response["content"].is_null()) {
            (Some(text), _) => format!("{}.", text.replace('\n', " ")).into(),
            (None, true) => "It is done; there is nothing left to show.".into(),
            (None, false) => format!("{summary}.").into(),
        };
        if response["content"].is_null()
            && let Some(response) = response.as_object_mut()
        {
            response.remove("content");
        } else if tagged {
            response["headers"]["ETag"] = json!({
                "description": "Names what the object is now, for conditional requests.",
                "schema": { "type": "string" },
            });
        }
    }
}

fn refusals() -> Value {
    let mut refusals = json!({});
    for (status, name, description) in REFUSALS {
        let schema = reference("schemas", "ErrorBody");
        refusals[name] = json!({
            "description": description,
            "content": { "application/json": { "schema": schema } },
        });
        let header = match status {
            401 => ("WWW-Authenticate", "`Bearer`.", "string"),
            429 => (
                "Retry-After",
                "Seconds until one more is answered.",
                "integer",
            ),
            _ => continue,
        };
        let (header, description, kind) = header;
        refusals[name]["headers"][header] =
            json!({ "description": description, "schema": { "type": kind } });
    }
    refusals
}

/// Headers of conditional requests.
fn conditions() -> Value {
    let header = |name: &str, description: &str| {
        json!({
            "name": name,
            "in": "header",
            "required": false,
            "description": description,
            "schema": { "type": "string" },
        })
    };
    json!({
        "IfMatch": header(
            "If-Match",
            "Make the change only if the object has this `ETag`; what changes by itself does not \
             count. `*`: only if it is there.",
        ),
        "IfNoneMatch": header(
            "If-None-Match",
            "On a read: answer 304 while the answer has this `ETag`. On a change: make it only if \
             the object has none of these; `*`: only if it is not there.",
        ),
    })
}

fn tags() -> Value {
    let tags = TAGS.iter();
    tags.map(|(name, description, _)| json!({ "name": name, "description": description }))
        .collect()
}

/// The query parameters of every operation, by method and path.
pub fn queries(document: &Value) -> Vec<(String, String, Vec<String>)> {
    let mut queries = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let names = parameters
                .filter(|parameter| parameter["in"] == "query")
                .filter_map(|parameter| parameter["name"].as_str())
                .map(str::to_owned);
            queries.push((method.to_uppercase(), path.clone(), names.collect()));
        }
    }
    queries
}

#[cfg(test)]
mod tests {
    use api::ErrorCode;

    use super::*;

    #[test]
    fn every_status_of_a_refusal_is_described_and_no_other() {
        let mut described: Vec<u16> = REFUSALS.iter().map(|(status, ..)| *status).collect();
        // The path exists that the document has, and so does the method.
        described.push(ErrorCode::MethodNotAllowed.http_status());
        described.sort_unstable();
        let mut answered: Vec<u16> = ErrorCode::ALL.map(ErrorCode::http_status).to_vec();
        answered.sort_unstable();
        answered.dedup();
        assert_eq!(described, answered);
    }
}
