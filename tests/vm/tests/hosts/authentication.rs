//! Hosts that have to prove who they are: DH-HMAC-CHAP with the kernel's own host, both ways.

use serde_json::Value;
use vm::{Guest, Node};

/// Hashes and groups that a key may name; the kernel offers all of them.
const KINDS: [(&str, &str); 4] = [
    ("sha256", "null"),
    ("sha384", "ffdhe2048"),
    ("sha512", "ffdhe3072"),
    ("sha256", "ffdhe8192"),
];

pub fn scenario(guest: &mut Guest, node: Node) {
    if proofs(guest, &node) {
        as_os_brick(guest, &node, &make_key(&node, "sha256", "ffdhe3072").0);
    }
}

/// All but what one version of nvme-cli has; whether the kernel can authenticate.
pub fn proofs(guest: &mut Guest, node: &Node) -> bool {
    let connect = format!("nvme connect {} -n {}", node.over_ipv4(), node.shared());
    let make = |hash: &str, group: &str| make_key(node, hash, group);
    make("sha256", "null");
    guest.refused("connect without a secret", &connect, "");
    // Kernels that were built without authentication know the option all the same.
    let able = guest.run("grep -q nvme_auth_negotiate /proc/kallsyms").code == 0;
    println!("    this kernel can authenticate: {able}");
    if !able {
        return false;
    }
    for (hash, group) in KINDS {
        let (secret, controller) = make(hash, group);
        one_way_and_both(guest, node, &connect, (hash, group), &secret, &controller);
        let (other, _) = make(hash, group);
        guest.refused(
            "connect with the secret of before",
            &format!("{connect} -S {secret}"),
            "",
        );
        guest.refused(
            "connect to a controller that proves another secret",
            &format!("{connect} -S {other} -C {controller}"),
            "",
        );
    }
    attached(guest, node, &make("sha512", "ffdhe3072"));
    again_and_again(guest, node, &connect);
    guest.refused(
        "discovery without the secret",
        &format!("nvme discover {}", node.over_ipv4()),
        "",
    );
    node.command("host key guest --remove")
        .expect("the node forgets it");
    guest.check("connect when nothing is to be proved", &connect);
    guest.check("disconnect", "nvme disconnect-all");
    true
}

/// `flashyard attach` has the kernel connect with the secrets in files.
fn attached(guest: &mut Guest, node: &Node, (secret, controller): &(String, String)) {
    let target = node.target(node.shared(), 1);
    let attach = format!("flashyard attach '{target}' --method kernel --directory /tmp/attached");
    guest.refused("attach without a secret", &attach, "refused to connect");
    guest.check(
        "attach with secrets of both ends, then detach",
        &format!(
            "
            echo '{secret}' >/tmp/secret
            echo '{controller}' >/tmp/controller
            dev=$({attach} --dhchap-secret-file /tmp/secret \
                --controller-secret-file /tmp/controller)
            test \"$dev\" = \"$(nvme-device {nqn} 1)\"
            grep -qx \"$(cat /etc/nvme/hostid)\" /sys/class/nvme/nvme*/hostid
            dd if=$dev of=/dev/null bs=64k count=4 iflag=direct 2>/dev/null
            flashyard detach '{target}' --directory /tmp/attached
            test ! -e $dev",
            nqn = node.shared(),
        ),
    );
}

/// Writes what the page about OpenStack has in `config.json`, with this guest's name and secret.
pub fn documented_settings(secret: &str) -> String {
    let page = include_str!("../../../../docs/openstack.md");
    let settings = page.split("```json\n").nth(1).expect("an example");
    let settings = settings.split("```").next().expect("its end");
    let key = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let host = "5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
    assert!(
        settings.contains(key) && settings.contains(host),
        "{settings}"
    );
    let settings = settings.replace(key, secret).replace(host, "HOST");
    format!(
        "
        cat >/etc/nvme/config.json <<'SETTINGS'\n{settings}\nSETTINGS
        sed -i \"s/HOST/$(cat /etc/nvme/hostid)/\" /etc/nvme/config.json"
    )
}

