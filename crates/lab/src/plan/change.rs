//! [`Change`]: values put into a plan by dotted key, from the command line or by its sizes.

use std::path::Path;
use std::str::FromStr;

use toml::{Table, Value};

use super::place::{line_and_column, locate};
use super::{Plan, PlanError};

/// The sizes that a plan may have.
const SIZES: [&str; 3] = ["smoke", "small", "full"];

/// `key=value`; elements of lists are named by their `name`, and `*` is all of them:
/// `target.*.scale=0.001`.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The dotted key.
    pub key: String,
    /// The value: TOML, or text as it stands.
    pub value: Value,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or("KEY=VALUE is expected, such as run.runtime=10s")?;
        let parsed = toml::from_str::<Table>(&format!("value = {value}"));
        let value = parsed.ok().and_then(|mut table| table.remove("value"));
        Ok(Change {
            key: key.trim().to_owned(),
            value: value.unwrap_or_else(|| Value::String(text[key.len() + 1..].to_owned())),
        })
    }
}

impl Plan {
    /// The plan in the file at `name` if that is a path of a `.toml`, or else the shipped one;
    /// at `size`, with `changes`. Gives the text that makes the same plan again, too.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn open(
        name: &str,
        size: Option<&str>,
        changes: &[Change],
    ) -> Result<(Plan, String), PlanError> {
        let path = Path::new(name);
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let text = std::fs::read_to_string(path).map_err(|source| PlanError::File {
                path: path.to_owned(),
                source,
            })?;
            return Plan::parse(name, &text, size, changes);
        }
        let text = super::named(name)?;
        Plan::parse(&format!("plans/{name}.toml"), text, size, changes)
    }

    /// The plan in `text`, which is from `file`; see [`Plan::open`].
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn parse(
        file: &str,
        text: &str,
        size: Option<&str>,
        changes: &[Change],
    ) -> Result<(Plan, String), PlanError> {
        let source = Source { file, text };
        let plan = source.read()?;
        for known in plan.size.keys() {
            source.sized(&plan, known)?;
        }
        let mut table = match size {
            Some(size) => source.sized(&plan, size)?,
            None => source.table()?,
        };
        let mut changed = plan;
        for change in changes {
            changed = change
                .apply(&mut table)
                .map_err(|message| PlanError::Change {
                    key: change.key.clone(),
                    value: change.value.to_string(),
                    message,
                })?;
        }
        if changes.is_empty() && size.is_some() {
            changed = deserialized(&table).map_err(|message| source.at(&[], message))?;
        }
        let text = toml::to_string(&table).map_err(|error| source.at(&[], error.to_string()))?;
        Ok((changed, text))
    }
}

/// A plan's text, and what to call it.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn at(&self, path: &[&str], message: String) -> PlanError {
        let (line, column) = locate(self.text, path);
        PlanError::At {
            file: self.file.to_owned(),
            line,
            column,
            message,
        }
    }

    fn refused(&self, error: &toml::de::Error) -> PlanError {
        let offset = error.span().map_or(0, |span| span.start);
        let (line, column) = line_and_column(self.text, offset);
        PlanError::At {
            file: self.file.to_owned(),
            line,
            column,
            message: error.message().to_owned(),
        }
    }

    fn read(&self) -> Result<Plan, PlanError> {
        let plan: Plan = toml::from_str(self.text).map_err(|error| self.refused(&error))?;
        if let Some(size) = plan
            .size
            .keys()
            .find(|size| !SIZES.contains(&size.as_str()))
        {
            let message = format!("no size is called {size}; allowed: {}", SIZES.join(", "));
            return Err(self.at(&["size", size], message));
        }
        plan.check().map_err(|broken| {
            let path: Vec<&str> = broken.path.iter().map(String::as_str).collect();
            self.at(&path, broken.message)
        })?;
        Ok(plan)
    }

    fn table(&self) -> Result<Table, PlanError> {
        toml::from_str(self.text).map_err(|error| self.refused(&error))
    }

    /// The plan's tables with the values of `size`, each of which has been found to be right.
    fn sized(&self, plan: &Plan, size: &str) -> Result<Table, PlanError> {
        let values = plan.size.get(size).ok_or_else(|| PlanError::Size {
            plan: plan.name.clone(),
            size: size.to_owned(),
            known: plan.size.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        let mut table = self.table()?;
        for (key, value) in values {
            let change = Change {
                key: key.clone(),
                value: value.clone(),
            };
            change
                .apply(&mut table)
                .map_err(|message| self.at(&["size", size, key], message))?;
        }
        Ok(table)
    }
}

fn deserialized(table: &Table) -> Result<Plan, String> {
    let plan: Plan = table
        .clone()
        .try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())?;
    plan.check().map_err(|broken| broken.message)?;
    Ok(plan)
}

impl Change {
    /// Puts the value into `table`, and reads the whole again.
    fn apply(&self, table: &mut Table) -> Result<Plan, String> {
        let path: Vec<&str> = self.key.split('.').collect();
        set(table, &path, &self.value)?;
        deserialized(table)
    }
}

fn set(table: &mut Table, path: &[&str], value: &Value) -> Result<(), String> {
    match path {
        [] | [""] => Err("the key is empty".to_owned()),
        [key] => {
            table.insert((*key).to_owned(), value.clone());
            Ok(())
        }
        [key, rest @ ..] => {
            let empty = || Value::Table(Table::new());
            match table.entry(*key).or_insert_with(empty) {
                Value::Table(table) => set(table, rest, value),
                Value::Array(list) => set_in_list(key, list, rest, value),
                _ => Err(format!("{key} holds no other keys")),
            }
        }
    }
}

fn set_in_list(key: &str, list: &mut [Value], path: &[&str], value: &Value) -> Result<(), String> {
    let [wanted, rest @ ..] = path else {
        return Err(format!("{key} is a list; name one of its elements"));
    };
    let mut names = Vec::new();
    let mut found = false;
    for element in list {
        let Value::Table(table) = element else {
            continue;
        };
        let name = table.get("name").and_then(Value::as_str).unwrap_or("");
        if *wanted == "*" || *wanted == name {
            found = true;
            set(table, rest, value)?;
        } else {
            names.push(name.to_owned());
        }
    }
    if found {
        Ok(())
    } else {
        Err(format!(
            "no {key} is named {wanted}; there are: {}",
            names.join(", ")
        ))
    }
}
