# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Limits and minimums of volumes and tenants."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

from ansible_collections.flashyard.storage.plugins.module_utils.change import without_nothing
from ansible_collections.flashyard.storage.plugins.module_utils.size import bytes_of

# What a node takes where nothing is said.
BURST_MS = 10
DIRECTIONS = ("read", "write", "total")


def limits_option():
    """The option that says what a volume, or a tenant, may do."""
    direction = dict(
        iops=dict(type="int"),
        iops_per_gib=dict(type="int"),
        bytes_per_second=dict(type="str"),
        bytes_per_second_per_gib=dict(type="str"),
    )
    own = dict((name, dict(type="dict", options=direction)) for name in DIRECTIONS)
    return dict(
        type="dict",
        options=dict(own, burst_ms=dict(type="int"), minimum_iops=dict(type="int")),
    )


def limits_of(option):
    """Limits as a node shows them; nothing where nothing is limited or promised."""
    limits = {}
    for name in DIRECTIONS:
        rates = without_nothing(option.get(name) or {})
        for rate in ("bytes_per_second", "bytes_per_second_per_gib"):
            if rate in rates:
                rates[rate] = bytes_of(rates[rate], "limits.%s.%s" % (name, rate))
        if rates:
            limits[name] = rates
    if option.get("minimum_iops") is not None:
        limits["minimum_iops"] = option["minimum_iops"]
    if not limits:
        return None
    burst = option.get("burst_ms")
    return dict(limits, burst_ms=BURST_MS if burst is None else burst)
