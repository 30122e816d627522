#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Schedules of snapshots on a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: schedule_info
short_description: Show schedules of snapshots on a node
version_added: "0.1.0"
description:
  - Shows schedules of snapshots on a node.
extends_documentation_fragment:
  - flashyard.storage.connection
  - flashyard.storage.connection.info
  - flashyard.storage.connection.named
seealso:
  - module: flashyard.storage.schedule
"""

EXAMPLES = r"""
- name: Look at all schedules
  flashyard.storage.schedule_info:
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found

- name: Look at one
  flashyard.storage.schedule_info:
    name: nightly
    node: https://node-1:4400
    token_file: /etc/flashyard/token
  register: found
"""

RETURN = r"""
schedules:
  description: The schedules, as the REST API shows them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: nightly
      volumes: [data]
      pool: fast
      keep: {hourly: 24, daily: 7, weekly: 4}
      snapshots: [data-2026-11-26t18.00]
      next: "2026-11-26T19:00:00.000Z"
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
    run(module, look_up("schedules", "schedules"))


if __name__ == "__main__":
    main()
