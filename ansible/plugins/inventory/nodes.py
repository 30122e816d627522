# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""An inventory of nodes, and of the hosts that they know."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
name: nodes
short_description: Nodes, and the hosts that they know
version_added: "0.1.0"
author:
  - Flashyard contributors (@flashyard)
description:
  - Asks nodes for their state, their hosts and their volumes.
  - Nodes are in the group C(flashyard_nodes), under the names that they have.
  - Hosts that nodes know are in the group C(flashyard_hosts).
  - Hosts of a tenant are also in a group such as C(flashyard_tenant_acme).
  - A node has the variables C(flashyard_node), C(flashyard_version), C(flashyard_addresses)
    and C(flashyard_problems).
  - A host has C(flashyard_nqn) and C(flashyard_volumes), with all that it needs to connect.
  - The file has to be called C(flashyard.yml) or C(flashyard.yaml), or end so.
options:
  plugin:
    description: Says that the file is for this plugin.
    type: str
    required: true
    choices: [flashyard.storage.nodes]
  nodes:
    description:
      - Nodes that are asked.
      - Each has C(node), the address of its REST API.
      - It may have C(token_file), C(ca_file) and C(server_name), as modules have.
    type: list
    elements: dict
    required: true
  token_file:
    description: File with the token, for nodes that have no C(token_file) of their own.
    type: path
    env:
      - name: FLASHYARD_TOKEN_FILE
  timeout:
    description: Seconds that a node may take for an answer.
    type: int
    default: 30
"""

EXAMPLES = r"""
# flashyard.yml
plugin: flashyard.storage.nodes
token_file: /etc/flashyard/token
nodes:
  - node: https://node-1:4400
    ca_file: /etc/flashyard/node-1.pem
  - node: https://node-2:4400
    ca_file: /etc/flashyard/node-2.pem
"""

import re

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible_collections.flashyard.storage.plugins.module_utils.rest import (
    Failure,
    Node,
    path_of,
)

OWN = ("node", "token_file", "ca_file", "server_name")


def connect_to(volume, status):
    """A volume as a host needs it to connect."""
    found = dict((key, volume[key]) for key in ("name", "nqn", "nsid", "uuid", "capacity_bytes"))
    return dict(found, node=status["name"], addresses=status["nvme_addresses"])


class InventoryModule(BaseInventoryPlugin):
    """Reads the file, asks each node, and adds its answers."""

    NAME = "flashyard.storage.nodes"

    def verify_file(self, path):
        """Whether the file is for this plugin, by its name."""
        named = path.endswith(("flashyard.yml", "flashyard.yaml"))
        return super().verify_file(path) and named

    def parse(self, inventory, loader, path, cache=True):
        """Adds the answers of the nodes to the inventory."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        for group in ("flashyard_nodes", "flashyard_hosts"):
            inventory.add_group(group)
        try:
            for entry in self.get_option("nodes"):
                self.add_node(entry)
        except Failure as failure:
            raise AnsibleParserError(str(failure))

    def connection(self, entry):
        """The connection to a node."""
        unknown = sorted(set(entry) - set(OWN))
        if unknown or not entry.get("node"):
            found = ", ".join(unknown) or "no node"
            raise Failure("nodes: %s; allowed: node, token_file, ca_file, server_name" % found)
        params = dict((key, entry.get(key)) for key in OWN)
        params["token_file"] = params["token_file"] or self.get_option("token_file")
        return Node(dict(params, token=None, timeout=self.get_option("timeout"), retries=1))

    def add_node(self, entry):
        """Adds a node and the hosts that it knows."""
        node = self.connection(entry)
        try:
            self.add_answers(node)
        except KeyError as missing:
            raise node.other_shape("no %s" % missing)

    def add_answers(self, node):
        """Adds what a node answers."""
        status, hosts = node.get(path_of("status"), "name"), node.all("hosts")
        volumes = node.all("volumes")
        node.close()
        self.inventory.add_host(status["name"], group="flashyard_nodes")
        self.set(status["name"], "node", node.url)
        for variable, key in (
            ("version", "version"),
            ("addresses", "nvme_addresses"),
            ("problems", "problems"),
        ):
            self.set(status["name"], variable, status[key])
        for host in hosts:
            allowed = [one for one in volumes if set(one["hosts"]) & set(["any", host["name"]])]
            self.add_host(host, [connect_to(volume, status) for volume in allowed], status)

    def add_host(self, host, volumes, status):
        """Adds a host, or the volumes of one more node to it."""
        name = host["name"]
        self.inventory.add_host(name, group="flashyard_hosts")
        known = self.inventory.get_host(name).get_vars()
        nqn = known.get("flashyard_nqn", host["nqn"])
        if nqn != host["nqn"]:
            raise Failure(
                "host %s is %s on node %s, and %s on another one"
                % (name, host["nqn"], status["name"], nqn)
            )
        self.set(name, "nqn", nqn)
        self.set(name, "volumes", list(known.get("flashyard_volumes", [])) + volumes)
        if host.get("tenant"):
            group = "flashyard_tenant_" + re.sub("[^a-z0-9_]", "_", host["tenant"])
            self.inventory.add_group(group)
            self.inventory.add_host(name, group=group)

    def set(self, name, variable, value):
        """Sets a variable, under the collection's name."""
        self.inventory.set_variable(name, "flashyard_" + variable, value)
