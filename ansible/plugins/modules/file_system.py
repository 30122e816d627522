#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""File systems on attached volumes."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: file_system
short_description: Make a file system on an attached volume, mount it, and keep it in fstab
version_added: "0.1.0"
description:
  - Makes a file system where the device carries nothing, and mounts it.
  - A device that carries anything else is refused. Nothing is ever overwritten.
  - An entry of fstab names the file system by its UUID, as devices change their names.
  - The entry has C(_netdev) and C(nofail), so that a host starts without its nodes.
options:
  path:
    description: Mount point. It is made where it is not there.
    type: path
    required: true
  state:
    description:
      - Whether the file system is mounted.
      - With V(absent) it is unmounted and out of fstab. The file system stays on its volume.
    type: str
    choices: [present, absent]
    default: present
  device:
    description:
      - Block device, such as the one that M(flashyard.storage.attach) returns.
      - It is needed to mount. A check run takes one that is not there as blank.
    type: path
  type:
    description: Kind of file system.
    type: str
    choices: [xfs, ext4]
    default: xfs
  uuid:
    description:
      - UUID of a file system that is made. A random one is taken where the option is not set.
      - The volume's own UUID is a good one.
    type: str
  options:
    description: Options of the mount, beside C(_netdev) and C(nofail) in fstab.
    type: str
    default: defaults
  boot:
    description: Whether fstab has the file system, which mounts it when the host starts.
    type: bool
    default: true
attributes:
  check_mode:
    description: A check run changes nothing, and predicts what a run changes.
    support: full
  diff_mode:
    description: The module returns what differs.
    support: full
notes:
  - The module runs on the host that uses the volume, as root.
  - A file system that is mounted keeps its options until it is mounted again.
author:
  - Flashyard contributors (@flashyard)
seealso:
  - module: flashyard.storage.attach
"""

EXAMPLES = r"""
- name: Mount the volume
  flashyard.storage.file_system:
    path: /srv/data
    device: "{{ attached.attachment.device }}"

- name: Unmount it for good
  flashyard.storage.file_system:
    path: /srv/data
    state: absent
"""

RETURN = r"""
file_system:
  description: How it is afterwards. A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    path: /srv/data
    type: xfs
    uuid: 418a4088-fdcc-4d48-93a7-037f86620762
    mounted: true
    fstab: "UUID=418a4088-fdcc-4d48-93a7-037f86620762 /srv/data xfs defaults,_netdev,nofail 0 0"
"""

import os
import stat

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    without_nothing,
)
from ansible_collections.flashyard.storage.plugins.module_utils.mounts import (
    FSTAB,
    carried,
    escaped,
    fstab_lines,
    is_entry,
    plain,
    run,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

MAKE = {"xfs": ["mkfs.xfs", "-q"], "ext4": ["mkfs.ext4", "-q"]}
# How mkfs takes a UUID.
WITH_UUID = {"xfs": lambda uuid: ["-m", "uuid=" + uuid], "ext4": lambda uuid: ["-U", uuid]}


def mounted_on(path):
    """Number of the device that is mounted there, as MAJOR:MINOR; nothing if none is."""
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields = line.split()
            if plain(fields[4]) == path:
                found = fields[2]
    return found


def number_of(device):
    """Number of a block device."""
    number = os.stat(device).st_rdev
    return "%d:%d" % (os.major(number), os.minor(number))


class FileSystem:
    """How it is, and how it will be."""

    def __init__(self, module):
        self.module, self.params = module, module.params
        self.path = os.path.normpath(self.params["path"])
        self.device = self.params["device"]
        self.is_there = bool(self.device) and os.path.exists(self.device)
        if self.is_there and not stat.S_ISBLK(os.stat(self.device).st_mode):
            raise Failure("%s is no block device" % self.device)
        self.content = carried(module, self.device) if self.is_there else {}

    def look(self):
        """How it is now."""
        number = mounted_on(self.path)
        if number and self.is_there and number != number_of(self.device):
            raise Failure("%s has another file system, on device %s" % (self.path, number))
        entries = [line for line in fstab_lines() if is_entry(line, self.path)]
        return without_nothing(
            dict(
                type=self.content.get("TYPE"),
                uuid=self.content.get("UUID"),
                mounted=number is not None,
                fstab=entries[0] if entries else None,
            )
        )

    def planned(self, before):
        """How it is to be."""
        params = self.params
        if params["state"] == "absent":
            kept = dict((key, before[key]) for key in ("type", "uuid") if key in before)
            return dict(kept, mounted=False)
        if not self.is_there and not self.module.check_mode:
            raise Failure("device %s is not there; allowed: a block device" % self.device)
        found = self.content.get("TYPE") or self.content.get("PTTYPE")
        if found not in (None, params["type"]):
            raise Failure(
                "%s carries %s and not %s, which is never overwritten; wipe it first"
                % (self.device, found, params["type"])
            )
        uuid = self.content.get("UUID") or params["uuid"]
        fstab = None
        if params["boot"]:
            options = ",".join([params["options"], "_netdev", "nofail"])
            source = "UUID=%s" % (uuid or "(made by mkfs)")
            fstab = " ".join([source, escaped(self.path), params["type"], options, "0", "0"])
        return without_nothing(
            dict(type=params["type"], uuid=uuid, mounted=True, fstab=fstab)
        )

    def carry_out(self, before, after):
        """Makes it so."""
        if "type" in after and "type" not in before and after["mounted"]:
            self.make()
            after = self.planned(self.look())
        if after["mounted"] and not before["mounted"]:
            os.makedirs(self.path, exist_ok=True)
            run(self.module, "mount", "-o", self.params["options"], self.device, self.path)
        elif before["mounted"] and not after["mounted"]:
            run(self.module, "umount", self.path)
        if before.get("fstab") != after.get("fstab"):
            self.write_fstab(after.get("fstab"))
        return after

    def make(self):
        """Makes the file system on a blank device."""
        command, uuid = MAKE[self.params["type"]], self.params["uuid"]
        if uuid:
            command = command + WITH_UUID[self.params["type"]](uuid)
        run(self.module, *(command + [self.device]))
        self.content = carried(self.module, self.device)

    def write_fstab(self, entry):
        """Has fstab mount this there, or nothing; all other lines stay."""
        lines = [line for line in fstab_lines() if not is_entry(line, self.path)]
        if entry is not None:
            lines.append(entry)
        new = os.path.join(self.module.tmpdir, "fstab")
        with open(new, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        self.module.atomic_move(new, FSTAB)


def work(module):
    """Looks, plans, and carries out."""
    file_system = FileSystem(module)
    before = file_system.look()
    after = file_system.planned(before)
    changed = before != after
    if changed and not module.check_mode:
        after = file_system.carry_out(before, after)
    shown = dict(after, path=file_system.path)
    return dict(changed=changed, diff=dict(before=before, after=after), file_system=shown)


def main():
    module = AnsibleModule(
        argument_spec=dict(
            path=dict(type="path", required=True),
            state=STATE,
            device=dict(type="path"),
            type=dict(type="str", choices=["xfs", "ext4"], default="xfs"),
            uuid=dict(type="str"),
            options=dict(type="str", default="defaults"),
            boot=dict(type="bool", default=True),
        ),
        required_if=[("state", "present", ["device"])],
        supports_check_mode=True,
    )
    try:
        result = work(module)
    except (Failure, OSError) as failure:
        module.fail_json(msg=str(failure))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
