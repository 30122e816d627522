#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Volumes of a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: volume
short_description: Make, change and delete volumes
version_added: "0.1.0"
description:
  - Makes a volume in a pool, on a whole drive, or as a clone of a snapshot.
  - Changes its size, name, hosts, limits, and whether space is kept for all of it.
  - Its NQN, namespace identifier and UUID are made once and never change.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.limits
options:
  name:
    description: Name of the volume.
    type: str
    required: true
  state:
    description:
      - Whether the node has the volume.
      - V(absent) deletes it with its data. Its snapshots stay.
    type: str
    choices: [present, absent]
    default: present
  rename_from:
    description:
      - Name that the volume has had so far.
      - It counts where no volume is called O(name). Hosts do not notice.
    type: str
  pool:
    description: Pool of the volume, which does not change.
    type: str
  drive:
    description: Drive that the volume takes whole, instead of a pool. It does not change.
    type: str
  snapshot:
    description:
      - Snapshot as which a new volume starts out, as V(NAME) or V(POOL/NAME).
      - A volume that was made from another one is refused.
    type: str
  size:
    description:
      - Size, in bytes or with a unit such as V(2TiB), rounded up to whole blocks of 4 KiB.
      - A larger size than the volume has grows it. A smaller one needs O(allow_shrink).
    type: str
  allow_shrink:
    description:
      - Allows O(size) to be smaller than the volume is. What is behind it is lost.
      - The node refuses it while hosts are connected.
    type: bool
    default: false
  block_bytes:
    description: Bytes in a logical block. A new volume gets V(4096). It does not change.
    type: int
    choices: [512, 4096]
    aliases: [block_size]
  hosts:
    description:
      - Names of the hosts that may use the volume. V(any) stands for every host.
      - Hosts that are not in the list lose access, which ends their sessions.
      - Nothing changes where the option is not set.
    type: list
    elements: str
  reserved:
    description: Whether the pool keeps space for all of the volume.
    type: bool
    aliases: [thick]
  subsystem:
    description:
      - Name of a subsystem that several volumes share. A volume has one of its own otherwise.
      - It does not change.
    type: str
  promoted:
    description:
      - Makes a replica a volume, as of its last copy. Its original's node copies to it no more.
      - Nothing changes where the volume is no replica.
    type: bool
    default: false
  tenant:
    description: Tenant to which the volume belongs. It does not change.
    type: str
  keep_data:
    description: With O(drive), serves what the drive carries as it is.
    type: bool
    default: false
  force:
    description:
      - For O(state=present) with O(drive), allows a drive that carries something. It is wiped.
      - For O(state=absent), deletes the volume also while hosts are connected.
    type: bool
    default: false
seealso:
  - module: flashyard.storage.volume_info
  - module: flashyard.storage.snapshot
