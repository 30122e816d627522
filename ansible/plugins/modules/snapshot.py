#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Snapshots of volumes."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: snapshot
short_description: Take snapshots of volumes, and delete them
version_added: "0.1.0"
description:
  - Takes a snapshot of a volume, or snapshots of several volumes at one instant.
  - A snapshot that is there already stays as it is.
  - A snapshot of a mounted file system is what the disk would be after a power loss.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the snapshot.
    type: str
  volume:
    description: Volume of which the snapshot is taken.
    type: str
  pool:
    description: Pool of the snapshot, where snapshots of two pools have one name.
    type: str
  group:
    description:
      - Snapshots of several volumes of one pool, all of one instant.
      - Where some of them are there and others are not, nothing is done and the task fails.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the snapshot.
        type: str
        required: true
      volume:
        description: Volume of which it is taken.
        type: str
  state:
    description: Whether the node has the snapshots.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: flashyard.storage.snapshot_info
"""

EXAMPLES = r"""
- name: Take a snapshot
  flashyard.storage.snapshot:
    name: monday
    volume: data
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Take snapshots of two volumes at one instant
  flashyard.storage.snapshot:
    group:
      - {name: data-tuesday, volume: data}
      - {name: log-tuesday, volume: log}
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
snapshots:
  description:
    - The snapshots, as the REST API shows them. There are none where they are absent.
    - A check run gives what is known of them.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: monday, pool: fast, volume: data, bytes: 2199023255552}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    Plan,
    carry_out,
    differs,
    options,
    run,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of


def path_to(name, pool):
    """The path of a snapshot, by its name alone or in a pool."""
    return path_of("pools", pool, "snapshots", name) if pool else path_of("snapshots", name)


def view(snapshots):
    """Attributes that people set, and see in the difference."""
    names = sorted(found["name"] for found in snapshots)
    volumes = dict((found["name"], found.get("volume")) for found in snapshots)
    return dict((name, volumes[name]) for name in names)


def plan_presence(plan, node, wanted, found):
    """Requests that take the snapshots, all of them or none."""
    volumes = dict((snapshot["name"], snapshot.get("volume")) for snapshot in found)
    for snapshot in wanted:
        name, volume = snapshot["name"], snapshot["volume"]
        if volume is None:
            raise Failure("snapshot %s needs volume" % name)
        if name in volumes and volumes[name] != volume:
            raise differs("snapshot " + name, "of volume %s" % volumes[name], "of volume " + volume)
    missing = [snapshot for snapshot in wanted if snapshot["name"] not in volumes]
    if not missing:
        return
    if found:
        there, new = ", ".join(sorted(volumes)), ", ".join(new["name"] for new in missing)
        raise Failure("snapshots of one instant: %s is there, and %s is not" % (there, new))
    if len(wanted) == 1:
        path = path_of("snapshots", wanted[0]["name"])
        plan.ask("PUT", path, dict(volume=wanted[0]["volume"]))
    else:
        plan.ask("POST", path_of("snapshots"), dict(snapshots=wanted))
    plan.set(**view(wanted))
    plan.expect(node, "volumes", [snapshot["volume"] for snapshot in wanted])


def work(module, node):
    """Looks at the snapshots, plans, and carries out."""
    params = module.params
    alone = [dict(name=params["name"], volume=params["volume"])]
    wanted = params["group"] if params["group"] is not None else alone
    paths = [path_to(snapshot["name"], params["pool"]) for snapshot in wanted]

    def look():
        found = [node.find(path)[0] for path in paths]
        return [snapshot for snapshot in found if snapshot is not None]

    found = look()
    plan = Plan({})
    plan.before = view(found)
    plan.after = dict(plan.before)
    if params["state"] == "present":
        plan_presence(plan, node, wanted, found)
    else:
        for path, snapshot in zip(paths, wanted):
            if snapshot["name"] in plan.before:
                plan.ask("DELETE", path)
        plan.nothing_left()
    result = carry_out(module, node, plan, lambda: view(look()))
    predicted = [dict(name=name, volume=volume) for name, volume in plan.after.items()]
    foretold = module.check_mode and result["changed"]
    return dict(result, snapshots=predicted if foretold else look())


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str"),
            volume=dict(type="str"),
            pool=dict(type="str"),
            group=dict(
                type="list",
                elements="dict",
                options=dict(
                    name=dict(type="str", required=True),
                    volume=dict(type="str"),
                ),
            ),
            state=STATE,
        ),
        mutually_exclusive=[("name", "group"), ("volume", "group")],
        required_one_of=[("name", "group")],
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
