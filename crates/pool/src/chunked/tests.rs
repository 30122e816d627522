use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Index;

impl Number for u32 {
    fn index(self) -> usize {
        self as usize
    }
}

/// What tests of others look up is there.
impl<N: Number, T> Index<&N> for Chunked<N, T> {
    type Output = T;

    fn index(&self, number: &N) -> &T {
        self.get(number).unwrap()
    }
}

/// The rules by which pieces are found.
fn assert_sound<T>(all: &Chunked<u32, T>) {
    assert_eq!(all.firsts.len(), all.pieces.len());
    let mut below = None;
    for (first, piece) in all.firsts.iter().zip(&all.pieces) {
        assert!((1..=MOST).contains(&piece.numbers.len()));
        assert_eq!(piece.numbers.len(), piece.entries.len());
        assert!(piece.numbers.is_sorted_by(|a, b| a < b));
        assert!(*first <= piece.numbers[0]);
        assert!(below.is_none_or(|below| below < *first));
        below = piece.numbers.last().copied();
    }
    let counted: usize = all.pieces.iter().map(|it| it.numbers.len()).sum();
    assert_eq!(counted, all.len());
}

/// What is done to entries.
#[derive(Clone, Debug)]
enum Action {
    Insert(u32),
    /// So many, from one on.
    InsertRun(u32, u32),
    Change(u32),
    Remove(u32),
    RemoveRun(u32, u32),
    Retain(u32),
    ChangeSome(u32, usize),
    /// A copy is made: it stays what it is.
    Copy,
}

fn action() -> impl Strategy<Value = Action> {
    let number = 0u32..5000;
    prop_oneof![
        number.clone().prop_map(Action::Insert),
        (number.clone(), 1u32..1500).prop_map(|(from, count)| Action::InsertRun(from, count)),
        number.clone().prop_map(Action::Change),
        number.clone().prop_map(Action::Remove),
        (number.clone(), 1u32..1500).prop_map(|(from, count)| Action::RemoveRun(from, count)),
        (2u32..40).prop_map(Action::Retain),
        (number, 0usize..2000).prop_map(|(from, most)| Action::ChangeSome(from, most)),
        Just(Action::Copy),
    ]
}

fn act(action: &Action, turn: u32, all: &mut Chunked<u32, u32>, map: &mut BTreeMap<u32, u32>) {
    match *action {
        Action::Insert(number) => assert_eq!(all.insert(number, turn), map.insert(number, turn)),
        Action::InsertRun(from, count) => {
            all.extend((from..from + count).map(|number| (number, turn)));
            map.extend((from..from + count).map(|number| (number, turn)));
        }
        Action::Change(number) => {
            assert_eq!(all.get(number), map.get(&number));
            assert_eq!(all.contains_key(number), map.contains_key(&number));
            if let Some(entry) = all.get_mut(number) {
                *entry += 1;
            }
            map.entry(number).and_modify(|entry| *entry += 1);
        }
        Action::Remove(number) => assert_eq!(all.remove(number), map.remove(&number)),
        Action::RemoveRun(from, count) => {
            // Every third, as segments become free.
            let numbers = (from..from + count).filter(|it| it % 3 > 0).collect();
            all.remove_all(&numbers);
            map.retain(|number, _| !numbers.contains(number));
        }
        Action::Retain(share) => {
            all.retain(|number, _| number % share > 0);
            map.retain(|number, _| number % share > 0);
        }
        Action::ChangeSome(from, most) => {
            let next = all.change_some(from, most, |number, entry| *entry += number);
            let mut those = map.range_mut(from..);
            for (number, entry) in those.by_ref().take(most) {
                *entry += number;
            }
            assert_eq!(next, those.next().map(|(number, _)| *number));
        }
        Action::Copy => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is done, the entries are those of a map, and copies stay what they were.
    #[test]
    fn behaves_as_a_map(actions in proptest::collection::vec(action(), 1..60)) {
        let (mut all, mut map) = (Chunked::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for (turn, action) in (0..).zip(&actions) {
            act(action, turn, &mut all, &mut map);
            assert_sound(&all);
            prop_assert!(all.iter().eq(map.iter()));
            prop_assert_eq!(all.iter().len(), map.len());
            let from = turn * 97 % 5000;
            prop_assert!(all.iter_from(from).eq(map.range(from..)));
            prop_assert_eq!(all.iter_from(from).len(), map.range(from..).count());
            prop_assert_eq!(all.last_key(), map.keys().next_back().copied());
            if matches!(action, Action::Copy) {
                copies.push((all.clone(), map.clone()));
            }
            for (copy, as_it_was) in &copies {
                prop_assert!(copy.iter().eq(as_it_was));
            }
        }
        prop_assert_eq!(&all, &map.into_iter().collect::<Chunked<u32, u32>>());
    }
}

/// A copy of many entries copies none of them, and a change of one copies those of its piece.
#[cfg(debug_assertions)]
#[test]
fn a_copy_costs_little_and_a_change_what_one_piece_does() {
    let reactor = reactor::Reactor::simulated(1);
    reactor.run(async {
        let mut all: Chunked<u32, u32> = (0..100_000).map(|number| (number, 0)).collect();
        reactor::yield_now().await;
        let copy = all.clone();
        for number in 3000..3010 {
            *all.get_mut(number).unwrap() = 1;
        }
        assert_eq!((copy[&3001], all[&3001], copy.len()), (0, 1, all.len()));
        let shared = all.pieces.iter().zip(&copy.pieces);
        let shared = shared.filter(|(one, other)| Arc::ptr_eq(one, other));
        assert_eq!(shared.count(), all.pieces.len() - 1);
    });
}
