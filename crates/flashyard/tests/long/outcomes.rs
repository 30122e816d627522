//! The outcome of each test of a suite, read from the suite's output, and how two runs differ.

use std::collections::BTreeMap;

use serde::Serialize;

/// The outcome of one test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// After so many seconds.
    Passed(u64),
    /// With the suite's words about it.
    Failed(String),
    /// Why the suite did not run it.
    NotRun(String),
    /// On our list of tests that are not run.
    Expunged,
}

/// By the tests' names.
pub type Outcomes = BTreeMap<String, Outcome>;

/// How many there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub passed: usize,
    pub failed: usize,
    pub not_run: usize,
}

/// Whether a line begins what is printed about a test: `generic/001`.
fn name_of(line: &str) -> Option<&str> {
    let name = line.split_whitespace().next()?;
    let (folder, number) = name.split_once('/')?;
    let named = folder.chars().all(|letter| letter.is_ascii_lowercase());
    let numbered = number.len() >= 3 && number.chars().all(|digit| digit.is_ascii_digit());
    (line.starts_with(name) && named && numbered).then_some(name)
}

/// The outcomes in what `check` prints; a test that it was at when it ended has failed.
pub fn outcomes(printed: &str) -> Outcomes {
    let mut found: Vec<(&str, String)> = Vec::new();
    // Then only the names are repeated.
    let tests = printed
        .lines()
        .take_while(|line| !line.starts_with("Ran: "));
    for line in tests {
        match (name_of(line), found.last_mut()) {
            (Some(name), _) => found.push((name, line[name.len()..].trim().to_owned())),
            (None, Some((_, said))) => {
                said.push('\n');
                said.push_str(line.trim());
            }
            (None, None) => {}
        }
    }
    let found = found.into_iter();
    let mut outcomes: Outcomes = found
        .map(|(name, said)| (name.to_owned(), outcome(said.trim())))
        .collect();
    // In the end the suite names all that failed, however it told of it before.
    let failures = printed
        .lines()
        .find_map(|line| line.strip_prefix("Failures: "));
    for name in failures.unwrap_or_default().split_whitespace() {
        let known = outcomes.get(name);
        if !matches!(known, Some(Outcome::Failed(_))) {
            let said = format!("among the failures, after {known:?}");
            outcomes.insert(name.to_owned(), Outcome::Failed(said));
        }
    }
    outcomes
}

fn outcome(said: &str) -> Outcome {
    if let Some((_, why)) = said.split_once("[not run]") {
        return Outcome::NotRun(why.trim().to_owned());
    }
    if said == "[expunged]" {
        return Outcome::Expunged;
    }
    // Alone, or after how long it took the last time: `4s ...  5s`.
    let seconds = said.rsplit_once("s ... ").map_or(said, |(_, now)| now);
    let seconds = seconds.trim().strip_suffix('s').map(str::parse);
    match seconds {
        Some(Ok(seconds)) => Outcome::Passed(seconds),
        _ => Outcome::Failed(said.to_owned()),
    }
}

pub fn totals(outcomes: &Outcomes) -> Totals {
    let mut totals = Totals::default();
    for outcome in outcomes.values() {
        match outcome {
            Outcome::Passed(_) => totals.passed += 1,
            Outcome::Failed(_) => totals.failed += 1,
            Outcome::NotRun(_) => totals.not_run += 1,
            Outcome::Expunged => {}
        }
    }
    totals
}

/// Tests that fail on the volume and not on the reference, or pass on the reference and do not run
/// on the volume, with the suite's words. A test that fails on both is not of our making.
pub fn ours(reference: &Outcomes, volume: &Outcomes) -> BTreeMap<String, String> {
    let names = reference.keys().chain(volume.keys());
    let ours = names.filter_map(|name| {
        let said = match (reference.get(name), volume.get(name)) {
            (Some(Outcome::Failed(_)), _) | (_, Some(Outcome::Passed(_))) => return None,
            (_, Some(Outcome::Failed(said))) => said.clone(),
            (Some(Outcome::Passed(_)), Some(Outcome::NotRun(why))) => format!("not run: {why}"),
            (Some(Outcome::Passed(_)), _) => "never run".to_owned(),
            _ => return None,
        };
        Some((name.clone(), said))
    });
    ours.collect()
}

#[test]
fn what_a_suite_prints_is_understood() {
    let printed = "FSTYP         -- xfs\n\ngeneric/001         6s\n\
                   generic/002 3s ...  4s\n\
                   generic/003         5s\n\
                   generic/018        [not run] Could not fragment file\n\
                   generic/650        [expunged]\n\
                   generic/100 9s ... [failed, exit status 1]- output mismatch (see x)\n    \
                   --- tests/generic/100.out\n    +++ x\n\
                   generic/101        \nRan: generic/001 generic/002\n\
                   Failures: generic/100 generic/003\n";
    let found = outcomes(printed);
    let of = |name: &str| &found[name];
    assert_eq!(of("generic/001"), &Outcome::Passed(6));
    assert_eq!(of("generic/002"), &Outcome::Passed(4));
    let why = "Could not fragment file".to_owned();
    assert_eq!(of("generic/018"), &Outcome::NotRun(why));
    assert_eq!(of("generic/650"), &Outcome::Expunged);
    assert!(matches!(of("generic/100"), Outcome::Failed(said) if said.ends_with("+++ x")));
    assert!(matches!(of("generic/101"), Outcome::Failed(_)));
    assert!(matches!(of("generic/003"), Outcome::Failed(_)));
    assert_eq!(found.len(), 7);
    let expected = Totals {
        passed: 2,
        failed: 3,
        not_run: 1,
    };
    assert_eq!(totals(&found), expected);
}

#[test]
fn what_fails_on_the_reference_is_not_ours_and_what_is_missing_on_the_volume_is() {
    let of = |lines: &[(&str, Outcome)]| -> Outcomes {
        let lines = lines.iter().cloned();
        lines
            .map(|(name, outcome)| (name.to_owned(), outcome))
            .collect()
    };
    let failed = || Outcome::Failed("x".into());
    let passed = Outcome::Passed;
    let reference = of(&[
        ("a", passed(1)),
        ("b", failed()),
        ("c", passed(1)),
        ("d", passed(1)),
    ]);
    let volume = of(&[
        ("a", passed(9)),
        ("b", failed()),
        ("c", failed()),
        ("e", failed()),
    ]);
    let found = ours(&reference, &volume);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["c", "d", "e"]);
}
