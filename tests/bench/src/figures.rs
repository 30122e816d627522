//! The figures of a result, each under a name that stays the same from run to run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Each number of `result` under its row's name and its own. A row is named by its texts, and by
/// those of its numbers whose keys are `settings`.
///
/// Two figures of one name are told apart by a number, in the order of the result.
pub fn of(settings: &[&str], result: &Value) -> BTreeMap<String, f64> {
    let mut figures = Figures {
        settings,
        found: BTreeMap::new(),
    };
    figures.walk(&[], result);
    figures.found
}

struct Figures<'a> {
    settings: &'a [&'a str],
    found: BTreeMap<String, f64>,
}

impl Figures<'_> {
    fn walk(&mut self, names: &[String], value: &Value) {
        match value {
            Value::Object(fields) => self.row(names, fields),
            Value::Array(items) => {
                // Bare numbers are samples: their median is a figure of its own.
                for item in items.iter().filter(|item| !item.is_number()) {
                    self.walk(names, item);
                }
            }
            Value::Number(number) => self.add(names.join(", "), number.as_f64()),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }

    fn row(&mut self, names: &[String], fields: &Map<String, Value>) {
        let own = fields
            .iter()
            .filter_map(|(key, value)| self.names(key, value));
        let row: Vec<String> = names.iter().cloned().chain(own).collect();
        for (key, value) in fields {
            if !self.settings.contains(&key.as_str()) {
                self.walk(&[&row[..], std::slice::from_ref(key)].concat(), value);
            }
        }
    }

    /// What this field says of the row that it is in. The machine is that of the whole run.
    fn names(&self, key: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(text) if key != "machine" => Some(text.clone()),
            Value::Number(number) if self.settings.contains(&key) => {
                Some(format!("{key} {number}"))
            }
            _ => None,
        }
    }

    fn add(&mut self, name: String, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return;
        };
        let mut unused = name.clone();
        let mut nth = 1;
        while self.found.contains_key(&unused) {
            nth += 1;
            unused = format!("{name} ({nth})");
        }
        self.found.insert(unused, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Texts and settings name a row, whatever depth it has; numbers are figures.
    #[test]
    fn each_number_has_its_name() {
        let result = json!({
            "machine": "of today",
            "start_s": 0.5,
            "rows": [
                { "load": "randread", "depth": 1, "spdk": { "iops": 10 }, "samples": [1, 2] },
                { "load": "randread", "depth": 32, "spdk": { "iops": 30.5 }, "ratio": null },
            ],
        });
        let found = of(&["depth"], &result);
        let expected = [
            ("rows, depth 1, randread, spdk, iops", 10.0),
            ("rows, depth 32, randread, spdk, iops", 30.5),
            ("start_s", 0.5),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(found, BTreeMap::from(expected));
    }

    /// No figure takes the place of another.
    #[test]
    fn figures_of_one_name_are_kept_apart() {
        let found = of(&[], &json!([{ "iops": 1 }, { "iops": 2 }, { "iops": 3 }]));
        let found: Vec<(&str, f64)> = found
            .iter()
            .map(|(name, value)| (&**name, *value))
            .collect();
        assert_eq!(found, [("iops", 1.0), ("iops (2)", 2.0), ("iops (3)", 3.0)]);
    }
}
