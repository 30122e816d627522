//! OpenStack's os-brick attaches a volume with the kernel's own host, by the connection properties
//! that our Cinder driver makes. Both are Python, and run from a drive of the guest's own.

use std::path::{Path, PathBuf};

use vm::{Guest, Node};

use crate::{authentication, profile_directory, succeeds, tool};

/// A root with Python and the tools that os-brick calls; busybox has those that it lacks.
const PREPARE: &str = "
    mount -t ext4 /dev/nvme0n1 /mnt
    mkdir -p /mnt/bin
    cp /bin/busybox /mnt/bin/
    chroot /mnt /bin/busybox --install -s /bin
    for place in dev etc/nvme proc sys; do mount --bind /$place /mnt/$place; done
    for place in run tmp; do mount -t tmpfs $place /mnt/$place; done";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("os_brick")
}

/// Where the driver is installed, for the machine outside.
fn driver() -> PathBuf {
    profile_directory()
        .with_file_name("vm")
        .join("os-brick.driver")
}

/// Installs the driver outside, and puts what the guest runs on a drive.
pub fn devices(directory: &Path) -> Vec<String> {
    let root = directory.with_extension("root");
    for place in [&root, &driver()] {
        let _ = std::fs::remove_dir_all(place);
        std::fs::create_dir_all(place).expect("a place for Python");
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let offline = [
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--target",
    ];
    succeeds(
        tool("cinder", "pip")
            .args(["--quiet", "--disable-pip-version-check", "install"])
            .args(offline)
            .arg(driver())
            .args(["./clients/python", "./openstack"])
            .current_dir(checkout),
    );
    let image = directory.with_extension("image");
    let script = sources().join("root.py");
    succeeds(
        tool("cinder", "python")
            .args(["-W", "ignore"])
            .arg(script)
            .arg(&root)
            .arg(&image),
    );
    vec![
        "-drive".to_owned(),
        format!("file={},if=none,id=root,format=raw", image.display()),
        "-device".to_owned(),
        "nvme,serial=root,drive=root".to_owned(),
    ]
}

pub fn scenario(guest: &mut Guest, node: Node) {
    guest.check("mount the root of os-brick", PREPARE);
    node.add_pool("fast", "raid6", (4, "256MiB"), &[])
        .expect("the node makes a pool");
    node.command("volume create data --pool fast --size 1GiB --block-size 512")
        .expect("the node makes a volume");
    let nqn = guest.check("the guest's name", "cat /etc/nvme/hostnqn");
    let mut driver_says = tool("cinder", "python");
    let said = node.answer(
        driver_says
            .args(["-W", "ignore"])
            .arg(sources().join("properties.py"))
            .args(["data", nqn.trim()])
            .env("PYTHONPATH", driver()),
    );
    let properties = said.expect("the driver makes connection properties");
    let properties = properties.trim();
    // It leaves no controller behind.
    let brick = |verb: &str| {
        format!(
            "
            python=$(head -n 1 /mnt/python) site=$(tail -n 1 /mnt/python)
            PATH=/usr/sbin:/bin PYTHONPATH=$site chroot /mnt $python -W ignore /attach.py \
                {verb} '{properties}' && test ! -e /sys/class/nvme/nvme1"
        )
    };
    let attached = guest.check("os-brick attaches, writes and detaches", &brick("write"));
    assert!(attached.contains("/dev/nvme"), "{attached}");
    guest.check("os-brick attaches and finds what it wrote", &brick("read"));
    if guest.run("grep -q nvme_auth_negotiate /proc/kallsyms").code == 0 {
        let (secret, _) = authentication::make_key(&node, "sha256", "ffdhe3072");
        guest.refused(
            "os-brick without the secret",
            &brick("read"),
            "VolumeDeviceNotFound",
        );
        guest.check(
            "the documented file",
            &authentication::documented_settings(&secret),
        );
        guest.check("os-brick with the secret in it", &brick("read"));
    }
}
