#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Volumes that are attached to a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: attach_info
short_description: Show volumes that are attached to a host, and whether I/O reaches them
version_added: "0.1.0"
description:
  - Shows volumes that the flashyard program has attached to this host.
  - A host without the program has none.
extends_documentation_fragment:
  - flashyard.storage.program
  - flashyard.storage.program.info
options:
  name:
    description: The one to show. All are shown where the option is not set.
    type: str
seealso:
  - module: flashyard.storage.attach
"""

EXAMPLES = r"""
- name: Look at all attachments
  flashyard.storage.attach_info:
  register: found

- name: Fail where a path is lost
  ansible.builtin.assert:
    that: found.attachments | rejectattr('state', 'eq', 'connected') | length == 0
"""

RETURN = r"""
attachments:
  description:
    - The attachments. Their C(state) is connected, degraded, reconnecting, not_ready,
      gave_up, gone or unknown.
    - An attachment that lost some of its paths is degraded.
  returned: success
  type: list
  elements: dict
  sample:
    - name: data
      nqn: "nqn.2026-11.example.flashyard:node-1:data"
      nsid: 1
      addresses: ["192.0.2.10:4420"]
      method: kernel
      device: /dev/nvme1n1
      state: degraded
      since: null
      why: 1 of 2 paths
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.program import (
    Program,
    program_options,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure


def main():
    module = AnsibleModule(
        argument_spec=program_options(name=dict(type="str")),
        supports_check_mode=True,
    )
    name = module.params["name"]
    try:
        found = Program(module).attachments()
    except Failure as failure:
        module.fail_json(msg=str(failure))
    module.exit_json(
        changed=False, attachments=[one for one in found if name in (None, one["name"])]
    )


if __name__ == "__main__":
    main()
