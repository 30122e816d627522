use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn blocks(size_blocks: u64) -> NamespaceRequest {
    NamespaceRequest {
        size_blocks,
        capacity_blocks: size_blocks,
        format: 0,
        shared: false,
    }
}

fn drive() -> Namespaces {
    let mut namespaces = Namespaces::new(1000, 10);
    namespaces.add_controller(1);
    namespaces.add_controller(2);
    namespaces
}

#[test]
fn refusals_carry_the_status_of_the_specification() {
    let mut namespaces = drive();
    let shared = NamespaceRequest {
        shared: true,
        ..blocks(100)
    };
    let private = namespaces.create(blocks(100)).unwrap();
    let shared = namespaces.create(shared).unwrap();
    let mut refused =
        |status: (u8, u8), act: &dyn Fn(&mut Namespaces) -> Option<NamespaceError>| {
            let before = namespaces.clone();
            let error = act(&mut namespaces).expect("refused");
            assert_eq!(error.status(), status, "{error}");
            assert_eq!(namespaces, before, "a refusal changes nothing");
        };
    refused((1, 0x15), &|drive| drive.create(blocks(801)).err());
    refused((1, 0x15), &|drive| drive.create(blocks(u64::MAX)).err());
    refused((0, 0x02), &|drive| drive.create(blocks(0)).err());
    let small_blocks = NamespaceRequest {
        format: 1,
        ..blocks(9)
    };
    refused((0, 0x02), &|drive| drive.create(small_blocks).err());
    let format = NamespaceRequest {
        format: 2,
        ..blocks(8)
    };
    refused((1, 0x0a), &|drive| drive.create(format).err());
    let thin = NamespaceRequest {
        capacity_blocks: 50,
        ..blocks(100)
    };
    refused((1, 0x1b), &|drive| drive.create(thin).err());
    refused((0, 0x0b), &|drive| drive.delete(9).err());
    refused((0, 0x0b), &|drive| drive.attach(9, &[1]).err());
    refused((1, 0x1c), &|drive| drive.attach(private, &[]).err());
    refused((1, 0x1c), &|drive| drive.attach(private, &[3]).err());
    refused((1, 0x1c), &|drive| drive.attach(shared, &[2, 1]).err());
    refused((1, 0x19), &|drive| drive.attach(private, &[1, 2]).err());
    refused((1, 0x1a), &|drive| drive.detach(private, &[1]).err());
    namespaces.attach(private, &[1]).unwrap();
    namespaces.attach(shared, &[1, 2]).unwrap();
    assert_eq!(
        namespaces.attach(private, &[1]).unwrap_err().status(),
        (1, 0x18)
    );
    assert_eq!(
        namespaces.attach(private, &[2]).unwrap_err().status(),
        (1, 0x19)
    );
    namespaces.open(private).unwrap();
    assert_eq!(
        namespaces.delete(private).unwrap_err(),
        NamespaceError::InUse(private)
    );
    namespaces.close(private);
    namespaces.delete(private).unwrap();
    assert_eq!(
        namespaces.create(blocks(8)).unwrap(),
        private,
        "the identifier is free again"
    );
}

#[test]
fn what_a_host_attached_belongs_to_its_name_and_goes_with_it() {
    let mut namespaces = drive();
    let nsid = namespaces.create(blocks(10)).unwrap();
    let first = namespaces.controller_of("one").unwrap();
    assert_eq!(first, 3, "the drive has two controllers already");
    namespaces.attach(nsid, &[first]).unwrap();
    let second = namespaces.controller_of("two").unwrap();
    assert_eq!(
        namespaces.attach(nsid, &[second]).unwrap_err().status(),
        (1, 0x19)
    );
    assert_eq!(namespaces.controller_of("one").unwrap(), first);
    assert_eq!(namespaces.hosts_of(nsid), ["one"]);
    namespaces.forget_host("one");
    assert!(namespaces.hosts_of(nsid).is_empty());
    namespaces.attach(nsid, &[second]).unwrap();
    assert_eq!(namespaces.hosts_of(nsid), ["two"]);
    namespaces.delete(nsid).unwrap();
    let again = namespaces.create(blocks(10)).unwrap();
    assert_eq!(again, nsid);
    assert_eq!(namespaces.get(again).unwrap().ordinal, 2);
}

#[test]
fn identifiers_run_out_by_name() {
    let mut namespaces = Namespaces::new(10_000, 1);
    for _ in 0..NAMESPACES_MAX {
        namespaces.create(blocks(1)).unwrap();
    }
    assert_eq!(
        namespaces.create(blocks(1)),
        Err(NamespaceError::NoIdentifier)
    );
}

