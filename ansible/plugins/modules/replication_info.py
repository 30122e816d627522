#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Replications of a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: replication_info
short_description: Show replications of a node
version_added: "0.1.0"
description:
  - Shows replications of a node, how far each is, and why a copy failed.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.replication
"""

EXAMPLES = r"""
- name: Look at all replications
  flashyard.storage.replication_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.replication_info:
    name: data
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
replications:
  description: The replications, as the REST API shows them, without tokens.
  returned: success
  type: list
  elements: dict
  sample:
    - name: data
      volume: data
      to: https://node-2:4400
      pool: fast
      every_seconds: 300
      standing: {copied: "2026-11-26T18:00:00.000Z", lag_seconds: 41}
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
    run(module, look_up("replications", "replications"))


if __name__ == "__main__":
    main()
