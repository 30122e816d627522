#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Ports: addresses at which a node serves NVMe/TCP."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: port
short_description: Say how good a path each port is
version_added: "0.1.0"
description:
  - Says how good a port is as a path to every volume. Hosts are told at once.
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
      - How good a path it is. Through an V(inaccessible) one no I/O begins.
      - The node remembers it.
    type: str
    choices: [optimized, non_optimized, inaccessible]
    required: true
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


def view(port):
    """Attributes that people set, and see in the difference."""
    return dict(id=port["id"], path=port["path"])


def work(module, node):
    """Looks at the port, plans, and carries out."""
    params = module.params
    port = port_of(node, params["id"])
    plan = Plan(view(port))
    if params["path"] != port["path"]:
        plan.ask("PATCH", path_of("ports", params["id"]), dict(path=params["path"]))
        plan.set(path=params["path"])
    result = carry_out(module, node, plan, lambda: view(port_of(node, params["id"])))
    return dict(result, port=dict(port, **result["diff"]["after"]))


def main():
    module = AnsibleModule(
        argument_spec=options(
            id=dict(type="int", required=True),
            path=dict(
                type="str",
                choices=["optimized", "non_optimized", "inaccessible"],
                required=True,
            ),
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
