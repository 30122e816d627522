#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Pools of a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: pool
short_description: Make pools of drives, change their drives, and destroy them
version_added: "0.1.0"
description:
  - Makes a pool of drives, adds drives to it and removes drives from it, or destroys it.
  - The node refuses to destroy a pool that has volumes.
  - A drive that carries something is refused without O(force).
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the pool.
    type: str
    required: true
  state:
    description:
      - Whether the node has the pool.
      - V(absent) destroys it, with what is on its drives.
    type: str
    choices: [present, absent]
    default: present
  level:
    description: Redundancy of the pool. It is needed to make one, and does not change.
    type: str
    choices: [raid0, raid1, raid5, raid6, raid10]
  drives:
    description:
      - Names of the drives that the pool has. They are needed to make one.
      - Drives that are no members yet are added.
      - Members that are not in the list are removed with O(remove_drives), and are refused without.
    type: list
    elements: str
  remove_drives:
    description:
      - Allows members that are not in O(drives) to be emptied and removed, one after another.
      - The module waits for that.
    type: bool
    default: false
  width:
    description: Drives that one stripe is spread over. It does not change.
    type: int
  force:
    description: Allows drives that carry something to be taken. It is wiped.
    type: bool
    default: false
  wait_timeout:
    description: Seconds that the removal of a drive may take.
    type: int
    default: 86400
seealso:
  - module: flashyard.storage.pool_info
"""

EXAMPLES = r"""
- name: Make a pool
  flashyard.storage.pool:
    name: fast
    level: raid6
    drives: [d0, d1, d2, d3, d4, d5]
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Put another drive in place of one
  flashyard.storage.pool:
    name: fast
    drives: [d6, d1, d2, d3, d4, d5]
    remove_drives: true
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
pool:
  description:
    - The pool, as the REST API shows it. It is empty where there is none.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: fast
    state: online
    level: raid6
    width: 6
    drives_to_spare: 2
    usable_bytes: 29000000000000
    used_bytes: 0
    volumes: []
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


def view(pool, params):
    """Attributes that people set, and see in the difference."""
    if pool is None:
        return {}
    members = pool["members"]
    drives = sorted(member["drive"] for member in members if member["active"] and "drive" in member)
    shown_width = pool.get("width") if params["width"] is not None else None
    return dict(name=pool["name"], level=pool.get("level"), drives=drives, width=shown_width)


def plan_new(plan, params, node):
    """Requests that make the pool."""
    for option in ("level", "drives"):
        if not params[option]:
            missing = (params["name"], option)
            raise Failure("pool %s is not there, and to make it needs %s" % missing)
    spec = without_nothing(
        dict(level=params["level"], drives=params["drives"], width=params["width"])
    )
    if params["force"]:
        spec["force"] = True
    plan.ask("PUT", path_of("pools", params["name"]), spec)
    drives = sorted(params["drives"])
    plan.set(name=params["name"], level=params["level"], drives=drives, width=params["width"])
    plan.expect(node, "drives", drives)


def plan_changes(plan, params, node):
    """Requests that make a pool that is there what is asked for."""
    name = params["name"]
    for option in ("level", "width"):
        wanted, found = params[option], plan.before.get(option)
        if wanted is not None and found is not None and wanted != found:
            raise differs("%s of pool %s" % (option, name), found, wanted)
    if params["drives"] is None:
        return
    wanted, found = sorted(set(params["drives"])), plan.before["drives"]
    added = [drive for drive in wanted if drive not in found]
    removed = [drive for drive in found if drive not in wanted]
    if removed and not params["remove_drives"]:
        raise Failure(
            "pool %s has drives that are not asked for: %s; allowed with remove_drives"
            % (name, ", ".join(removed))
        )
    # First those that join, for what is on the others to have room.
    for drive in added:
        plan.ask("PUT", path_of("pools", name, "drives", drive, force=params["force"]))
    for drive in removed:
        plan.ask("DELETE", path_of("pools", name, "drives", drive), wait=params["wait_timeout"])
    plan.set(drives=wanted)
    plan.expect(node, "drives", added)


def work(module, node):
    """Looks at the pool, plans, and carries out."""
    params = module.params
    path = path_of("pools", params["name"])
    pool, tag = node.find(path)
    plan = Plan(view(pool, params))
    if params["state"] == "present":
        if pool is None:
            plan_new(plan, params, node)
        else:
            plan_changes(plan, params, node)
    elif pool is not None:
        if pool["volumes"]:
            volumes = (params["name"], ", ".join(pool["volumes"]))
            plan.warnings.append("pool %s has volumes until they are gone: %s" % volumes)
        plan.ask("DELETE", path)
        plan.nothing_left()
    result = carry_out(module, node, plan, lambda: view(node.find(path)[0], params), tag)
    return shown(module, result, "pool", pool, node, path)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            level=dict(type="str", choices=["raid0", "raid1", "raid5", "raid6", "raid10"]),
            drives=dict(type="list", elements="str"),
            remove_drives=dict(type="bool", default=False),
            width=dict(type="int"),
            force=dict(type="bool", default=False),
            wait_timeout=dict(type="int", default=86400),
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
