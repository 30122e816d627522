#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Snapshots on a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: snapshot_info
short_description: Show snapshots on a node
version_added: "0.1.0"
description:
  - Shows snapshots on a node.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.snapshot
"""

EXAMPLES = r"""
- name: Look at all snapshots
  flashyard.storage.snapshot_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.snapshot_info:
    name: monday
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
snapshots:
  description: The snapshots, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: monday
      pool: fast
      volume: data
      bytes: 2199023255552
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
    run(module, look_up("snapshots", "snapshots"))


if __name__ == "__main__":
    main()
