#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Settings and state of a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: settings_info
short_description: Show settings and the state of a node
version_added: "0.1.0"
description:
  - Shows the settings that change while a node runs.
  - Also shows the node at a glance, with what is wrong now.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
seealso:
  - module: flashyard.storage.settings
"""

EXAMPLES = r"""
- name: Look at the node
  flashyard.storage.settings_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: node

- name: Stop where something is wrong
  ansible.builtin.assert:
    that: node.status.problems | length == 0
"""

RETURN = r"""
settings:
  description: The settings, as the REST API shows them.
  returned: success
  type: dict
  sample: {log_level: info, shutdown_timeout_seconds: 10, scrub_interval_days: 30}
status:
  description: The node at a glance, as the REST API shows it.
  returned: success
  type: dict
  sample:
    name: node-1
    version: "0.1.0"
    nvme_addresses: ["192.0.2.10:4420"]
    sessions: 0
    problems: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import options, run
from ansible_collections.flashyard.storage.plugins.module_utils.rest import path_of


def look(module, node):
    """The settings, and the node at a glance."""
    settings = node.get(path_of("settings"), "log_level")
    status = node.get(path_of("status"), "name", "version", "nvme_addresses", "problems")
    return dict(changed=False, settings=settings, status=status)


def main():
    module = AnsibleModule(argument_spec=options(), supports_check_mode=True)
    run(module, look)


if __name__ == "__main__":
    main()
