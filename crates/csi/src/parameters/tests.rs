//! What classes say, what is wrong with them, and where their parameters are listed.

use super::*;

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_class_says_what_volumes_are() {
    let read = Parameters::read(&map(&[
        ("pool", "fast"),
        ("fsType", "xfs"),
        ("blockSize", "512"),
        ("provisioningType", "THICK"),
        ("numReplicas", "1"),
        ("sharing", "shared"),
        ("queues", "8"),
        ("transport", "rdma"),
        ("maxIOPSPerGB", "500"),
        ("maxBandwidth", "100MiB"),
        ("desiredIOPSPerGB", "100"),
        ("csi.storage.k8s.io/pvc/name", "data"),
    ]))
    .unwrap();
    assert_eq!((read.block_size, read.shared), (BlockSize::Bytes512, true));
    assert_eq!(read.mutable.reserved, Some(true));
    let limits = read.mutable.limits(Limits::default(), 3 * GIB);
    assert_eq!(limits.total.iops_per_gib, Some(500));
    assert_eq!(limits.total.bytes_per_second, Some(100 << 20));
    assert_eq!(limits.minimum_iops, Some(300));
    assert_eq!(
        read.context(),
        map(&[("fsType", "xfs"), ("queues", "8"), ("transport", "rdma")])
    );
}

#[test]
fn what_is_wrong_is_named() {
    for (key, value, says) in [
        ("pool", "No Pool", "pool"),
        ("fsType", "ntfs", "ext4, xfs"),
        ("blockSize", "1024", "512, 4096"),
        ("provisioningType", "fat", "THIN, THICK"),
        ("numReplicas", "2", "redundancy"),
        ("sharing", "both", "dedicated, shared"),
        ("hostAuth", "yes", "none, dhchap"),
        ("tls", "yes", "none, required"),
        ("queues", "0", "1 to 128"),
        ("transport", "roce", "tcp, rdma"),
        ("queues", "129", "1 to 128"),
        ("maxIOPS", "many", "100 to"),
        ("maxIOPS", "99", "100 to"),
        ("maxBandwidth", "1KiB", "1048576 to"),
        ("maxBWPerGB", "fast", "bytes a second"),
        ("maxBWPerGB", "1000", "with a unit"),
        ("burstMs", "0", "1 to 60000"),
        ("desiredBWPerGB", "100", "desiredIOPSPerGB"),
        ("writable", "false", "true: "),
        ("burstMs", "60001", "1 to 60000"),
        ("unheardOf", "1", "unheardOf"),
    ] {
        let refused = Parameters::read(&map(&[(key, value)])).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        let message = refused.message();
        assert!(message.contains(key) && message.contains(says), "{message}");
    }
}

#[test]
fn demands_are_told_and_contradict_no_transport() {
    let class = map(&[("hostAuth", "dhchap"), ("tls", "required")]);
    let read = Parameters::read(&class).unwrap();
    assert_eq!(read.context(), class);
    assert_eq!(Demands::of(&read.context()), read.demands);
    let over_rdma = map(&[("tls", "required"), ("transport", "rdma")]);
    let refused = Parameters::read(&over_rdma).unwrap_err();
    assert!(
        refused.message().contains("tls is \"required\""),
        "{refused}"
    );
}

#[test]
fn a_change_leaves_what_it_does_not_name() {
    let before = Limits {
        minimum_iops: Some(200),
        ..Limits::default()
    };
    let change = Changes::read(&map(&[("maxReadIOPS", "1000")])).unwrap();
    let after = change.limits(before, GIB);
    assert_eq!(
        (after.minimum_iops, after.read.iops),
        (Some(200), Some(1000))
    );
    let refused = Changes::read(&map(&[("pool", "fast")])).unwrap_err();
    assert!(refused.message().contains("pool"));
}

