//! The limits that the manual's table names, and the bounds of `docs/openapi.json`, compared with
//! what is tested.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Case, all_cases};

const MANUAL: &str = include_str!("../../../../docs/operating.md");
const HERE: &str = include_str!("../bounds.rs");
const HTTP: &str = include_str!("../http.rs");
const REFUSALS: &str = include_str!("../refusals.rs");
const SCHEDULES: &str = include_str!("../schedules.rs");
const SUBSYSTEMS: &str = include_str!("../../../server/src/control/volumes/subsystems.rs");
const TENANTS: &str = include_str!("../tenants.rs");

/// What tests a limit.
enum By {
    /// The request of the tables whose refusal has this field, and this in its message.
    Case(&'static str, &'static str),
    /// A test of this name, in a file of this text.
    Test(&'static str, &'static str),
}
use By::{Case as OfTable, Test};

/// Every row of the manual's table, and what tests each limit in it.
const ROWS: &[(&str, &[By])] = &[
    ("a name", &[OfTable("name", "1 to 63")]),
    (
        "path and query",
        &[OfTable("path", "8192"), OfTable("query", "8192")],
    ),
    (
        "headers",
        &[Test(HERE, "headers_are_bounded_in_number_and_in_bytes")],
    ),
    (
        "a body",
        &[
            OfTable("body", "1048576"),
            Test(HTTP, "slow_clients_are_cut_off_and_others_served"),
        ],
    ),
    ("objects in a page", &[OfTable("limit", "1 to 1000")]),
    ("a drive's path", &[OfTable("path", "4095")]),
    (
        "a drive in memory, a `null` drive",
        &[OfTable("size", "4 PiB")],
    ),
    (
        "a volume of a pool",
        &[
            OfTable("size", "4 PiB"),
            Test(REFUSALS, "sizes_are_rounded_up_to_whole_blocks"),
        ],
    ),
    (
        "space of a pool, and what a tenant was granted",
        &[
            OfTable("size", "is free"),
            Test(TENANTS, "a_tenant_makes_what_it_was_granted_and_no_more"),
        ],
    ),
    (
        "hosts of a volume of a pool",
        &[Test(HERE, "what_a_pool_keeps_about_volumes_is_bounded")],
    ),
    (
        "volumes and snapshots of a pool",
        &[Test(HERE, "what_a_pool_keeps_about_volumes_is_bounded")],
    ),
    (
        "volumes of a subsystem",
        &[Test(
            SUBSYSTEMS,
            "a_subsystem_has_so_many_volumes_and_no_more",
        )],
    ),
    ("members of a pool", &[OfTable("drives", "there are 33")]),
    (
        "schedules; volumes of one; snapshots of a period",
        &[
            Test(HERE, "there_are_so_many_schedules_and_no_more"),
            OfTable("volumes", "1 to 256"),
            OfTable("keep.hourly", "0 to 1000"),
        ],
    ),
    (
        "replications; an address of a node; seconds between copies",
        &[
            Test(HERE, "there_are_so_many_replications_and_no_more"),
            OfTable("to", "512 bytes"),
            OfTable("every_seconds", "1 to 604800"),
        ],
    ),
    (
        "the name of a volume with a schedule",
        &[Test(SCHEDULES, "what_no_schedule_can_be_is_refused")],
    ),
];

fn has(cases: &[Case], field: &str, says: &str) -> bool {
    let is = |case: &Case| case.5 == field && case.6 == says;
    cases.iter().any(is)
}

#[test]
fn every_limit_of_the_manual_is_tested() {
    let table = MANUAL
        .split("end in a 4xx that names them.")
        .nth(1)
        .unwrap();
    let rows = table.lines().map(str::trim);
    let rows = rows.skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let rows: Vec<&str> = rows
        .map(|line| line.split('|').nth(1).unwrap().trim())
        .collect();
    let here: Vec<&str> = ROWS.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, here);
    let cases = all_cases();
    for (row, by) in ROWS {
        for by in *by {
            match by {
                OfTable(field, says) => {
                    assert!(
                        has(&cases, field, says),
                        "{row}: no case of {field}, {says}"
                    );
                }
                Test(file, test) => {
                    let test = format!("#[test]\nfn {test}()");
                    let flat = file.replace("    ", "");
                    assert!(flat.contains(&test), "{row}: no {test}");
                }
            }
        }
    }
}

/// The part of the document that a reference names.
fn at<'a>(document: &'a Value, reference: &str) -> &'a Value {
    let path = reference.trim_start_matches('#');
    document.pointer(path).unwrap()
}

/// Fields with a bound in a schema, and in those that it refers to.
fn bounded(document: &Value, schema: &Value, named: &str, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            let bound = |key: &str| parts.get(key).is_some_and(Value::is_number);
            // That no number is negative is the type's, and no bound that somebody chose.
            if bound("maximum") || parts.get("minimum").is_some_and(|least| *least != 0) {
                found.insert(named.to_owned());
            }
            for (key, part) in parts {
                match (key.as_str(), part) {
                    ("$ref", Value::String(to)) => {
                        bounded(document, at(document, to), named, found);
                    }
                    ("properties", Value::Object(properties)) => {
                        for (property, schema) in properties {
                            bounded(document, schema, property, found);
                        }
                    }
                    _ => bounded(document, part, named, found),
                }
            }
        }
        Value::Array(parts) => {
            for part in parts {
                bounded(document, part, named, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_bound_of_the_document_is_tested() {
    let document = include_str!("../../../../docs/openapi.json");
    let document: Value = serde_json::from_str(document).unwrap();
    let mut found = BTreeSet::new();
    for operations in document["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter = match parameter["$ref"].as_str() {
                    Some(reference) => at(&document, reference),
                    None => parameter,
                };
                let named = parameter["name"].as_str().unwrap();
                bounded(&document, &parameter["schema"], named, &mut found);
            }
            bounded(&document, &operation["requestBody"], "body", &mut found);
        }
    }
    assert!(found.len() > 20, "{found:?}");
    for case in all_cases() {
        found.remove(case.5.rsplit('.').next().unwrap());
    }
    assert!(
        found.is_empty(),
        "bounds that no case here exceeds: {found:?}"
    );
}
