#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Pools of a node, their states, members and space."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: pool_info
short_description: Show pools of a node, their states, members and space
version_added: "0.1.0"
description:
  - Shows pools of a node, their states, members and space.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.pool
"""

EXAMPLES = r"""
- name: Look at all pools
  flashyard.storage.pool_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.pool_info:
    name: fast
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
pools:
  description: The pools, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: fast
      state: online
      level: raid6
      width: 6
      drives_to_spare: 2
      usable_bytes: 29000000000000
      used_bytes: 1000000000000
      volumes: [data]
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
    run(module, look_up("pools", "pools"))


if __name__ == "__main__":
    main()
