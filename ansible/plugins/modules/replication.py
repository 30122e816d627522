#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Replicas of volumes on other nodes."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: replication
short_description: Keep replicas of volumes on other nodes
version_added: "0.1.0"
description:
  - Makes a node keep a replica of a volume of a pool up to date on another node.
  - A copy begins at once, and then each time. The first has all of the volume, the others what
    changed.
  - Hosts may use the replica once it is promoted, which O(flashyard.storage.volume#module:promoted)
    does on the other node.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the replication.
    type: str
    required: true
  state:
    description:
      - Whether the node has the replication.
      - The replica and the snapshots of both nodes stay where it is absent.
    type: str
    choices: [present, absent]
    default: present
  volume:
    description:
      - Volume that is replicated. It does not change.
      - A new replication without it is of the volume that is called as the replication.
    type: str
  to:
    description:
      - Address of the REST API of the other node, such as V(https://node-2:4400).
      - To make a replication needs it.
    type: str
  certificate:
    description:
      - SHA-256 of the other node's certificate in hexadecimal, as that node prints it at its start.
      - O(to) with V(https) needs it.
    type: str
  to_token:
    description:
      - Secret of a token of the other node, for the role operator. The node keeps it.
      - To make a replication needs this or O(to_token_file).
    type: str
  to_token_file:
    description:
      - File with that secret and nothing else, on the machine on which the module runs.
      - It counts where O(to_token) is not set.
    type: path
  update_token:
    description:
      - With V(on_create) the token is sent where the replication, or the address, is new.
      - With V(always) it is sent by every run, and every run is a change.
    type: str
    choices: [on_create, always]
    default: on_create
  pool:
    description:
      - Pool of the other node that holds the replica.
      - To make a replication needs it.
    type: str
  replica:
    description: Name of the replica. A new replication without it takes that of the volume.
    type: str
  every_seconds:
    description:
      - Seconds from the begin of one copy to that of the next, at most a week.
      - To make a replication needs it.
    type: int
  bandwidth:
    description:
      - Bytes that a copy reads in a second at most, such as V(50MB).
      - V(none) takes the limit away.
    type: str
  in_the_clear:
    description:
      - Whether data may go in the clear where the other node has no NVMe/TCP address under TLS.
    type: bool
seealso:
  - module: flashyard.storage.replication_info
  - module: flashyard.storage.volume
"""

EXAMPLES = r"""
- name: Keep a replica on another node
  flashyard.storage.replication:
    name: data
    to: https://node-2:4400
    certificate: "{{ node_2_certificate }}"
    to_token: "{{ node_2_token }}"
    pool: fast
    every_seconds: 300
    bandwidth: 50MB
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Make the replica a volume when the first node has failed
  flashyard.storage.volume:
    name: data
    promoted: true
    hosts: [db-2]
    node: https://node-2:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
replication:
  description:
    - The replication, as the REST API shows it, without the token. It is empty where there is none.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: data
    volume: data
    to: https://node-2:4400
    certificate: 6cd1b1e3f0e4a54a7c08ea4e0f8a8aa5c1a9b1e3f0e4a54a7c08ea4e0f8a8aa0
    pool: fast
    every_seconds: 300
    bandwidth: 50000000
    standing: {copied: "2026-11-26T18:00:00.000Z", lag_seconds: 41}
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
from ansible_collections.flashyard.storage.plugins.module_utils.rest import (
    Failure,
    path_of,
    word_in,
)
from ansible_collections.flashyard.storage.plugins.module_utils.size import bytes_of

# Attributes that people set, in the words of the REST API.
ATTRIBUTES = (
    "volume",
    "to",
    "certificate",
    "pool",
    "replica",
    "every_seconds",
    "bandwidth",
    "in_the_clear",
)
# Options without which there is no replication.
NEEDED = ("to", "pool", "every_seconds")


def view(replication):
    """Attributes that people set, and see in the difference."""
    found = dict((name, replication.get(name)) for name in ATTRIBUTES)
    return dict(found, in_the_clear=found["in_the_clear"] or None)


def asked(params):
    """Attributes that the task asks for. Those that are nothing are to be taken away."""
    wanted = dict((name, params[name]) for name in ATTRIBUTES if params[name] is not None)
    if "bandwidth" in wanted:
        unbounded = wanted["bandwidth"] == "none"
        wanted["bandwidth"] = None if unbounded else bytes_of(wanted["bandwidth"], "bandwidth")
    if "certificate" in wanted:
        wanted["certificate"] = wanted["certificate"].replace(":", "").lower()
    if "in_the_clear" in wanted:
        wanted["in_the_clear"] = wanted["in_the_clear"] or None
    return wanted


def token_of(params):
    """The token of the other node, if the task has one."""
    if params["to_token"]:
        return params["to_token"].strip()
    return word_in(params, "to_token_file") if params["to_token_file"] else None


def plan_presence(plan, node, params, path):
    """The request that makes the replication, or changes it."""
    name, before, wanted = params["name"], plan.before, asked(params)
    volume = wanted.setdefault("volume", before.get("volume", name))
    if before and volume != before["volume"]:
        raise differs("volume of replication " + name, before["volume"], volume)
    spec = without_nothing(dict(before, **wanted))
    missing = [option for option in NEEDED if option not in spec]
    token = token_of(params)
    if not before and token is None:
        missing.append("to_token")
    if missing:
        needed = (name, ", ".join(missing))
        raise Failure("replication %s is not there: to make it needs %s" % needed)
    is_new = not before or spec["to"] != before["to"]
    if params["update_token"] == "always" and token is None:
        raise Failure("update_token is always: that needs to_token or to_token_file")
    if spec != before or params["update_token"] == "always":
        sends = token is not None and (is_new or params["update_token"] == "always")
        plan.ask("PUT", path, dict(spec, token=token) if sends else spec)
    plan.set(**dict((key, spec.get(key)) for key in ATTRIBUTES))
    plan.expect(node, "volumes", [volume])


def work(module, node):
    """Looks at the replication, plans, and carries out."""
    params = module.params
    if params["to_token_file"] and not params["to_token"]:
        module.no_log_values.add(token_of(params))
    path = path_of("replications", params["name"])
    replication, tag = node.find(path)
    plan = Plan(view(replication or {}))
    if params["state"] == "present":
        plan_presence(plan, node, params, path)
    elif replication is not None:
        plan.ask("DELETE", path)
        plan.nothing_left()
    result = carry_out(module, node, plan, lambda: view(node.find(path)[0] or {}), tag)
    return shown(module, result, "replication", replication, node, path)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            volume=dict(type="str"),
            to=dict(type="str"),
            certificate=dict(type="str"),
            to_token=dict(type="str", no_log=True),
            to_token_file=dict(type="path", no_log=False),
            update_token=dict(
                type="str", choices=["on_create", "always"], default="on_create", no_log=False
            ),
            pool=dict(type="str"),
            replica=dict(type="str"),
            every_seconds=dict(type="int"),
            bandwidth=dict(type="str"),
            in_the_clear=dict(type="bool"),
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
