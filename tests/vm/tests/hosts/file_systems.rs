//! File systems that a host puts on a namespace: made, filled, read back after a mount, checked.

use vm::{Guest, Node};

pub fn scenario(guest: &mut Guest, node: Node) {
    let nqn = node.shared();
    let connect = format!("nvme connect {} -n {nqn}", node.over_ipv4());
    guest.check("connect", &connect);
    guest.eventually(
        "both namespaces appear",
        10,
        &format!("nvme-device {nqn} 1 && nvme-device {nqn} 2"),
    );
    tree(guest);
    // Each on its own namespace, so that the second also meets the other block size.
    file_system(guest, nqn, 1, "ext4", "mkfs.ext4 -q", "e2fsck -f -n");
    file_system(guest, nqn, 2, "xfs", "mkfs.xfs -q -f", "xfs_repair -n");
    guest.check("disconnect", &format!("nvme disconnect -n {nqn}"));
}

/// Makes what [`file_system`] copies.
pub fn tree(guest: &mut Guest) {
    guest.check(
        "a tree to copy",
        "
        mkdir /tmp/tree
        cp -a /bin /etc /tmp/tree
        head -c 8388608 /dev/urandom >/tmp/tree/random
        i=0; while [ $i -lt 200 ]; do echo $i >/tmp/tree/small$i; i=$((i + 1)); done
        cd /tmp/tree; find . -type f -exec md5sum {} + >/tmp/sums",
    );
}

/// Makes a file system on a namespace, fills it, and compares after another mount.
pub fn file_system(guest: &mut Guest, nqn: &str, space: u32, name: &str, make: &str, repair: &str) {
    let space = format!("space=$(nvme-device {nqn} {space})\n");
    let mut check = |step: &str, script: &str| guest.check(step, &format!("{space}{script}"));
    check(&format!("{name}: make"), &format!("{make} $space"));
    check(
        &format!("{name}: mount and copy"),
        &format!(
            "
        mount -t {name} $space /mnt
        cp -a /tmp/tree /mnt/
        sync
        umount /mnt"
        ),
    );
    check(
        &format!("{name}: mount again and compare"),
        &format!(
            "
        echo 3 >/proc/sys/vm/drop_caches
        mount -t {name} $space /mnt
        cd /mnt/tree; md5sum -c -s /tmp/sums; cd /
        rm -r /mnt/tree/bin
        fstrim /mnt
        umount /mnt"
        ),
    );
    check(&format!("{name}: check"), &format!("{repair} $space"));
}
