//! [`Demands`]: what hosts have to prove to use a volume.

use std::collections::HashMap;

/// What a storage class demands of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// They prove a secret by DH-HMAC-CHAP.
    pub dhchap: bool,
    /// They connect under TLS.
    pub tls: bool,
}

/// How a demand stands in the context of a volume: its parameter, and the value.
const DHCHAP: (&str, &str) = ("hostAuth", "dhchap");
const TLS: (&str, &str) = ("tls", "required");

impl Demands {
    /// What the context of a volume says.
    pub fn of(context: &HashMap<String, String>) -> Demands {
        let has = |(key, value): (&str, &str)| context.get(key).is_some_and(|it| it == value);
        Demands {
            dhchap: has(DHCHAP),
            tls: has(TLS),
        }
    }

    /// Says it in the context of a volume.
    pub fn tell(self, context: &mut HashMap<String, String>) {
        for (key, value) in self.all() {
            context.insert(key.to_owned(), value.to_owned());
        }
    }

    /// The parameter and the value of each.
    pub fn all(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let demands = [(self.dhchap, DHCHAP), (self.tls, TLS)];
        demands
            .into_iter()
            .filter_map(|(is_demanded, words)| is_demanded.then_some(words))
    }
}
