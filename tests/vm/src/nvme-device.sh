#!/bin/sh
# nvme-device NQN [NSID]: the block device of a connected namespace, or the controller of a
# subsystem. Ends with 1 when there is none.
if [ $# = 1 ]; then
    for controller in /sys/class/nvme/nvme*; do
        [ "$(cat "$controller/subsysnqn" 2>/dev/null)" = "$1" ] || continue
        echo "/dev/${controller##*/}"
        exit 0
    done
    exit 1
fi
for disk in /sys/block/nvme*; do
    name=${disk##*/}
    # nvme0c0n1 is one path of a disk, not the disk.
    case $name in *c*n*) continue ;; esac
    [ "$(cat "$disk/nsid" 2>/dev/null)" = "$2" ] || continue
    [ "$(cat "$disk/device/subsysnqn" 2>/dev/null)" = "$1" ] || continue
    # It is in sysfs before it can be opened.
    [ -b "/dev/$name" ] || continue
    echo "/dev/$name"
    exit 0
done
exit 1
