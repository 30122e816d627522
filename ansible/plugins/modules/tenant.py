#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Grants of tenants, and their limits."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: tenant
short_description: Grant tenants parts of pools, and limit them
version_added: "0.1.0"
description:
  - Says what a tenant's operators may make of pools, and what its volumes may do together.
  - Nothing makes or removes a tenant. It is there as long as something belongs to it.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.limits
options:
  name:
    description: Name of the tenant.
    type: str
    required: true
  state:
    description:
      - V(absent) takes all grants and limits from the tenant.
      - Its volumes, hosts and tokens stay.
    type: str
    choices: [present, absent]
    default: present
  grants:
    description:
      - Grants of the tenant, by pool. Grants in pools that are not in the list are revoked.
      - Nothing changes where the option is not set.
    type: list
    elements: dict
    suboptions:
      pool:
        description: The pool.
        type: str
        required: true
      size:
        description: Size of all volumes and snapshots together, in bytes or with a unit.
        type: str
        required: true
      volumes:
        description: How many volumes it may have.
        type: int
        default: 100
      snapshots:
        description: How many snapshots it may have.
        type: int
        default: 1000
seealso:
  - module: flashyard.storage.tenant_info
"""

EXAMPLES = r"""
- name: Grant a tenant part of a pool
  flashyard.storage.tenant:
    name: acme
    grants:
      - {pool: fast, size: 20TiB, volumes: 50, snapshots: 200}
    limits:
      total: {iops: 50000}
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Take it back
  flashyard.storage.tenant:
    name: acme
    state: absent
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
tenant:
  description:
    - The tenant, as the REST API shows it.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: acme
    grants:
      - pool: fast
        grant: {size: 21990232555520, volumes: 50, snapshots: 200}
        used: {bytes: 0, volumes: 0, snapshots: 0}
    volumes: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    Plan,
    carry_out,
    options,
    run,
    shown,
)
from ansible_collections.flashyard.storage.plugins.module_utils.limits import (
    limits_of,
    limits_option,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of
from ansible_collections.flashyard.storage.plugins.module_utils.size import bytes_of


def view(tenant):
    """Attributes that people set, and see in the difference: none, where nothing was granted."""
    grants = dict((grant["pool"], grant["grant"]) for grant in tenant.get("grants", []))
    return dict(grants=grants or None, limits=tenant.get("limits"))


def grants_of(option):
    """Grants by pool, as the REST API has them."""
    grants = {}
    for grant in option:
        if grant["pool"] in grants:
            raise Failure("grants: pool %s comes twice" % grant["pool"])
        size = bytes_of(grant["size"], "grants.size")
        grants[grant["pool"]] = dict(
            size=size, volumes=grant["volumes"], snapshots=grant["snapshots"]
        )
    return grants


def plan_grants(plan, params, wanted):
    """Requests that make the grants that are asked for, and revoke the rest."""
    found = plan.before.get("grants", {})
    for pool, grant in sorted(wanted.items()):
        if grant != found.get(pool):
            plan.ask("PUT", path_of("tenants", params["name"], "grants", pool), grant)
    for pool in sorted(found):
        if pool not in wanted:
            plan.ask("DELETE", path_of("tenants", params["name"], "grants", pool))
    plan.set(grants=wanted or None)


def plan_limits(plan, params, limits):
    """The request that sets the limits."""
    if limits != plan.before.get("limits"):
        plan.ask("PUT", path_of("tenants", params["name"], "limits"), limits or {})
    plan.set(limits=limits)


def work(module, node):
    """Looks at the tenant, plans, and carries out."""
    params = module.params
    path = path_of("tenants", params["name"])
    tenant, tag = node.find(path)
    plan = Plan(view(tenant or {}))
    absent = params["state"] == "absent"
    if absent or params["grants"] is not None:
        grants = {} if absent else grants_of(params["grants"])
        plan_grants(plan, params, grants)
        plan.expect(node, "pools", sorted(grants))
    if absent or params["limits"] is not None:
        plan_limits(plan, params, None if absent else limits_of(params["limits"]))
    result = carry_out(module, node, plan, lambda: view(node.get(path)), tag)
    return shown(module, result, "tenant", tenant, node, path)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            grants=dict(
                type="list",
                elements="dict",
                options=dict(
                    pool=dict(type="str", required=True),
                    size=dict(type="str", required=True),
                    volumes=dict(type="int", default=100),
                    snapshots=dict(type="int", default=1000),
                ),
            ),
            limits=limits_option(),
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
