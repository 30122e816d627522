#!/usr/bin/python
# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Schedules of snapshots."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: schedule
short_description: Take snapshots of volumes on a schedule
version_added: "0.1.0"
description:
  - Makes the node take snapshots of volumes each hour, day or week, and keep so many of them.
  - Hours, days and weeks are those of UTC. The first snapshot of each stays as that period's.
  - A schedule with other numbers or volumes is changed, and snapshots that it keeps no longer are
    deleted.
extends_documentation_fragment:
  - flashyard.storage.connection
options:
  name:
    description: Name of the schedule.
    type: str
    required: true
  volumes:
    description:
      - Volumes of one pool. Their snapshots are of one instant.
      - To make a schedule needs it.
    type: list
    elements: str
  hourly:
    description: How many hourly snapshots stay.
    type: int
    default: 0
  daily:
    description: How many daily snapshots stay.
    type: int
    default: 0
  weekly:
    description: How many weekly snapshots stay.
    type: int
    default: 0
  state:
    description: Whether the node has the schedule. Its snapshots stay where it is absent.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: flashyard.storage.schedule_info
  - module: flashyard.storage.snapshot
"""

EXAMPLES = r"""
- name: Take snapshots of two volumes at one instant, each hour
  flashyard.storage.schedule:
    name: nightly
    volumes: [data, log]
    hourly: 24
    daily: 7
    weekly: 4
    node: https://node-1:4400
    token_file: /etc/flashyard/token

- name: Take no more of them
  flashyard.storage.schedule:
    name: nightly
    state: absent
    node: https://node-1:4400
    token_file: /etc/flashyard/token
"""

RETURN = r"""
schedule:
  description:
    - The schedule, as the REST API shows it.
    - A check run gives what is known of it.
  returned: success
  type: dict
  sample:
    name: nightly
    volumes: [data, log]
    pool: fast
    keep: {hourly: 24, daily: 7, weekly: 4}
    snapshots: [data-2026-11-26t18.00, log-2026-11-26t18.00]
    last: "2026-11-26T18:00:00.000Z"
    next: "2026-11-26T19:00:00.000Z"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.flashyard.storage.plugins.module_utils.change import (
    STATE,
    Plan,
    carry_out,
    options,
    run,
    shown,
)
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure, path_of

PERIODS = ("hourly", "daily", "weekly")


def view(schedule):
    """Attributes that people set, and see in the difference."""
    volumes = schedule.get("volumes")
    return dict(volumes=volumes and sorted(volumes), keep=schedule.get("keep"))


def plan_presence(plan, node, params, path):
    """The request that makes the schedule, or changes it."""
    keep = dict((period, params[period]) for period in PERIODS)
    if not any(keep.values()):
        raise Failure("hourly, daily and weekly are all 0; allowed: at least one above")
    volumes = plan.before.get("volumes")
    if params["volumes"] is not None:
        volumes = sorted(params["volumes"])
    if not volumes:
        raise Failure("schedule %s is not there: to make it needs volumes" % params["name"])
    wanted = dict(volumes=volumes, keep=keep)
    if wanted != plan.before:
        plan.ask("PUT", path, wanted)
    plan.set(**wanted)
    plan.expect(node, "volumes", volumes)


def work(module, node):
    """Looks at the schedule, plans, and carries out."""
    params = module.params
    path = path_of("schedules", params["name"])
    schedule, tag = node.find(path)
    plan = Plan(view(schedule or {}))
    if params["state"] == "present":
        plan_presence(plan, node, params, path)
    elif schedule is not None:
        plan.ask("DELETE", path)
        plan.nothing_left()
    result = carry_out(module, node, plan, lambda: view(node.find(path)[0] or {}), tag)
    return shown(module, result, "schedule", schedule, node, path)


def main():
    module = AnsibleModule(
        argument_spec=options(
            name=dict(type="str", required=True),
            volumes=dict(type="list", elements="str"),
            hourly=dict(type="int", default=0),
            daily=dict(type="int", default=0),
            weekly=dict(type="int", default=0),
            state=STATE,
        ),
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()
