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
      - A volume that fstab mounts is not detached. M(flashyard.storage.file_system) with
        O(flashyard.storage.file_system#module:state=absent) comes first.
      - With V(absent) no service attaches the volume at the next start, whichever task made one.
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
  transport:
    description:
      - How this host connects to the addresses. The kernel's host alone connects over V(rdma).
      - It is used to attach a volume. An attached one keeps the paths that it has.
    type: str
    choices: [tcp, rdma]
    default: tcp
  boot:
    description:
      - Whether a service of systemd attaches the volume each time the machine starts.
      - It is C(flashyard-attach-NAME.service). It attaches by the options of this task.
      - A service stays as it is where the option is not set.
    type: bool
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
      - Such a volume is attached by FUSE where O(method=auto).
      - The kernel's host needs the packages keyutils and ktls-utils for TLS.
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
    boot: true
  register: attached

- name: Attach a volume over RDMA
  flashyard.storage.attach:
    name: log
    nqn: "nqn.2026-11.example.flashyard:node-1:log"
    addresses: ["192.0.2.10:4420"]
    transport: rdma

- name: Detach it, for good
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
from ansible_collections.flashyard.storage.plugins.module_utils.mounts import (
    carried,
    fstab_paths,
)
from ansible_collections.flashyard.storage.plugins.module_utils.program import (
    Program,
    program_options,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure
from ansible_collections.flashyard.storage.plugins.module_utils.service import Service

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
    """Whether the kernel has a host for the transport, or a module that is one."""
    transport = module.params["transport"]
    if os.path.exists("/sys/module/nvme_%s" % transport):
        return True
    modprobe = module.get_bin_path("modprobe")
    dry_run = [modprobe, "--dry-run", "nvme-%s" % transport]
    return bool(modprobe) and module.run_command(dry_run)[0] == 0


def asked_method(params):
    """The method to ask for: whether the kernel's host can do TLS is known once it has tried."""
    if params["method"] == "auto" and params["tls_key_file"]:
        return "fuse"
    return params["method"]


def method_of(module):
    """The method by which the program attaches."""
    wanted = asked_method(module.params)
    if wanted != "auto":
        return wanted
    return "kernel" if kernel_can(module) else "fuse"


def same(params, found):
    """Refuses what an attachment does not change."""
    for option in ("nqn", "nsid", "method"):
        wanted = params[option]
        if wanted not in (None, "auto") and wanted != found[option]:
            raise differs("%s of attachment %s" % (option, params["name"]), found[option], wanted)


def command(params):
    """Arguments that attach the volume."""
    arguments = ["attach"]
    for address in params["addresses"]:
        place = (params["transport"], address, params["nqn"], params["nsid"])
        arguments.append("%s://%s/%s?nsid=%d" % place)
    arguments += ["--name", params["name"], "--method", asked_method(params)]
    if params["queues"] is not None:
        arguments += ["--queues", str(params["queues"])]
    if params["host_nqn"] is not None:
        arguments += ["--host-nqn", params["host_nqn"]]
    for option, argument in SECRETS:
        if params[option] is not None:
            arguments += [argument, params[option]]
    return arguments


def planned(module, found):
    """How the attachment is to be."""
    params = module.params
    if params["state"] == "absent":
        return {}
    if view(found):
        same(params, found)
        return view(found)
    if not params["nqn"] or not params["addresses"]:
        raise Failure(
            "%s is not attached, and to attach it needs nqn and addresses" % params["name"]
        )
    return dict(((key, params[key]) for key in SEEN), method=method_of(module))


def planned_service(params, program, service, before):
    """How the service is to be that attaches the volume when the machine starts."""
    if params["state"] == "absent" or params["boot"] is False:
        return {}
    if params["boot"] is None:
        return before
    if not params["nqn"] or not params["addresses"]:
        raise Failure("boot of attachment %s needs nqn and addresses" % params["name"])
    return service.planned(
        program.command(*command(params)), program.command("detach", params["name"])
    )


def refuse_mounted(module, found, service):
    """Refuses to detach what fstab mounts: each start of the machine would wait for it."""
    device = found["device"] if view(found) else None
    # Nothing is read where reads wait for a node.
    answers = device is not None and found["state"] in ("connected", "degraded")
    uuid = carried(module, device).get("UUID") if answers else None
    for path in fstab_paths(device, uuid, service.unit):
        raise Failure(
            "fstab mounts attachment %s on %s; allowed: take that away first, "
            "by flashyard.storage.file_system" % (module.params["name"], path)
        )


def work(module):
    """Looks at the attachment and its service, and changes what differs."""
    params, program = module.params, Program(module)
    service = Service(module, params["name"])

    def look():
        found = [one for one in program.attachments() if one["name"] == params["name"]]
        return found[0] if found else None

    found, service_before = look(), service.look()
    before, after = view(found), planned(module, found)
    service_after = planned_service(params, program, service, service_before)
    # What has ended is cleaned up, though nobody sees a difference.
    ended = params["state"] == "absent" and found is not None
    attaches, serves = before != after or ended, service_before != service_after
    if params["state"] == "absent" and (attaches or serves) and not module.check_mode:
        refuse_mounted(module, found, service)
    if attaches and not module.check_mode:
        program.run(*(command(params) if after else ["detach", params["name"]]))
        found = look()
        after = view(found)
    elif attaches:
        found = dict(after, addresses=params["addresses"]) if after else None
    if serves and not module.check_mode:
        service.carry_out(service_after)
    diff = dict(
        before=dict(without_nothing(before), **service_before),
        after=dict(without_nothing(after), **service_after),
    )
    return dict(changed=attaches or serves, diff=diff, attachment=found or {})


def main():
    module = AnsibleModule(
        argument_spec=program_options(
            name=dict(type="str", required=True),
            state=STATE,
            nqn=dict(type="str"),
            nsid=dict(type="int", default=1),
            addresses=dict(type="list", elements="str"),
            method=dict(type="str", choices=["auto", "kernel", "fuse"], default="auto"),
            transport=dict(type="str", choices=["tcp", "rdma"], default="tcp"),
            boot=dict(type="bool"),
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
    except (Failure, OSError) as failure:
        module.fail_json(msg=str(failure))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