#[test]
fn sizes_are_rounded_up_to_the_granularity_and_capacity_is_conserved() {
    let mut namespaces = drive();
    assert_eq!(namespaces.capacity().total_bytes, 1000 * 4096);
    namespaces.create(blocks(11)).unwrap();
    assert_eq!(namespaces.capacity().unallocated_bytes, 980 * 4096);
    let error = namespaces.pages(1, 10, 2).map(Iterator::count);
    assert_eq!(error, Err(NamespaceError::OutOfRange(1)));
    let error = namespaces.pages(1, u64::MAX, 2).map(Iterator::count);
    assert_eq!(error, Err(NamespaceError::OutOfRange(1)));
}

/// One step against the drive: what, which namespace, how much or which controller.
type Step = (u8, u32, u64, u16);

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Any sequence of operations leaves what a plain table of sizes and attachments would:
    /// nothing is lost, nothing handed out twice, nothing attached that should not be.
    #[test]
    fn the_state_machine_keeps_its_books(
        steps in prop::collection::vec((0_u8..7, 1_u32..6, 0_u64..400, 0_u16..4), 1..80),
    ) {
        let mut drive = drive();
        let mut model: HashMap<u32, (u64, bool, BTreeSet<u16>, u32)> = HashMap::new();
        for step in steps {
            apply(&mut drive, &mut model, step)?;
            let used: u64 = model.values().map(|(pages, ..)| pages.div_ceil(10) * 10).sum();
            prop_assert_eq!(drive.capacity().unallocated_bytes, (1000 - used) * 4096);
            let mut pages = BTreeSet::new();
            for (nsid, namespace) in drive.iter() {
                let (size, _, controllers, _) = &model[&nsid];
                prop_assert_eq!(namespace.pages, *size);
                prop_assert_eq!(&namespace.controllers, controllers);
                for page in drive.pages(nsid, 0, *size).unwrap() {
                    prop_assert!(page < 1000 && pages.insert(page));
                }
            }
            prop_assert_eq!(drive.iter().count(), model.len());
        }
    }
}

fn apply(
    drive: &mut Namespaces,
    model: &mut HashMap<u32, (u64, bool, BTreeSet<u16>, u32)>,
    (what, nsid, amount, controller): Step,
) -> Result<(), TestCaseError> {
    let known = controller == 1 || controller == 2;
    match what {
        0 | 1 => {
            let request = NamespaceRequest {
                shared: what == 1,
                ..blocks(amount)
            };
            let used: u64 = model.values().map(|(pages, ..)| pages.div_ceil(10)).sum();
            let fits = amount > 0 && used + amount.div_ceil(10) <= 100;
            match drive.create(request) {
                Ok(created) => {
                    prop_assert!(fits);
                    let entry = (amount, what == 1, BTreeSet::new(), 0);
                    prop_assert!(model.insert(created, entry).is_none());
                }
                Err(_) => prop_assert!(!fits),
            }
        }
        2 => {
            let allowed = model.get(&nsid).is_some_and(|entry| entry.3 == 0);
            prop_assert_eq!(drive.delete(nsid).is_ok(), allowed);
            if allowed {
                model.remove(&nsid);
            }
        }
        3 => {
            let allowed = known
                && model.get(&nsid).is_some_and(|(_, shared, controllers, _)| {
                    !controllers.contains(&controller) && (*shared || controllers.is_empty())
                });
            prop_assert_eq!(drive.attach(nsid, &[controller]).is_ok(), allowed);
            if allowed && let Some(entry) = model.get_mut(&nsid) {
                entry.2.insert(controller);
            }
        }
        4 => {
            let attached = |entry: &(u64, bool, BTreeSet<u16>, u32)| entry.2.contains(&controller);
            let allowed = known && model.get(&nsid).is_some_and(attached);
            prop_assert_eq!(drive.detach(nsid, &[controller]).is_ok(), allowed);
            if allowed && let Some(entry) = model.get_mut(&nsid) {
                entry.2.remove(&controller);
            }
        }
        5 => {
            prop_assert_eq!(drive.open(nsid).is_ok(), model.contains_key(&nsid));
            if let Some(entry) = model.get_mut(&nsid) {
                entry.3 += 1;
            }
        }
        _ => {
            drive.close(nsid);
            if let Some(entry) = model.get_mut(&nsid) {
                entry.3 = entry.3.saturating_sub(1);
            }
        }
    }
    Ok(())
}
