#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Tenants of a node, what they were granted and what they have."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: tenant_info
short_description: Show tenants of a node, what they were granted and what they have
version_added: "0.1.0"
description:
  - Shows tenants of a node, what they were granted and what they have.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.tenant
"""

EXAMPLES = r"""
- name: Look at all tenants
  flashyard.storage.tenant_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.tenant_info:
    name: acme
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
tenants:
  description: The tenants, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: acme
      grants:
        - pool: fast
          grant: {size: 20000000000000, volumes: 50, snapshots: 200}
          used: {bytes: 0, volumes: 0, snapshots: 0}
      volumes: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    look_up,
    options,
    run,
)


def main():
    module = AnsibleModule(
        argument_spec=options(name=dict(type="str")),
        supports_check_mode=True,
    )
    run(module, look_up("tenants", "tenants"))


if __name__ == "__main__":
    main()
