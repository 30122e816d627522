#!/bin/sh
# Process 1 of the guest: prepares a small system, then runs the scripts that arrive. One that writes
# /run/next has it become what that script makes of it, such as another init.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=80% tmp /tmp
mount -t tmpfs run /run
ln -s /proc/self/mounts /etc/mtab

for module in /modules/*.ko; do
    insmod "$module" || echo "cannot load $module"
done

# The user network of QEMU: the machine outside is 10.0.2.2 and fec0::2.
ip link set lo up
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
ip address add fec0::15/64 dev eth0
hostname guest
echo nqn.2014-08.org.nvmexpress:uuid:2cd2c43b-a90a-45c1-a8cd-86b33ab273b5 >/etc/nvme/hostnqn
echo 2cd2c43b-a90a-45c1-a8cd-86b33ab273b5 >/etc/nvme/hostid

/bin/answer
[ ! -e /run/next ] || exec sh /run/next
poweroff -f
