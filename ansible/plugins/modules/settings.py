#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Settings that change while a node runs."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: settings
short_description: Change settings of a node while it runs
version_added: "0.1.0"
description:
  - Changes settings of a node. They are remembered, and win over its settings file.
  - Options that are not set change nothing.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  log_level:
    description: Least severe log line that is written.
    type: str
    choices: [error, warn, info, debug, trace]
  shutdown_timeout_seconds:
    description: Seconds that a clean stop waits for I/O in flight, from 1 to 3600.
    type: int
  scrub_interval_days:
    description: Days after which a pool is checked again by itself. V(0) means never.
    type: int
  graphite:
    description: Receiver in Graphite's protocol to which figures are sent.
    type: dict
    suboptions:
      address:
        description: Its host and port, such as V(graphite.example:2003). V(none) sends no figures.
        type: str
        required: true
      prefix:
        description: Word with which the paths of figures begin.
        type: str
        default: flashyard
      interval_seconds:
        description: Seconds between two batches of figures.
        type: int
        default: 10
  syslog:
    description: Receiver to which events and audit lines are sent, as RFC 5424 has them.
    type: dict
    suboptions:
      address:
        description: Its host and port, such as V(logs.example:6514). V(none) sends no messages.
        type: str
        required: true
      transport:
        description: How messages get there.
        type: str
        choices: [udp, tcp, tls]
        default: udp
      ca_certificate:
        description: Certificates of the authorities to trust with V(tls), in PEM.
        type: str
seealso:
  - module: flashyard.storage.settings_info
"""

EXAMPLES = r"""
- name: Check pools every two weeks, and send figures
  flashyard.storage.settings:
    scrub_interval_days: 14
    graphite:
      address: graphite.example:2003
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Send no figures any more
  flashyard.storage.settings:
    graphite:
      address: none
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
settings:
  description:
    - The settings, as the REST API shows them.
    - A check run gives what they will be.
  returned: success
  type: dict
  sample: {log_level: info, shutdown_timeout_seconds: 10, scrub_interval_days: 14}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    Plan,
    carry_out,
    options,
    run,
    without_nothing,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import path_of

PLAIN = ("log_level", "shutdown_timeout_seconds", "scrub_interval_days")
RECEIVERS = ("graphite", "syslog")


def wanted_of(params):
    """Settings that are asked for. Nothing stands for no receiver."""
    wanted = dict((name, params[name]) for name in PLAIN if params[name] is not None)
    for name in RECEIVERS:
        target = params[name]
        if target is not None:
            nowhere = target["address"] == "none"
            wanted[name] = None if nowhere else without_nothing(target)
    return wanted


def view(settings, wanted):
    """Attributes that people set, and see in the difference."""
    found = dict((name, settings[name]) for name in PLAIN)
    found.update((name, settings.get(name)) for name in RECEIVERS)
    return without_nothing(dict((name, found[name]) for name in wanted))


def work(module, node):
    """Looks at the settings, plans, and carries out."""
    path, wanted = path_of("settings"), wanted_of(module.params)
    settings, tag = node.find(path)
    plan = Plan(view(settings, wanted))
    change = dict((name, value) for name, value in wanted.items() if value != settings.get(name))
    if change:
        plan.ask("PATCH", path, change)
        plan.set(**change)
    result = carry_out(module, node, plan, lambda: view(node.get(path), wanted), tag)
    if result["changed"] and not module.check_mode:
        settings = node.get(path)
    else:
        settings = without_nothing(dict(settings, **change))
    return dict(result, settings=settings)


def main():
    module = AnsibleModule(
        argument_spec=options(
            log_level=dict(type="str", choices=["error", "warn", "info", "debug", "trace"]),
            shutdown_timeout_seconds=dict(type="int"),
            scrub_interval_days=dict(type="int"),
            graphite=dict(
                type="dict",
                options=dict(
                    address=dict(type="str", required=True),
                    prefix=dict(type="str", default="flashyard"),
                    interval_seconds=dict(type="int", default=10),
                ),
            ),
            syslog=dict(
                type="dict",
                options=dict(
                    address=dict(type="str", required=True),
                    transport=dict(type="str", choices=["udp", "tcp", "tls"], default="udp"),
                    ca_certificate=dict(type="str"),
                ),
            ),
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
