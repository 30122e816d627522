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

/// What is noted of a change at `path`.
fn audited(path: &str) -> AuditEntry {
    AuditEntry {
        id: 0,
        time: "2026-11-26T00:00:00Z".into(),
        token: name("t"),
        from: "-".into(),
        request: "-".into(),
        method: "PUT".into(),
        path: path.into(),
        body: None,
        status: 200,
        code: None,
        others: 0,
    }
}

/// A change whose commit failed may be in the file all the same: it is taken back.
#[test]
fn what_a_change_did_away_with_is_put_back() {
    let memory = redb::backends::InMemoryBackend::new();
    let database = redb::Database::builder().create_with_backend(memory);
    let database = database.unwrap();
    let (table, seal) = (Kind::Host.table(), Seal::default());
    let entry = audited("/");
    let commit = |make: &dyn Fn(&mut Change) -> Result<(), StateError>| {
        let transaction = database.begin_write().unwrap();
        let mut change = Change::new(&transaction, &seal);
        make(&mut change).unwrap();
        let before = change.before();
        transaction.commit().unwrap();
        before
    };
    let all = || all_in::<String, String>((&database, &seal), table).unwrap();
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
    assert_eq!(
        audit::audit_after((&database, &seal), 0, 9).unwrap().len(),
        3
    );
    commit(&|change| {
        let mut before = before.iter().rev();
        before.try_for_each(|before| change.put_back(before))
    });
    let expected = [("a", "one"), ("b", "two")];
    let expected = expected.map(|(name, record)| (name.to_owned(), record.to_owned()));
    assert_eq!(all(), BTreeMap::from(expected));
    assert_eq!(
        audit::audit_after((&database, &seal), 0, 9).unwrap().len(),
        1
    );
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

fn keys(current: &str, previous: &str) -> StateKeys {
    let key = |text: &str| (!text.is_empty()).then(|| StateKey::parse(text).unwrap());
    StateKeys {
        current: key(current),
        previous: key(previous),
    }
}

/// What a file has of a secret, in pages that are used and in pages that are free.
fn has(directory: &Path, secret: &str) -> bool {
    let file = std::fs::read(directory.join(FILE_NAME)).unwrap();
    file.windows(secret.len())
        .any(|found| found == secret.as_bytes())
}

/// From the clear to a key, to another key and back to the clear: everything stays, and the file
/// has nothing that the key does not open.
#[test]
fn a_state_is_encrypted_with_the_key_that_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let secret = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let key = HostKeySpec {
        secret: secret.into(),
        controller_secret: None,
        hash: api::KeyHash::default(),
        group: api::KeyGroup::default(),
    };
    let entry = audited("/v1/hosts/somebody");
    let state = State::open(path).unwrap();
    let uuid = state.identity(|| name("n1")).unwrap().uuid;
    state.put(Kind::HostKey, &name("h"), &key).unwrap();
    state.append_audit(&[entry.clone(), entry.clone()]).unwrap();
    drop(state);
    assert!(has(path, secret) && has(path, "somebody"));
    let steps = [("", KEY), (KEY, KEY), (KEY, OTHER), (OTHER, ""), ("", "")];
    for (before, now) in steps {
        let state = State::open_with(path, keys(now, before)).unwrap();
        assert_eq!(state.is_encrypted(), !now.is_empty());
        let identity = state.identity(|| name("other")).unwrap();
        assert_eq!(
            (identity.uuid, identity.format),
            (uuid, format_of(state.store.seal()))
        );
        assert_eq!(
            state.load().unwrap().host_keys,
            [(name("h"), key.clone())].into()
        );
        // What is written now is as well read.
        state.put(Kind::HostKey, &name("h"), &key).unwrap();
        state.append_audit(std::slice::from_ref(&entry)).unwrap();
        let audit = state.audit_after(0, 99).unwrap();
        assert!(
            audit.iter().all(|found| found.path == entry.path),
            "{audit:?}"
        );
        drop(state);
        for text in [secret, "somebody"] {
            assert_eq!(
                has(path, text),
                now.is_empty(),
                "{text} from {before:?} to {now:?}"
            );
        }
        let mode = path
            .join(FILE_NAME)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let state = State::open(path).unwrap();
    assert_eq!(state.audit_after(0, 99).unwrap().len(), 2 + steps.len());
}

/// Where a link stands for the file, the file that it leads to is made, and later encrypted: the
/// link stays, and nothing stays behind in the clear.
#[test]
fn a_state_behind_a_link_is_made_and_encrypted_there() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, elsewhere) = (directory.path(), other.path());
    let (link, file) = (path.join(FILE_NAME), elsewhere.join(FILE_NAME));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let secret = "nqn.2014-08.org.example:somebody";
    for keys in [keys("", ""), keys(KEY, ""), keys(KEY, "")] {
        let encrypted = keys.current.is_some();
        let state = State::open_with(path, keys).unwrap();
        state.put(Kind::Host, &name("h"), &secret).unwrap();
        drop(state);
        assert_eq!(std::fs::read_link(&link).unwrap(), file);
        assert_eq!(has(elsewhere, secret), !encrypted);
        assert_eq!(elsewhere.read_dir().unwrap().count(), 1);
    }
}

/// Without its key a state is refused and says so, and no record passes for another.
#[test]
fn a_state_is_refused_without_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let state = State::open_with(path, keys(KEY, "")).unwrap();
    assert!(state.is_new() && state.is_encrypted());
    state.put(Kind::Drive, &name("d"), &"nonsense").unwrap();
    state.put(Kind::Host, &name("h"), &"nonsense").unwrap();
    drop(state);
    for (current, previous, said) in [
        ("", "", "no key was given"),
        (OTHER, "", "not with the key"),
        ("", OTHER, "not with the key"),
    ] {
        let refused = State::open_with(path, keys(current, previous));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    let (one, other) = (
        Seal::default(),
        State::open_with(path, keys(KEY, "")).unwrap(),
    );
    let sealed = other.store.seal().close("hosts", b"h", b"record").unwrap();
    assert_ne!(&*sealed, b"record");
    let opened = |table, name: &[u8]| other.store.seal().open(table, name, &sealed);
    assert_eq!(&**opened("hosts", b"h").unwrap(), b"record");
    for (table, name) in [("drives", &b"h"[..]), ("hosts", &b"i"[..])] {
        assert!(matches!(
            opened(table, name),
            Err(StateError::Sealed { .. })
        ));
    }
    assert_eq!(&*one.close("hosts", b"h", b"record").unwrap(), b"record");
}

#[test]
fn a_key_that_is_none_is_refused_without_being_shown() {
    let letters = KEY.replace('f', "g");
    let wrong = [
        ("", "0 characters"),
        ("abc", "3 characters"),
        (letters.as_str(), "no such"),
    ];
    for (text, said) in wrong {
        let refused = StateKey::parse(text).unwrap_err();
        assert!(
            refused.contains(said) && !refused.contains("0011"),
            "{refused}"
        );
    }
    assert!(StateKey::parse(&format!("{KEY}\n")).is_ok());
    assert_eq!(
        format!("{:?}", StateKey::parse(KEY).unwrap()),
        "StateKey(..)"
    );
    let missing = StateKeys::read(Some(Path::new("/nonexistent/key")), None);
    assert!(matches!(missing, Err(StateError::Key { .. })));
}
