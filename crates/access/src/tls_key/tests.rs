use proptest::prelude::*;

use super::*;

/// Of libnvme's own tests (test/psk.c), and printed by `nvme gen-tls-key` of nvme-cli 2.3.
const KEYS: [&str; 5] = [
    "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
    "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
    "NVMeTLSkey-1:01:RrS8EsaeQabDO9RuQxELfAI218Z+8Nvq1GZbeKurQRcDqlr0:",
    "NVMeTLSkey-1:02:NObxymzbVU0o2NMtediMfpsKUUECZTuuW1AhLrc5+Rh1a6Fp0jaKGM8rpyTdAIEFTcE/Sg==:",
];
const HOST: &str = "nqn.psk-test-host";
const SUBSYSTEM: &str = "nqn.psk-test-subsys";

fn key(index: usize) -> TlsKey {
    KEYS[index].parse().unwrap()
}

#[test]
fn keys_of_nvme_cli_read_back_and_are_never_shown() {
    for text in KEYS {
        let key: TlsKey = text.parse().unwrap();
        assert_eq!(*key.reveal(), text);
        assert_eq!(format!("{key:?}"), "TlsKey(..)");
        for psk in key.psks_of(HOST, SUBSYSTEM) {
            assert_eq!(format!("{psk:?}"), format!("TlsPsk({})", psk.identity));
        }
    }
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        let key = TlsKey::generate(hash);
        assert_eq!(key.reveal().parse(), Ok(key.clone()));
        assert_ne!(key, TlsKey::generate(hash));
    }
}

#[test]
fn a_derived_key_is_that_of_one_host_and_one_keeper() {
    let nqn = |name: &str| {
        format!("nqn.2026-11.example:{name}")
            .parse::<Nqn>()
            .unwrap()
    };
    let derived = TlsKey::derived(b"keeper", &nqn("host"));
    assert_eq!(derived, TlsKey::derived(b"keeper", &nqn("host")));
    assert_ne!(derived, TlsKey::derived(b"keeper", &nqn("other")));
    assert_ne!(derived, TlsKey::derived(b"another", &nqn("host")));
    assert_eq!(derived.reveal().parse(), Ok(derived.clone()));
}

#[test]
fn what_is_no_key_is_refused_with_the_reason() {
    let good = KEYS[1];
    for (text, reason) in [
        ("", TlsKeyError::Form),
        (good.trim_end_matches(':'), TlsKeyError::Form),
        (&good.replace("key-1", "key-2"), TlsKeyError::Form),
        (&good.replace(":01:", ":1:"), TlsKeyError::Form),
        (&good.replace(":01:", ":+1:"), TlsKeyError::Form),
        (&good.replace("VRLb", "VR*b"), TlsKeyError::Form),
        (&good.replace(":01:", ":03:"), TlsKeyError::Hash(3)),
        (&good.replace(":01:", ":02:"), TlsKeyError::Length(32)),
        (&KEYS[2].replace(":02:", ":01:"), TlsKeyError::Length(48)),
        (&good.replace("VRLb", "VRLc"), TlsKeyError::Checksum),
        ("NVMeTLSkey-1:01:AAECAwQF:", TlsKeyError::Length(2)),
        ("NVMeTLSkey-1:00::", TlsKeyError::Length(0)),
    ] {
        assert_eq!(text.parse::<TlsKey>(), Err(reason), "{text}");
    }
}

/// Digests are those of libnvme's tests, new and compatible; first bytes of the keys were computed
/// by Python's hmac from the specification's formulas.
#[test]
fn identities_and_keys_are_those_of_libnvme_and_the_specification() {
    for (index, number, digest, keys, old_digest) in [
        (
            1,
            "01",
            "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
            [
                [0x8f, 0xc3, 0xc0, 0xba],
                [0x05, 0xc6, 0x50, 0x35],
                [0xb9, 0xf5, 0xab, 0x2a],
            ],
            "66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
        ),
        (
            2,
            "02",
            "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
            [
                [0xa2, 0xb2, 0xf9, 0x43],
                [0xf4, 0x2b, 0xa6, 0x38],
                [0xfc, 0xef, 0xe2, 0xe2],
            ],
            "RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
        ),
    ] {
        let psks = key(index).psks_of(HOST, SUBSYSTEM);
        let identities: Vec<&str> = psks.iter().map(|psk| psk.identity.as_str()).collect();
        let expected = [
            format!("NVMe1R{number} {HOST} {SUBSYSTEM} {digest}"),
            format!("NVMe0R{number} {HOST} {SUBSYSTEM}"),
            format!("NVMe1R{number} {HOST} {SUBSYSTEM} {old_digest}"),
        ];
        assert_eq!(identities, expected);
        let found: Vec<&[u8]> = psks.iter().map(|psk| &psk.secret[..4]).collect();
        assert_eq!(found, keys);
    }
}

#[test]
fn a_key_without_a_hash_is_used_as_it_is() {
    let psks = key(0).psks_of(HOST, SUBSYSTEM);
    assert_eq!(psks.len(), 2);
    let digest = "quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=";
    assert!(psks[0].identity.ends_with(digest), "{:?}", psks[0]);
    assert_eq!(psks[0].secret[..4], [0xa4, 0x5d, 0x08, 0xee]);
    assert_eq!(psks[0].hash, PskHash::Sha256);
}

#[test]
fn the_longest_names_have_a_key_in_version_1() {
    let longest = |name: &str| -> Nqn {
        let filled = format!("nqn.2026-11.org.example:{name}{}", "x".repeat(220));
        filled[..crate::NQN_BYTES_MAX].parse().unwrap()
    };
    let psks = key(2).psks(&longest("host"), &longest("subsystem"));
    assert_eq!(psks.len(), 2);
    assert!(psks.iter().all(|psk| psk.identity.starts_with("NVMe1R02 ")));
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "(NVMeTLSkey-1:)?[0-9]{0,3}:?[A-Za-z0-9+/=]{0,80}:?") {
        if let Ok(key) = text.parse::<TlsKey>() {
            let revealed = key.reveal();
            prop_assert_eq!(revealed.as_str(), text);
        }
    }

    #[test]
    fn one_changed_character_is_noticed(index in 16_usize..60, letter in "[A-Za-z0-9+/]") {
        let mut changed = KEYS[1].to_owned();
        changed.replace_range(index..=index, &letter);
        prop_assert_eq!(changed == KEYS[1], changed.parse::<TlsKey>().is_ok());
    }

    #[test]
    fn keys_differ_by_host_and_by_subsystem(name in "[a-z]{1,20}") {
        let key = key(1);
        let nqn: Nqn = format!("nqn.2026-11.org.example:{name}").parse().unwrap();
        let other: Nqn = "nqn.2026-11.org.example:1".parse().unwrap();
        let (one, two) = (key.psks(&nqn, &other), key.psks(&other, &nqn));
        let three = key.psks(&other, &other);
        for (index, psk) in one.iter().enumerate() {
            prop_assert!(psk != &two[index] && psk != &three[index]);
            prop_assert!(psk.secret != two[index].secret && psk.secret != three[index].secret);
        }
    }
}
