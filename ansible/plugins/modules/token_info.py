#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Tokens of a node, without their secrets."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: token_info
short_description: Show tokens of a node, without their secrets
version_added: "0.1.0"
description:
  - Shows tokens of a node, without their secrets.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.token
"""

EXAMPLES = r"""
- name: Look at all tokens
  flashyard.storage.token_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.token_info:
    name: ci
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
tokens:
  description: The tokens, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: ci
      role: operator
      created: "2026-11-26T11:03:34.000Z"
      expires: "2027-11-26T00:00:00.000Z"
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
    run(module, look_up("tokens", "tokens"))


if __name__ == "__main__":
    main()
