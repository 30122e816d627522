#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Volumes as block devices of a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: attach
short_description: Attach volumes to a host as block devices, and detach them
version_added: "0.1.0"
description:
  - Attaches a volume to the host on which the module runs, or detaches it.
  - The kernel's NVMe/TCP host connects where the kernel has one. It needs no nvme-cli.
  - Elsewhere the flashyard program serves the volume by FUSE and a loop device.
  - An attachment that has ended, as after a crash, is made anew.
extends_documentation_fragment:
  - flashyard.storage.program
options:
  name:
    description: Name of the attachment on this host.
    type: str
    required: true
  state:
    description:
      - Whether the volume is attached.
      - The program refuses to detach a device that is mounted or in use.
    type: str
    choices: [present, absent]
    default: present
  nqn:
    description:
      - NVMe Qualified Name of the volume's subsystem.
      - M(flashyard.storage.volume_info) shows it. It is needed to attach a volume.
    type: str
  nsid:
    description: Namespace identifier of the volume in its subsystem.
    type: int
    default: 1
  addresses:
    description:
      - Addresses of the node, such as V(192.0.2.10:4420). Several are paths to the volume.
      - The kernel's host connects by all that answer, the other one by the first.
      - They are used to attach a volume. An attached one keeps the paths that it has.
    type: list
    elements: str
  method:
    description:
      - V(auto) takes the kernel's host where there is one, and FUSE elsewhere.
      - An attached volume keeps its method. Another one is refused.
    type: str
    choices: [auto, kernel, fuse]
    default: auto
  queues:
    description: I/O queues of the kernel's host. It has one for each core where the option is not set.
    type: int
  host_nqn:
    description: Name of this host. It is in C(/etc/nvme/hostnqn) where the option is not set.
    type: str
  dhchap_secret_file:
    description: File on this host with the secret that this host proves (DH-HMAC-CHAP).
    type: path
  controller_secret_file:
    description: File on this host with the secret that the node has to prove.
    type: path
  tls_key_file:
    description:
      - File on this host with the key for TLS.
      - Such a volume is attached by FUSE, as keys of the kernel's host are in its keyring.
    type: path
seealso:
  - module: flashyard.storage.attach_info
  - module: flashyard.storage.file_system
"""

EXAMPLES = r"""
- name: Attach a volume by both ports of its node
  flashyard.storage.attach:
    name: data
    nqn: "nqn.2026-11.example.flashyard:node-1:data"
    addresses: ["192.0.2.10:4420", "198.51.100.10:4420"]
  register: attached

- name: Detach it
  flashyard.storage.attach:
    name: data
    state: absent
"""

RETURN = r"""
attachment:
  description:
    - The attachment. It is empty where there is none.
    - A check run gives what is known of it, which has no device before it is attached.
  returned: success
  type: dict
  sample:
    name: data
    nqn: "nqn.2026-11.example.flashyard:node-1:data"
    nsid: 1
    addresses: ["192.0.2.10:4420"]
    method: kernel
    device: /dev/nvme1n1
    state: connected
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    differs,
    without_nothing,
)
from ansible_collections.flashyard.storage.plugins.module_utils.program import (
    Program,
    program_options,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

SEEN = ("name", "nqn", "nsid", "method")
SECRETS = (
    ("dhchap_secret_file", "--dhchap-secret-file"),
    ("controller_secret_file", "--controller-secret-file"),
    ("tls_key_file", "--tls-key-file"),
)


def view(attachment):
    """Attributes that people set, and see in the difference; none of one that has ended."""
    if attachment is None or attachment["state"] == "gone":
        return {}
    return dict((key, attachment[key]) for key in SEEN)


def kernel_can(module):
    """Whether the kernel has a host for NVMe/TCP, or a module that is one."""
    if os.path.exists("/sys/module/nvme_tcp"):
        return True
    modprobe = module.get_bin_path("modprobe")
    return bool(modprobe) and module.run_command([modprobe, "--dry-run", "nvme-tcp"])[0] == 0


def method_of(module):
    """The method by which the program attaches."""
    wanted = module.params["method"]
    if wanted != "auto":
        return wanted
    return "kernel" if not module.params["tls_key_file"] and kernel_can(module) else "fuse"


def same(params, found):
    """Refuses what an attachment does not change."""
    for option in ("nqn", "nsid", "method"):
        wanted = params[option]
        if wanted not in (None, "auto") and wanted != found[option]:
            raise differs("%s of attachment %s" % (option, params["name"]), found[option], wanted)


def command(params):
    """Arguments that attach the volume."""
    if not params["nqn"] or not params["addresses"]:
        raise Failure(
            "%s is not attached, and to attach it needs nqn and addresses" % params["name"]
        )
    arguments = ["attach"]
    for address in params["addresses"]:
        arguments.append("tcp://%s/%s?nsid=%d" % (address, params["nqn"], params["nsid"]))
    arguments += ["--name", params["name"], "--method", params["method"]]
    if params["queues"] is not None:
        arguments += ["--queues", str(params["queues"])]
    if params["host_nqn"] is not None:
        arguments += ["--host-nqn", params["host_nqn"]]
    for option, argument in SECRETS:
        if params[option] is not None:
            arguments += [argument, params[option]]
    return arguments


def work(module):
    """Looks at the attachment, and attaches or detaches the volume."""
    params, program = module.params, Program(module)

    def look():
        found = [one for one in program.attachments() if one["name"] == params["name"]]
        return found[0] if found else None

    found = look()
    before = after = view(found)
    if params["state"] == "absent":
        arguments, after = ["detach", params["name"]], {}
        changed = found is not None
    elif before:
        same(params, found)
        changed = False
    else:
        arguments, changed = command(params), True
        after = dict((key, params[key]) for key in SEEN)
        after["method"] = method_of(module)
    if changed and not module.check_mode:
        program.run(*arguments)
        found = look()
        after = view(found)
    elif changed:
        found = dict(after, addresses=params["addresses"]) if after else None
    diff = dict(before=without_nothing(before), after=without_nothing(after))
    return dict(changed=changed, diff=diff, attachment=found or {})


def main():
    module = AnsibleModule(
        argument_spec=program_options(
            name=dict(type="str", required=True),
            state=STATE,
            nqn=dict(type="str"),
            nsid=dict(type="int", default=1),
            addresses=dict(type="list", elements="str"),
            method=dict(type="str", choices=["auto", "kernel", "fuse"], default="auto"),
            queues=dict(type="int"),
            host_nqn=dict(type="str"),
            dhchap_secret_file=dict(type="path", no_log=False),
            controller_secret_file=dict(type="path", no_log=False),
            tls_key_file=dict(type="path", no_log=False),
        ),
        required_by=dict(controller_secret_file=["dhchap_secret_file"]),
        supports_check_mode=True,
    )
    try:
        result = work(module)
    except Failure as failure:
        module.fail_json(msg=str(failure))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
