#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Hosts that a node knows, without their secrets."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: host_info
short_description: Show hosts that a node knows, without their secrets
version_added: "0.1.0"
description:
  - Shows hosts that a node knows, without their secrets.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.host
"""

EXAMPLES = r"""
- name: Look at all hosts
  flashyard.storage.host_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.host_info:
    name: db-1
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
hosts:
  description: The hosts, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: db-1
      nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa"
      tls: false
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
    run(module, look_up("hosts", "hosts"))


if __name__ == "__main__":
    main()