fn file(name: &str) -> String {
    let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// Classes to begin with are what this driver takes.
#[test]
fn classes_of_the_manifests_are_taken() {
    let classes = file("deploy/kubernetes/classes.yaml");
    let mut taken = 0;
    for class in classes.split("---\n") {
        let Some((_, parameters)) = class.split_once("\nparameters:\n") else {
            continue;
        };
        let lines = parameters.lines().take_while(|line| line.starts_with("  "));
        let pairs = lines.map(|line| line.trim().split_once(": ").unwrap());
        let pairs: Vec<_> = pairs.map(|(k, v)| (k, v.trim_matches('"'))).collect();
        match class.contains("kind: VolumeAttributesClass") {
            true => drop(Changes::read(&map(&pairs)).unwrap()),
            false => drop(Parameters::read(&map(&pairs)).unwrap()),
        }
        taken += pairs.len();
    }
    assert!(taken >= 6, "{taken}");
}

/// The names in the first column of each table under a heading of the manual.
fn listed(heading: &str) -> Vec<Vec<String>> {
    let manual = file("docs/kubernetes.md");
    let (_, section) = manual.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut tables: Vec<Vec<String>> = Vec::new();
    let mut before = "";
    for line in section.lines() {
        if line.starts_with("|---") {
            tables.push(Vec::new());
        } else if line.starts_with('|') && before.starts_with('|') {
            let cell = line.split('|').nth(1).unwrap();
            let words = cell.split('`').skip(1).step_by(2).map(str::to_owned);
            let names = words.filter(|word| !word.starts_with(OF_SIDECARS));
            tables.last_mut().unwrap().extend(names);
        }
        before = line;
    }
    for table in &mut tables {
        table.sort_unstable();
    }
    tables
}

fn in_order(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort_unstable();
    names
}

/// The tables of the manual have the parameters that are taken, each kind in its own.
#[test]
fn the_manual_lists_every_parameter() {
    let tables = listed("## Storage classes");
    let bounds: Vec<&str> = MUTABLE.into_iter().filter(|name| *name != SPACE).collect();
    let mut of_classes = OF_CLASSES.to_vec();
    of_classes.push(SPACE);
    let moot = OF_KUMOSCALE.map(|(name, ..)| name);
    let expected = [in_order(&of_classes), in_order(&bounds), in_order(&moot)];
    assert_eq!(tables, expected);
}

/// The chart takes the parameters that the driver takes, and no other.
#[test]
fn the_chart_takes_every_parameter() {
    let schema = file("deploy/helm/flashyard-csi/values.schema.json");
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let names = |class: &str| {
        let pointer = format!("/properties/{class}/items/properties/parameters");
        let parameters = schema.pointer(&pointer).unwrap();
        assert_eq!(parameters["additionalProperties"], false);
        let names = parameters["properties"].as_object().unwrap();
        let names: Vec<&str> = names.keys().map(String::as_str).collect();
        in_order(&names)
    };
    let moot = OF_KUMOSCALE.map(|(name, ..)| name);
    let all = [&OF_CLASSES[..], &MUTABLE[..], &moot[..]].concat();
    assert_eq!(names("storageClasses"), in_order(&all));
    assert_eq!(names("volumeAttributesClasses"), in_order(&MUTABLE));
}

/// Lists are of what is taken: each name of them is known, and not as another's.
#[test]
fn every_name_in_a_list_is_known() {
    for name in OF_CLASSES {
        let refused = Parameters::read(&map(&[(name, "?")])).unwrap_err();
        assert!(!refused.message().contains("unknown"), "{refused}");
        assert!(Changes::read(&map(&[(name, "?")])).is_err());
    }
    for name in MUTABLE {
        let refused = Changes::read(&map(&[(name, "?")])).unwrap_err();
        assert!(!refused.message().contains("does not change"), "{refused}");
    }
    for (name, taken, why) in OF_KUMOSCALE {
        for value in taken {
            let read = Parameters::read(&map(&[(name, value)])).unwrap();
            assert_eq!(read, Parameters::default(), "{name} changes nothing");
        }
        let refused = Parameters::read(&map(&[(name, "7")])).unwrap_err();
        assert!(refused.message().ends_with(why), "{refused}");
    }
}

/// A class as KumoScale's users have it: with zero for what is not limited.
#[test]
fn zero_is_no_bound() {
    let pairs = [
        ("csi.storage.k8s.io/fstype", "xfs"),
        ("numReplicas", "1"),
        ("sameRackAllowed", "false"),
        ("maxIOPSPerGB", "0"),
        ("desiredIOPSPerGB", "0"),
        ("maxBWPerGB", "0"),
        ("desiredBWPerGB", "0"),
        ("blockSize", "4096"),
        ("writable", "true"),
        ("provisioningType", "thick"),
    ];
    let read = Parameters::read(&map(&pairs)).unwrap();
    assert_eq!(read.mutable.reserved, Some(true));
    assert_eq!(
        read.mutable.limits(Limits::default(), GIB),
        Limits::default()
    );
}

/// A volume attributes class takes a bound away that another one set.
#[test]
fn a_bound_is_taken_away_by_zero() {
    let pairs = [
        ("maxIOPS", "1000"),
        ("maxBandwidth", "1MiB"),
        ("minIOPS", "500"),
    ];
    let set = Changes::read(&map(&pairs)).unwrap();
    let limited = set.limits(Limits::default(), GIB);
    assert_eq!(limited.total.iops, Some(1000));
    let zeros = pairs.map(|(name, _)| (name, "0"));
    let taken = Changes::read(&map(&zeros)).unwrap();
    assert_eq!(taken.limits(limited, GIB), Limits::default());
}

#[test]
fn what_is_said_later_counts() {
    let first = Changes::read(&map(&[("maxIOPS", "1000"), ("provisioningType", "THIN")]));
    let later = Changes::read(&map(&[("maxIOPS", "2000")])).unwrap();
    let both = first.unwrap().then(&later);
    let limits = both.limits(Limits::default(), GIB);
    assert_eq!(
        (limits.total.iops, both.reserved),
        (Some(2000), Some(false))
    );
}
