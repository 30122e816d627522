//! The profiles that ship with the program: `profiles/*.toml`.

use crate::error::ProfileError;
use crate::profile::Profile;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),*]
    };
}

/// Name and text of each.
const SHIPPED: &[(&str, &str)] = shipped![
    "cm7-r-7.68",
    "cm7-r-3.84",
    "cm7-v-6.4",
    "cm6-v-3.2",
    "cd6-r-7.68",
    "xd7p-3.84",
    "xd6-3.84",
    "gen3-7.68",
];

/// The names of the profiles that ship with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// A shipped profile by name.
pub fn named(name: &str) -> Result<Profile, ProfileError> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| ProfileError::Unknown {
        name: name.to_owned(),
        known: names().collect::<Vec<_>>().join(", "),
    })?;
    Profile::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_one_and_says_where_its_values_come_from() {
        for name in names() {
            let profile = named(name).unwrap();
            assert!(!profile.values_from("published").is_empty(), "{name}");
            assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = named("cm8").unwrap_err().to_string();
        assert!(error.contains("cm7-r-7.68"), "{error}");
    }
}
