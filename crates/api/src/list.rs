//! [`List`]: the envelope of every collection, and [`PageQuery`], which part of it to give.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::ErrorBody;

/// The most objects in one answer, and how many there are when the request does not say.
pub const PAGE_ITEMS_MAX: u32 = 1000;

/// A part of a collection, ordered by name or, for events and the audit log, by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The objects.
    pub items: Vec<T>,
    /// More objects follow: ask with this as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which part of a collection to give; the query of every list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// At most this many objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Only objects that come after this one: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl<T> List<T> {
    /// The part of `items`, which are ordered by `key`, that `query` asks for.
    ///
    /// # Errors
    /// When `limit` or `after` is not what it can be.
    pub fn page<K: Ord + FromStr + ToString>(
        items: Vec<T>,
        query: &PageQuery,
        key: impl Fn(&T) -> K,
    ) -> Result<List<T>, ErrorBody> {
        let limit = query.limit.unwrap_or(PAGE_ITEMS_MAX);
        if !(1..=PAGE_ITEMS_MAX).contains(&limit) {
            let message = format!("limit {limit}; allowed: 1 to {PAGE_ITEMS_MAX}");
            return Err(ErrorBody::invalid("limit", message));
        }
        let after = query.after.as_ref().map(|text| {
            let message = "no object can be called that; allowed: `next` of the page before";
            K::from_str(text).map_err(|_| ErrorBody::invalid("after", message))
        });
        let after = after.transpose()?;
        debug_assert!(
            items.is_sorted_by_key(&key),
            "a page follows from the order"
        );
        let before = after.map_or(0, |after| items.partition_point(|item| key(item) <= after));
        let limit = limit as usize;
        let mut items: Vec<T> = items.into_iter().skip(before).take(limit + 1).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items
            .last()
            .filter(|_| more)
            .map(|last| key(last).to_string());
        Ok(List { items, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn page(limit: u32, after: Option<&str>) -> Result<List<Name>, ErrorBody> {
        let query = PageQuery {
            limit: Some(limit),
            after: after.map(str::to_owned),
        };
        List::page(names(&["a", "b", "d"]), &query, Name::clone)
    }

    #[test]
    fn pages_follow_one_another_and_the_last_one_says_so() {
        let first = page(2, None).unwrap();
        assert_eq!(first.items, names(&["a", "b"]));
        assert_eq!(first.next.as_deref(), Some("b"));
        let second = page(2, Some("b")).unwrap();
        assert_eq!((second.items, second.next), (names(&["d"]), None));
        let whole = page(3, None).unwrap();
        assert_eq!((whole.items.len(), whole.next), (3, None));
    }

    #[test]
    fn a_marker_that_is_gone_still_has_a_place() {
        assert_eq!(page(9, Some("c")).unwrap().items, names(&["d"]));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        assert_eq!(page(0, None).unwrap_err().field.as_deref(), Some("limit"));
        assert_eq!(
            page(1001, None).unwrap_err().field.as_deref(),
            Some("limit")
        );
        assert_eq!(
            page(1, Some("D")).unwrap_err().field.as_deref(),
            Some("after")
        );
    }

    #[test]
    fn identifiers_are_numbers() {
        let query = PageQuery {
            limit: None,
            after: Some("9".into()),
        };
        let list = List::page((1..=12).collect(), &query, |id: &u64| *id).unwrap();
        assert_eq!(list.items, [10, 11, 12]);
    }
}
