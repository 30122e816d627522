#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Drives of a node, their states and who uses them."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: drive_info
short_description: Show drives of a node, their states and who uses them
version_added: "0.1.0"
description:
  - Shows drives of a node, their states and who uses them.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.drive
"""

EXAMPLES = r"""
- name: Look at all drives
  flashyard.storage.drive_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.drive_info:
    name: d0
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
drives:
  description: The drives, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: d0
      spec: {kind: path, path: /dev/nvme0n1}
      state: online
      capacity_bytes: 7681501126656
      block_bytes: 4096
      persistent: true
      pool: fast
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
    run(module, look_up("drives", "drives"))


if __name__ == "__main__":
    main()
