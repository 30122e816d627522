# In the guest: makes a server whose files are this machine's ($MACHINE), has changes of them stay on
# a disk of its own, and has systemd run it in place of the agent. $MODULES are the kernel's modules
# among those files. What a bare server has not is taken away when the disk is blank.
for module in /modules/later/*; do
    case $module in *9p*|*netfs*|*fscache*|*overlay*) insmod "$module" ;; esac
done
mkdir -p /machine /changes /new
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 machine /machine
mount -t ext4 /dev/vda /changes
if [ ! -e /changes/upper ]; then
    mkdir /changes/upper /changes/work
    blank=yes
fi
mount -t overlay -o lowerdir=/machine,upperdir=/changes/upper,workdir=/changes/work server /new
mkdir -p /new/usr/lib/modules
mount --bind "/machine$MODULES" /new/usr/lib/modules
mount -t tmpfs tmp /new/tmp

if [ "${blank:-no}" = yes ]; then
    cd /new
    rm -rf etc/fstab etc/nvme etc/flashyard usr/bin/flashyard var/lib/flashyard
    # Services and package lists of this machine.
    rm -rf etc/systemd/system/*.wants etc/rc?.d etc/apt/sources.list*
    rm -rf var/lib/apt/lists/*
    # Manual pages of this machine are many.
    rm -f var/lib/man-db/auto-update
    tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
    echo db-1 >etc/hostname
    cp /bin/answer root/answer
    cp /run/serve root/serve
    units=etc/systemd/system
    ln -s /lib/systemd/system/multi-user.target $units/default.target
    mkdir -p $units/multi-user.target.wants $units/sockets.target.wants
    # Debian has it from the first start on.
    ln -s /lib/systemd/system/remote-fs.target $units/multi-user.target.wants/
    cat >$units/answer.service <<UNIT
[Service]
ExecStart=/bin/sh /root/answer
Environment=HOME=/root LC_ALL=C.UTF-8
KillMode=process
UNIT
    ln -s ../answer.service $units/multi-user.target.wants/
    cat >$units/serve.socket <<UNIT
[Socket]
ListenStream=7000
Accept=yes
UNIT
    ln -s ../serve.socket $units/sockets.target.wants/
    cat >$units/serve@.service <<UNIT
[Service]
ExecStart=/bin/sh /root/serve
StandardInput=socket
StandardError=journal
Environment=HOME=/root LC_ALL=C.UTF-8
KillMode=process
UNIT
    cd /
fi

ip address add 10.0.3.15/24 dev eth1
ip link set eth1 up
# The server loads the host's modules by itself.
rmmod nvme_tcp
rmmod nvme_fabrics
rmmod nvme
rmmod nvme_core
cat >/run/next <<END
for place in proc sys dev; do mount -o move /\$place /new/\$place; done
exec switch_root /new /lib/systemd/systemd
END
