#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Drives of a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: drive
short_description: Add drives to a node, and remove them
version_added: "0.1.0"
description:
  - Adds a drive to a node under a name, or removes it.
  - Removing a drive that nothing uses keeps its contents.
  - The node refuses to remove a drive that a pool or a volume uses.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the drive.
    type: str
    required: true
  state:
    description: Whether the node has the drive.
    type: str
    choices: [present, absent]
    default: present
  kind:
    description:
      - Kind of the drive.
      - V(path) is a block device or a file.
      - V(memory) and V(null) are for tests, and V(emulated) is the model of a real drive.
    type: str
    choices: [path, memory, "null", emulated]
    default: path
  path:
    description: Absolute path of the device or file, on the node.
    type: str
  size:
    description:
      - Capacity, in bytes or with a unit such as V(10GiB), rounded up to whole blocks of 4 KiB.
      - For O(kind=path) a file that is missing is made this large. A block device takes no size.
    type: str
  profile:
    description: Model of an emulated drive, such as V(cm7-r-7.68).
    type: str
  directory:
    description:
      - Absolute path on the node where the data of an emulated drive is kept.
      - It is kept in memory where the option is not set, and is lost with the node.
    type: str
  scale_ppm:
    description: Capacity of an emulated drive, in millionths of the real one's.
    type: int
    default: 1000
  dilation_percent:
    description: How long an emulated drive takes, in percent of the real one's time.
    type: int
    default: 100
  administrators:
    description:
      - Names of the hosts that may manage the namespaces of an emulated drive.
      - Hosts that are not in the list lose that right. Nothing changes where the option is not set.
    type: list
    elements: str
seealso:
  - module: flashyard.storage.drive_info
"""

EXAMPLES = r"""
- name: Add a drive
  flashyard.storage.drive:
    name: d0
    path: /dev/nvme0n1
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Remove it, and keep its contents
  flashyard.storage.drive:
    name: d0
    state: absent
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
drive:
  description:
    - The drive, as the REST API shows it. It is empty where there is none.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: d0
    spec: {kind: path, path: /dev/nvme0n1}
    state: online
    capacity_bytes: 7681501126656
    block_bytes: 4096
    persistent: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    Plan,
    carry_out,
    differs,
    options,
    run,
    shown,
    without_nothing,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of
from ansible_collections.flashyard.storage.plugins.module_utils.size import blocks_of

FIELDS = {
    "path": (["path"], ["size"]),
    "memory": (["size"], []),
    "null": (["size"], []),
    "emulated": (["profile"], ["directory", "scale_ppm", "dilation_percent"]),
}


def spec_of(params):
    """The drive's kind and what goes with it, as the REST API has it."""
    needed, allowed = FIELDS[params["kind"]]
    for field in needed:
        if params[field] is None:
            raise Failure("a drive of kind %s needs %s" % (params["kind"], field))
    for field in ("path", "size", "profile", "directory"):
        if params[field] is not None and field not in needed + allowed:
            raise Failure("a drive of kind %s takes no %s" % (params["kind"], field))
    spec = dict((field, params[field]) for field in needed + allowed)
    if spec.get("size") is not None:
        spec["size"] = blocks_of(spec["size"], "size")
    return without_nothing(dict(spec, kind=params["kind"]))


def in_words(spec):
    """A drive's kind and what goes with it, for people."""
    return " ".join("%s=%s" % pair for pair in sorted(spec.items()))


def administrators_of(drive):
    """Hosts that manage the drive's namespaces."""
    return sorted((drive.get("administration") or {}).get("hosts", []))


def view(drive, params, spec=None):
    """Attributes that people set, and see in the difference."""
    if drive is None:
        return {}
    found = dict(drive["spec"])
    if spec and "size" not in spec:
        # How large a file was made need not be said again.
        found.pop("size", None)
    hosts = administrators_of(drive) if params["administrators"] is not None else None
    return dict(name=drive["name"], spec=found, administrators=hosts)


def plan_presence(plan, params, drive, spec):
    """Requests that make the drive what is asked for."""
    path = path_of("drives", params["name"])
    if drive is None:
        plan.ask("PUT", path, spec)
        plan.set(name=params["name"], spec=spec)
    elif plan.before["spec"] != spec:
        raise differs("drive " + params["name"], in_words(plan.before["spec"]), in_words(spec))
    if params["administrators"] is None:
        return
    if spec["kind"] != "emulated" and params["administrators"]:
        raise Failure("administrators: only an emulated drive has any")
    wanted, found = sorted(set(params["administrators"])), plan.before.get("administrators", [])
    for host in wanted:
        if host not in found:
            plan.ask("PUT", path_of("drives", params["name"], "administrators", host))
    for host in found:
        if host not in wanted:
            plan.ask("DELETE", path_of("drives", params["name"], "administrators", host))
    plan.set(administrators=wanted)


def work(module, node):
    """Looks at the drive, plans, and carries out."""
    params = module.params
    path = path_of("drives", params["name"])
    drive, tag = node.find(path)
    spec = spec_of(params) if params["state"] == "present" else None
    plan = Plan(view(drive, params, spec))
    if spec:
        plan_presence(plan, params, drive, spec)
        plan.expect(node, "hosts", params["administrators"] or [])
    elif drive is not None:
        user = drive.get("pool") or drive.get("volume")
        if user:
            warning = "drive %s is used by %s until that is gone" % (params["name"], user)
            plan.warnings.append(warning)
        plan.ask("DELETE", path)
        plan.nothing_left()

    def read():
        return view(node.find(path)[0], params, spec)

    result = carry_out(module, node, plan, read, tag)
    return shown(module, result, "drive", drive, node, path)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            kind=dict(
                type="str", choices=["path", "memory", "null", "emulated"], default="path"
            ),
            path=dict(type="str"),
            size=dict(type="str"),
            profile=dict(type="str"),
            directory=dict(type="str"),
            scale_ppm=dict(type="int", default=1000),
            dilation_percent=dict(type="int", default=100),
            administrators=dict(type="list", elements="str"),
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
