#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Ports: addresses at which a node serves NVMe/TCP or NVMe/RDMA."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: port
short_description: Say how good a path each port is
version_added: "0.1.0"
description:
  - Says how good a port is as a path to every volume, or to the volumes of a pool. Hosts are told at once.
  - Ports themselves are in the node's settings file.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  id:
    description: Number of the port, which is its place in the settings file, from 1 on.
    type: int
    required: true
  path:
    description:
      - How good a path it is, to all volumes but those of pools with a state of their own.
      - Through an V(inaccessible) one no I/O begins. V(persistent_loss) is the same, and for good.
      - The node remembers it. Without it the state stays.
    type: str
    choices: [optimized, non_optimized, inaccessible, persistent_loss]
  pools:
    description:
      - States of their own for pools, by the pool's name. Pools that are not named keep theirs.
      - Allowed are those of O(path), and V(as_port), which takes the state of its own away.
    type: dict
seealso:
  - module: flashyard.storage.port_info
"""

EXAMPLES = r"""
- name: Lead hosts around a switch that is worked on
  flashyard.storage.port:
    id: 2
    path: inaccessible
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Have the volumes of one pool used through this port only where there is no other
  flashyard.storage.port:
    id: 1
    pools:
      archive: non_optimized
      fast: as_port
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
port:
  description:
    - The port, as the REST API shows it.
    - A check run gives what it will be.
  returned: success
  type: dict
  sample: {id: 2, address: "192.0.2.10:4420", path: inaccessible, tls: false}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    Plan,
    carry_out,
    options,
    run,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of


def port_of(node, number):
    """The port with a number."""
    ports = node.all("ports")
    for port in ports:
        if port["id"] == number:
            return port
    numbers = ", ".join(str(port["id"]) for port in ports)
    raise Failure("node %s: no port has the number %d; ports: %s" % (node.url, number, numbers))


STATES = ["optimized", "non_optimized", "inaccessible", "persistent_loss"]
AS_PORT = "as_port"


def view(port):
    """Attributes that people set, and see in the difference."""
    return dict(id=port["id"], path=port["path"], pools=port.get("pools", {}))


def check(pools):
    """Refuses what is no state."""
    for name, state in sorted(pools.items()):
        if state not in STATES + [AS_PORT]:
            allowed = ", ".join(STATES + [AS_PORT])
            raise Failure("pools: %s is %r; allowed: %s" % (name, state, allowed))


def change_of(port, path, pools):
    """What to ask of a node so that a port has these states: as the REST API takes it."""
    known = port.get("pools", {})
    change = dict(path=path) if path not in (None, port["path"]) else {}
    own = dict((name, state) for name, state in pools.items() if state not in (AS_PORT, known.get(name)))
    without = sorted(name for name, state in pools.items() if state == AS_PORT and name in known)
    if own:
        change["pools"] = own
    if without:
        change["as_port"] = without
    return change


def changed(port, change):
    """The states of a port after a change."""
    pools = dict(port.get("pools", {}), **change.get("pools", {}))
    for name in change.get("as_port", []):
        del pools[name]
    return dict(path=change.get("path", port["path"]), pools=pools)


def work(module, node):
    """Looks at the port, plans, and carries out."""
    params = module.params
    pools = params["pools"] or {}
    check(pools)
    port = port_of(node, params["id"])
    plan = Plan(view(port))
    change = change_of(port, params["path"], pools)
    if change:
        plan.ask("PATCH", path_of("ports", params["id"]), change)
        plan.set(**changed(port, change))
        plan.expect(node, "pools", sorted(change.get("pools", {})))
    result = carry_out(module, node, plan, lambda: view(port_of(node, params["id"])))
    return dict(result, port=dict(port, **result["diff"]["after"]))


def main():
    module = AnsibleModule(
        argument_spec=options(
            id=dict(type="int", required=True),
            path=dict(type="str", choices=STATES),
            pools=dict(type="dict"),
        ),
        required_one_of=[["path", "pools"]],
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
