#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Hosts that a node knows."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: host
short_description: Add hosts to a node with their secrets, and remove them
version_added: "0.1.0"
description:
  - Adds a host by its NVMe Qualified Name, gives it secrets, or removes it.
  - A node never shows secrets, so whether they are the same cannot be seen. See O(update_secrets).
  - A new secret ends the host's sessions.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the host.
    type: str
    required: true
  state:
    description:
      - Whether the node knows the host.
      - The node refuses to remove a host that a volume allows.
    type: str
    choices: [present, absent]
    default: present
  nqn:
    description:
      - NVMe Qualified Name of the host, which is in C(/etc/nvme/hostnqn) there.
      - It is needed to add a host, and does not change.
    type: str
  tenant:
    description: Tenant to which the host belongs. It does not change.
    type: str
  dhchap_secret:
    description:
      - Secret that the host has to prove on every connection.
      - It is one word, as C(nvme gen-dhchap-key) prints it.
    type: str
  dhchap_controller_secret:
    description: Secret that the node has to prove to the host as well.
    type: str
  dhchap_hash:
    description: Hash that is used, and no other.
    type: str
    choices: [sha256, sha384, sha512]
    default: sha256
  dhchap_group:
    description: Diffie-Hellman group that is used, and no other.
    type: str
    choices: ["null", ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192]
    default: ffdhe3072
  tls_key:
    description:
      - Key under which the host connects with TLS, and in no other way.
      - It is one word, as C(nvme gen-tls-key) prints it.
    type: str
  remove_secrets:
    description: Secrets that the host has no longer.
    type: list
    elements: str
    choices: [dhchap, tls]
    default: []
  update_secrets:
    description:
      - With V(on_create) a secret is set where the host has none.
      - It is also set where the hash, the group, or whether the node proves one, is another.
      - With V(always) secrets are set by every run, and every run is a change.
    type: str
    choices: [on_create, always]
    default: on_create
seealso:
  - module: flashyard.storage.host_info
"""

EXAMPLES = r"""
- name: Add a host that has to prove who it is
  flashyard.storage.host:
    name: db-1
    nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa"
    dhchap_secret: "{{ db_1_secret }}"
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Give it another secret
  flashyard.storage.host:
    name: db-1
    dhchap_secret: "{{ db_1_new_secret }}"
    update_secrets: always
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
host:
  description:
    - The host, as the REST API shows it, without secrets. It is empty where there is none.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: db-1
    nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa"
    key: {hash: sha256, group: ffdhe3072, mutual: false}
    tls: false
    volumes: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    Plan,
    carry_out,
    differs,
    options,
    run,
    shown,
    without_nothing,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of


def view(host):
    """Attributes that people set, and see in the difference."""
    if host is None:
        return {}
    found = dict((key, host[key]) for key in ("name", "nqn"))
    return dict(found, **dict((key, host.get(key)) for key in ("tenant", "key", "tls")))


def plan_host(plan, params, host):
    """The request that adds the host."""
    name = params["name"]
    if host is None:
        if params["nqn"] is None:
            raise Failure("host %s is not there, and to add it needs nqn" % name)
        spec = without_nothing(dict(nqn=params["nqn"], tenant=params["tenant"]))
        plan.ask("PUT", path_of("hosts", name), spec)
        plan.set(name=name, tls=False, **spec)
        return
    for option in ("nqn", "tenant"):
        wanted = params[option]
        if wanted is not None and wanted != host.get(option):
            raise differs("%s of host %s" % (option, name), host.get(option) or "none", wanted)


def plan_key(plan, params):
    """The request that sets the host's secret for DH-HMAC-CHAP, or takes it away."""
    path = path_of("hosts", params["name"], "key")
    if "dhchap" in params["remove_secrets"]:
        if "key" in plan.before:
            plan.ask("DELETE", path)
            plan.set(key=None)
        return
    if params["dhchap_secret"] is None:
        return
    mutual = params["dhchap_controller_secret"] is not None
    key = dict(hash=params["dhchap_hash"], group=params["dhchap_group"], mutual=mutual)
    if key != plan.before.get("key") or params["update_secrets"] == "always":
        body = dict(secret=params["dhchap_secret"], hash=key["hash"], group=key["group"])
        if mutual:
            body["controller_secret"] = params["dhchap_controller_secret"]
        plan.ask("PUT", path, body)
        plan.set(key=key)


def plan_tls_key(plan, params):
    """The request that sets the host's key for TLS, or takes it away."""
    path = path_of("hosts", params["name"], "tls-key")
    there = plan.before.get("tls", False)
    if "tls" in params["remove_secrets"]:
        if there:
            plan.ask("DELETE", path)
            plan.set(tls=False)
    elif params["tls_key"] is not None and (not there or params["update_secrets"] == "always"):
        plan.ask("PUT", path, dict(key=params["tls_key"]))
        plan.set(tls=True)


def work(module, node):
    """Looks at the host, plans, and carries out."""
    params = module.params
    for secret, option in (("dhchap", "dhchap_secret"), ("tls", "tls_key")):
        if secret in params["remove_secrets"] and params[option] is not None:
            both = "%s is set, and remove_secrets takes it away; allowed: one of them"
            raise Failure(both % option)
    path = path_of("hosts", params["name"])
    host = node.find(path)[0]
    plan = Plan(view(host))
    if params["state"] == "present":
        plan_host(plan, params, host)
        plan_key(plan, params)
        plan_tls_key(plan, params)
    elif host is not None:
        if host["volumes"]:
            volumes = (params["name"], ", ".join(host["volumes"]))
            plan.warnings.append("host %s is allowed until it is denied by %s" % volumes)
        plan.ask("DELETE", path)
        plan.nothing_left()
    result = carry_out(module, node, plan, lambda: view(node.find(path)[0]))
    return shown(module, result, "host", host, node, path)


def main():
    groups = ["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            nqn=dict(type="str"),
            tenant=dict(type="str"),
            dhchap_secret=dict(type="str", no_log=True),
            dhchap_controller_secret=dict(type="str", no_log=True),
            dhchap_hash=dict(
                type="str", choices=["sha256", "sha384", "sha512"], default="sha256"
            ),
            dhchap_group=dict(type="str", choices=groups, default="ffdhe3072"),
            tls_key=dict(type="str", no_log=True),
            remove_secrets=dict(
                type="list", elements="str", choices=["dhchap", "tls"], default=[], no_log=False
            ),
            update_secrets=dict(
                type="str", choices=["on_create", "always"], default="on_create", no_log=False
            ),
        ),
        required_by=dict(dhchap_controller_secret=["dhchap_secret"]),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