"""

EXAMPLES = r"""
- name: Make a volume
  flashyard.storage.volume:
    name: data
    pool: fast
    size: 2TiB
    hosts: [db-1]
    limits:
      total: {iops: 20000, bytes_per_second: 500MB}
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Let it grow
  flashyard.storage.volume:
    name: data
    size: 4TiB
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Make a volume that starts out as a snapshot
  flashyard.storage.volume:
    name: test
    snapshot: monday
    hosts: [db-2]
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
volume:
  description:
    - The volume, as the REST API shows it. It is empty where there is none.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: data
    pool: fast
    state: online
    capacity_bytes: 2199023255552
    block_bytes: 4096
    hosts: [db-1]
    nqn: "nqn.2026-11.example.flashyard:node-1:data"
    nsid: 1
    uuid: 418a4088-fdcc-4d48-93a7-037f86620762
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
from ansible_collections.flashyard.storage.plugins.module_utils.limits import (
    limits_of,
    limits_option,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of
from ansible_collections.flashyard.storage.plugins.module_utils.size import blocks_of

# Attributes that people see of a volume that is deleted.
DELETED = ("name", "pool", "drive", "capacity_bytes", "hosts")
# By option the attribute of the REST API. None changes on a volume that is there.
FIXED = dict(
    pool="pool", drive="drive", block_bytes="block_bytes", tenant="tenant", subsystem="subsystem"
)


def attributes_of(volume):
    """Attributes that people set of a volume, in the words of the REST API."""
    found = dict((key, volume.get(key)) for key in ("name", "pool", "drive", "tenant", "limits"))
    found.update(
        capacity_bytes=volume["capacity_bytes"],
        block_bytes=volume["block_bytes"],
        hosts=sorted(volume["hosts"]),
        reserved=volume.get("reserved", False),
        origin=volume.get("origin"),
        replica_of=volume.get("replica_of"),
        subsystem=volume["nqn"].rsplit(":", 1)[-1],
    )
    return found


def view(volume, params):
    """Attributes that the task is about, which people see in the difference."""
    if volume is None:
        return {}
    found = attributes_of(volume)
    if params["state"] == "absent":
        return dict((key, found[key]) for key in DELETED)
    asked = dict((key, params[option]) for option, key in FIXED.items())
    asked.update(name=params["name"], capacity_bytes=params["size"], hosts=params["hosts"])
    asked.update(replica_of=params["promoted"] or None)
    asked.update(reserved=params["reserved"], limits=params["limits"], origin=params["snapshot"])
    return dict((key, found[key]) for key, value in asked.items() if value is not None)


def spec_of(params):
    """The body of a request that makes the volume."""
    spec = dict((option, params[option]) for option in FIXED)
    spec.update(snapshot=params["snapshot"], hosts=params["hosts"], reserved=params["reserved"])
    if params["size"] is not None:
        spec["size"] = blocks_of(params["size"], "size")
    for option in ("force", "keep_data"):
        if params[option]:
            spec[option] = True
    return without_nothing(spec)


def plan_new(plan, params, node):
    """Requests that make the volume."""
    name, spec = params["name"], spec_of(params)
    if not (params["drive"] or params["snapshot"] or (params["pool"] and params["size"])):
        raise Failure(
            "volume %s is not there, and to make it needs pool and size, drive, or snapshot" % name
        )
    plan.ask("PUT", path_of("volumes", name), spec)
    made = dict((key, params[option]) for option, key in FIXED.items())
    made.update(name=name, capacity_bytes=spec.get("size"), reserved=params["reserved"])
    if params["hosts"] is not None:
        made["hosts"] = sorted(set(params["hosts"]))
    if params["snapshot"]:
        made["origin"] = params["snapshot"].rsplit("/", 1)[-1]
    plan.set(**made)
    plan_limits(plan, params)
    for kind, option in (("pools", "pool"), ("drives", "drive"), ("snapshots", "snapshot")):
        if params[option]:
            plan.expect(node, kind, [params[option].rsplit("/", 1)[-1]])


def refuse_other(volume, params):
    """Refuses other values of attributes that do not change."""
    found = attributes_of(volume)
    for option, key in sorted(FIXED.items()):
        wanted = params[option]
        if wanted is not None and wanted != found[key]:
            what = "%s of volume %s" % (option, volume["name"])
            raise differs(what, found[key] or "none", wanted)
    origin = (params["snapshot"] or "").rsplit("/", 1)[-1]
    if origin and origin != found["origin"]:
        what = "snapshot of volume " + volume["name"]
        raise differs(what, found["origin"] or "none", origin)


def plan_size(plan, params, path):
    """The request that changes the size. A smaller one needs a word of permission."""
    if params["size"] is None:
        return
    wanted, found = blocks_of(params["size"], "size"), plan.before["capacity_bytes"]
    if wanted < found and not params["allow_shrink"]:
        raise Failure(
            "volume %s has %d bytes and would shrink to %d; allowed with allow_shrink"
            % (params["name"], found, wanted)
        )
    if wanted != found:
        body = dict(size=wanted)
        if wanted < found:
            body["allow_shrink"] = True
        plan.ask("POST", path + "/resize", body)
        plan.set(capacity_bytes=wanted)


def plan_hosts(plan, params):
    """Requests that allow hosts, and then deny those that are not asked for."""
    if params["hosts"] is None:
        return
    wanted, found = sorted(set(params["hosts"])), plan.before.get("hosts", [])
    added = [host for host in wanted if host not in found]
    for host in added:
        plan.ask("PUT", path_of("volumes", params["name"], "hosts", host))
    for host in found:
        if host not in wanted:
            plan.ask("DELETE", path_of("volumes", params["name"], "hosts", host))
    plan.set(hosts=wanted)


def plan_limits(plan, params):
    """The request that sets the limits."""
    if params["limits"] is None:
        return
    limits = limits_of(params["limits"])
    if limits != plan.before.get("limits"):
        plan.ask("PUT", path_of("volumes", params["name"], "limits"), limits or {})
    plan.set(limits=limits)


def plan_changes(plan, params, volume):
    """Requests that make a volume that is there what is asked for."""
    refuse_other(volume, params)
    path = path_of("volumes", params["name"])
    if volume["name"] != params["name"]:
        old = path_of("volumes", volume["name"])
        plan.ask("POST", old + "/rename", dict(name=params["name"]))
        plan.set(name=params["name"])
    if "replica_of" in plan.before:
        plan.ask("POST", path + "/promote")
        plan.set(replica_of=None)
    plan_size(plan, params, path)
    if params["reserved"] is not None and params["reserved"] != plan.before["reserved"]:
        plan.ask("POST", path + "/reserve", dict(reserved=params["reserved"]))
        plan.set(reserved=params["reserved"])
    plan_hosts(plan, params)
    plan_limits(plan, params)


def work(module, node):
    """Looks at the volume, plans, and carries out."""
    params = module.params
    path = path_of("volumes", params["name"])
    volume, tag = node.find(path)
    if volume is None and params["rename_from"] and params["state"] == "present":
        volume, tag = node.find(path_of("volumes", params["rename_from"]))
    plan = Plan(view(volume, params))
    if params["state"] == "absent":
        if volume is not None:
            plan.ask("DELETE", path_of("volumes", params["name"], force=params["force"]))
            plan.nothing_left()
    else:
        hosts = [host for host in params["hosts"] or [] if host != "any"]
        plan.expect(node, "hosts", hosts)
        if volume is None:
            plan_new(plan, params, node)
        else:
            plan_changes(plan, params, volume)
    result = carry_out(module, node, plan, lambda: view(node.find(path)[0], params), tag)
    return shown(module, result, "volume", volume, node, path)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            rename_from=dict(type="str"),
            pool=dict(type="str"),
            drive=dict(type="str"),
            snapshot=dict(type="str"),
            size=dict(type="str"),
            allow_shrink=dict(type="bool", default=False),
            block_bytes=dict(type="int", choices=[512, 4096], aliases=["block_size"]),
            hosts=dict(type="list", elements="str"),
            reserved=dict(type="bool", aliases=["thick"]),
            subsystem=dict(type="str"),
            promoted=dict(type="bool", default=False),
            tenant=dict(type="str"),
            limits=limits_option(),
            keep_data=dict(type="bool", default=False),
            force=dict(type="bool", default=False),
        ),
        mutually_exclusive=[("drive", "pool"), ("drive", "snapshot"), ("drive", "size")],
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
