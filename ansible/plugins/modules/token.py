#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Tokens with which people and programs manage a node."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: token
short_description: Make tokens, and revoke them
version_added: "0.1.0"
description:
  - Makes a token, whose secret goes to a file and nowhere else, or revokes one.
  - A node tells a secret once. A token that is there already stays as it is, whatever the file has.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the token, which the audit log shows.
    type: str
    required: true
  state:
    description: Whether the node has the token. Without it, its secret is worthless at once.
    type: str
    choices: [present, absent]
    default: present
  role:
    description:
      - Rights of the token. Each role may do all that the roles before it may.
      - It does not change.
    type: str
    choices: [viewer, operator, admin]
  tenant:
    description: Tenant to which the token belongs. It does not change.
    type: str
  expires:
    description:
      - When the token stops being good, in UTC, such as V(2027-01-31T00:00:00Z).
      - It does not where the option is not set. It does not change.
    type: str
  secret_file:
    description:
      - File for the secret of a new token, on the machine on which the module runs.
      - It is needed for O(state=present).
      - Only its owner can read it. A file that is there is replaced when a token is made.
    type: path
seealso:
  - module: flashyard.storage.token_info
"""

EXAMPLES = r"""
- name: Make a token for a program that watches the node
  flashyard.storage.token:
    name: prometheus
    role: viewer
    secret_file: /etc/prometheus/flashyard.token
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Revoke it
  flashyard.storage.token:
    name: prometheus
    state: absent
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
token:
  description:
    - The token, as the REST API shows it, without its secret. It is empty where there is none.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample: {name: prometheus, role: viewer, created: "2026-11-26T11:03:34.000Z"}
"""

import os
import re
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    Plan,
    carry_out,
    differs,
    options,
    run,
    without_nothing,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import (
    Failure,
    path_of,
    reason_of,
)


def token_of(node, name):
    """The token with a name; nothing where there is none."""
    for token in node.all("tokens"):
        if token["name"] == name:
            return token
    return None


def time_of(text):
    """A time in one form: fractions of a second that are zero say nothing."""
    return re.sub(r"\.0+Z$", "Z", text) if text else text


def view(token):
    """Attributes that people set, and see in the difference."""
    if token is None:
        return {}
    found = dict((key, token.get(key)) for key in ("name", "role", "tenant", "expires"))
    return dict(found, expires=time_of(found["expires"]))


def refuse_other(plan, params):
    """Refuses other values of attributes that do not change."""
    for option in ("role", "tenant", "expires"):
        wanted = time_of(params[option])
        found = plan.before.get(option)
        if wanted is not None and wanted != found:
            raise differs("%s of token %s" % (option, params["name"]), found or "none", wanted)


def refuse_place(path):
    """Refuses a place where no secret can be put, also in a check run."""
    if os.path.isdir(path):
        raise Failure("secret_file %s: it is a directory" % path)
    if not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        raise Failure("secret_file %s: its folder cannot be written to" % path)


class SecretFile:
    """The file for a secret: proved writable first, and there only with the secret in it.

    A symbolic link stays, and the secret is where it leads.
    """

    def __init__(self, path):
        self.path, self.place, self.draft = path, os.path.realpath(path), None
        try:
            folder = os.path.dirname(self.place)
            handle, self.draft = tempfile.mkstemp(dir=folder, prefix=".token-")
            self.file = os.fdopen(handle, "w", encoding="ascii")
        except OSError as error:
            raise Failure("secret_file %s: %s" % (path, reason_of(error)))

    def keep(self, secret):
        """Puts the secret in its place."""
        self.file.write(secret + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.draft, self.place)

    def discard(self):
        """Leaves nothing behind."""
        self.file.close()
        os.unlink(self.draft)


def make(node, module, spec):
    """Makes the token and puts its secret into the file. Takes the token back where that fails."""
    file = SecretFile(module.params["secret_file"])
    path = path_of("tokens", module.params["name"])
    try:
        secret = node.change("PUT", path, spec)["secret"]
    except Failure:
        file.discard()
        raise
    module.no_log_values.add(secret)
    try:
        file.keep(secret)
    except OSError as error:
        node.change("DELETE", path)
        raise Failure("secret_file %s: %s" % (file.path, reason_of(error)))


def work(module, node):
    """Looks at the token, plans, and carries out."""
    params = module.params
    token = token_of(node, params["name"])
    plan = Plan(view(token))
    if params["state"] == "absent":
        if token is not None:
            plan.ask("DELETE", path_of("tokens", params["name"]))
            plan.nothing_left()
        result = carry_out(module, node, plan, dict)
        return dict(result, token=plan.after)
    if token is not None:
        refuse_other(plan, params)
        result = carry_out(module, node, plan, dict)
        return dict(result, token=token)
    if params["role"] is None:
        raise Failure("token %s is not there, and to make it needs role" % params["name"])
    refuse_place(params["secret_file"])
    spec = without_nothing(dict((key, params[key]) for key in ("role", "tenant", "expires")))
    plan.set(name=params["name"], **dict(spec, expires=time_of(spec.get("expires"))))
    found = plan.after
    if not module.check_mode:
        make(node, module, spec)
        found = token_of(node, params["name"])
        plan.after = without_nothing(view(found))
    return dict(changed=True, diff=dict(before={}, after=plan.after), token=found)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            state=STATE,
            role=dict(type="str", choices=["viewer", "operator", "admin"]),
            tenant=dict(type="str"),
            expires=dict(type="str"),
            secret_file=dict(type="path", no_log=False),
        ),
        required_if=[("state", "present", ["secret_file"])],
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
