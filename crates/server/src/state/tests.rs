//! The state on disks that do as they should, and on such that do not.

use std::os::unix::fs::PermissionsExt;

use api::AuditEntry;

use super::change::Change;
use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn what_was_put_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let host = HostSpec {
        nqn: "nqn.2014-08.org.nvmexpress:uuid:x".into(),
        tenant: None,
    };
    let state = State::open(directory.path()).unwrap();
    let identity = state.identity(|| name("n1")).unwrap();
    let file = std::fs::metadata(directory.path().join(FILE_NAME)).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    state.put(Kind::Host, &name("h1"), &host).unwrap();
    state.put(Kind::Host, &name("h2"), &host).unwrap();
    state.remove(Kind::Host, &name("h2")).unwrap();
    drop(state);

    let state = State::open(directory.path()).unwrap();
    assert_eq!(state.identity(|| name("other")).unwrap(), identity);
    let remembered = state.load().unwrap();
    assert_eq!(remembered.hosts, BTreeMap::from([(name("h1"), host)]));
    assert!(remembered.drives.is_empty() && remembered.volumes.is_empty());
}

#[test]
fn two_nodes_cannot_share_a_state_directory() {
    let directory = tempfile::tempdir().unwrap();
    let _first = State::open(directory.path()).unwrap();
    let second = State::open(directory.path());
    assert!(
        matches!(second, Err(StateError::InUse { .. })),
        "{second:?}"
    );
}

#[test]
fn a_newer_format_is_refused_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(directory.path()).unwrap();
    let future = Identity {
        format: 9,
        name: name("n1"),
        uuid: Uuid::nil(),
    };
    state.put_in(META, [(IDENTITY, &future)]).unwrap();
    drop(state);
    let refused = State::open(directory.path()).unwrap_err().to_string();
    assert!(refused.contains("format 9"), "{refused}");
}

#[test]
fn a_damaged_record_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(directory.path()).unwrap();
    state.put(Kind::Drive, &name("d7"), &"no record").unwrap();
    let refused = state.load().unwrap_err().to_string();
    assert!(refused.contains("d7"), "{refused}");
}

#[test]
fn an_empty_file_is_refused_and_what_was_cut_short_is_no_state() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(FILE_NAME);
    // A first start that was killed leaves this, which others may have made readable.
    std::fs::write(private::beside(&file), "not a database").unwrap();
    let state = State::open(directory.path()).unwrap();
    assert!(state.is_new() && state.problem().is_none());
    assert!(!private::beside(&file).exists());
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(state);
    assert!(!State::open(directory.path()).unwrap().is_new());

    std::fs::write(&file, "").unwrap();
    let refused = State::open(directory.path());
    assert!(
        matches!(refused, Err(StateError::Empty { .. })),
        "{refused:?}"
    );
    assert_eq!(file.metadata().unwrap().len(), 0);
}

/// A change whose commit failed may be in the file all the same: it is taken back.
#[test]
fn what_a_change_did_away_with_is_put_back() {
    let memory = redb::backends::InMemoryBackend::new();
    let database = redb::Database::builder().create_with_backend(memory);
    let database = database.unwrap();
    let table = Kind::Host.table();
    let entry = AuditEntry {
        id: 0,
        time: "2026-11-26T00:00:00Z".into(),
        token: name("t"),
        from: "-".into(),
        request: "-".into(),
        method: "PUT".into(),
        path: "/".into(),
        body: None,
        status: 200,
        code: None,
        others: 0,
    };
    let commit = |make: &dyn Fn(&mut Change) -> Result<(), StateError>| {
        let transaction = database.begin_write().unwrap();
        let mut change = Change::new(&transaction);
        make(&mut change).unwrap();
        let before = change.before();
        transaction.commit().unwrap();
        before
    };
    let all = || all_in::<String, String>(&database, table).unwrap();
    commit(&|change| {
        change.put(table, "a", br#""one""#)?;
        change.put(table, "b", br#""two""#)?;
        change.append_audit(std::slice::from_ref(&entry))
    });
    let before = commit(&|change| {
        change.put(table, "a", br#""changed""#)?;
        change.put(table, "a", br#""changed again""#)?;
        change.remove(table, "b")?;
        change.put(table, "c", br#""new""#)?;
        change.append_audit(&[entry.clone(), entry.clone()])
    });
    assert_eq!(all().len(), 2);
    assert_eq!(audit::audit_after(&database, 0, 9).unwrap().len(), 3);
    commit(&|change| {
        let mut before = before.iter().rev();
        before.try_for_each(|before| change.put_back(before))
    });
    let expected = [("a", "one"), ("b", "two")];
    let expected = expected.map(|(name, record)| (name.to_owned(), record.to_owned()));
    assert_eq!(all(), BTreeMap::from(expected));
    assert_eq!(audit::audit_after(&database, 0, 9).unwrap().len(), 1);
}
