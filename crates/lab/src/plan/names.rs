//! The plans that ship with the program: `plans/*.toml`.

use super::PlanError;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../plans/", $name, ".toml")))),*]
    };
}

/// Name and text of each.
const SHIPPED: &[(&str, &str)] = shipped!["namespace", "network", "raid6", "tpcc", "cassandra"];

/// The names of the plans that ship with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The text of a shipped plan.
///
/// # Errors
/// When none has this name.
pub fn named(name: &str) -> Result<&'static str, PlanError> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, text)| *text)
        .ok_or_else(|| PlanError::Unknown {
            name: name.to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
        })
}