/// `nvme connect` as OpenStack's os-brick runs it, without a secret, which the documented file has.
fn as_os_brick(guest: &mut Guest, node: &Node, secret: &str) {
    let nqn = node.shared();
    let connect = format!(
        "nvme connect {} -n {nqn} -Q 128 -l -1 -q $(cat /etc/nvme/hostnqn)",
        node.over_ipv4()
    );
    guest.refused("connect as os-brick does", &connect, "");
    let settings = documented_settings(secret);
    guest.check(
        "the same with the secret in config.json",
        &format!("{settings}\n{connect}\nrm /etc/nvme/config.json"),
    );
    guest.eventually("the namespace appears", 20, &format!("nvme-device {nqn} 1"));
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

fn one_way_and_both(
    guest: &mut Guest,
    node: &Node,
    connect: &str,
    (hash, group): (&str, &str),
    secret: &str,
    controller: &str,
) {
    let nqn = node.shared();
    for (ends, options) in [
        ("the host", format!("-S {secret}")),
        ("both ends", format!("-S {secret} -C {controller}")),
    ] {
        let step = format!("{ends} authenticated with {hash} and {group}");
        guest.check(&step, &format!("{connect} -i 2 {options}"));
        let ready = format!("nvme-device {nqn} 1");
        guest.eventually("the namespace appears", 20, &ready);
        guest.check(
            "it serves, then disconnects",
            &format!(
                "
                dev=$(nvme-device {nqn} 1)
                dd if=/dev/urandom of=/tmp/written bs=64k count=4 2>/dev/null
                dd if=/tmp/written of=$dev bs=64k oflag=direct 2>/dev/null
                dd if=$dev of=/tmp/read bs=64k count=4 iflag=direct 2>/dev/null
                cmp /tmp/written /tmp/read
                dmesg | grep -q 'authenticated with hash hmac({hash}) dhgroup {group}'
                dmesg -c >/dev/null
                nvme disconnect -n {nqn}"
            ),
        );
    }
}

/// The host proves itself anew under I/O, which goes on; a session ends when the secret changes,
/// and comes back by itself with the new one.
fn again_and_again(guest: &mut Guest, node: &Node, connect: &str) {
    let nqn = node.shared();
    let (secret, controller) = make_key(node, "sha256", "ffdhe2048");
    guest.check(
        "connect for long",
        &format!("{connect} -i 2 --reconnect-delay 1 -S {secret} -C {controller}"),
    );
    guest.eventually("the namespace appears", 20, &format!("nvme-device {nqn} 1"));
    guest.spawn(
        "io",
        &format!(
            "fio --name=v --filename=$(nvme-device {nqn} 1) --size=16m --rw=randwrite --bs=4k \
             --ioengine=libaio --direct=1 --iodepth=4 --time_based --runtime=8 --verify=crc32c \
             --verify_backlog=128"
        ),
    );
    guest.check(
        "authenticate again, three times, under I/O",
        &format!(
            "
            ctl=$(basename $(nvme-device {nqn}))
            for round in 1 2 3; do
                dmesg -c >/dev/null
                echo {secret} >/sys/class/nvme/$ctl/dhchap_secret
                tries=0
                until dmesg | grep -q 'qid 0: authenticated with hash'; do
                    tries=$((tries + 1)); [ $tries -lt 100 ]; sleep 0.1
                done
            done
            [ $(cat /sys/class/nvme/$ctl/state) = live ]"
        ),
    );
    guest.join("I/O went on", "io", 60);
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

/// A new key for the guest; gives the secrets of host and node.
pub fn make_key(node: &Node, hash: &str, group: &str) -> (String, String) {
    let words = format!("host key guest --generate --mutual --hash {hash} --group {group} -o json");
    let made = node.command(&words).expect("the node makes a key");
    let made: Value = serde_json::from_str(&made).expect("the answer is JSON");
    let text = |field: &str| made[field].as_str().expect("a secret").to_owned();
    (text("secret"), text("controller_secret"))
}
