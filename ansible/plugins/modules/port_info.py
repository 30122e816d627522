#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Addresses at which a node serves NVMe/TCP."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: port_info
short_description: Show addresses at which a node serves NVMe/TCP
version_added: "0.1.0"
description:
  - Shows addresses at which a node serves NVMe/TCP.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
seealso:
  - module: flashyard.storage.port
"""

EXAMPLES = r"""
- name: Look at all ports
  flashyard.storage.port_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
ports:
  description: The ports, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - id: 1
      address: "192.0.2.10:4420"
      path: optimized
      tls: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    look_up,
    options,
    run,
)


def main():
    module = AnsibleModule(
        argument_spec=options(),
        supports_check_mode=True,
    )
    run(module, look_up("ports", "ports"))


if __name__ == "__main__":
    main()
