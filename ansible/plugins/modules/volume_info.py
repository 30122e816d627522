#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Volumes of a node, and how hosts connect to them."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: volume_info
short_description: Show volumes of a node, and how hosts connect to them
version_added: "0.1.0"
description:
  - Shows volumes of a node, and how hosts connect to them.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.volume
"""

EXAMPLES = r"""
- name: Look at all volumes
  flashyard.storage.volume_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.volume_info:
    name: data
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
volumes:
  description: The volumes, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: data
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
    look_up,
    options,
    run,
)


def main():
    module = AnsibleModule(
        argument_spec=options(name=dict(type="str")),
        supports_check_mode=True,
    )
    run(module, look_up("volumes", "volumes"))


if __name__ == "__main__":
    main()
