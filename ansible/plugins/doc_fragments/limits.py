# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Documentation of limits, of volumes and of tenants."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment:
    """The option that says what a volume, or a tenant's volumes together, may do."""

    DOCUMENTATION = r"""
options:
  limits:
    description:
      - Limits, and the minimum that is promised. Nothing changes where the option is not set.
      - Limits that are absent in it are taken away, and so an empty dictionary takes all away.
    type: dict
    suboptions:
      read:
        description: Limits of reads.
        type: dict
        suboptions: &rates
          iops:
            description: Commands a second, at least 100.
            type: int
          iops_per_gib:
            description: Commands a second for each GiB of the volume.
            type: int
          bytes_per_second:
            description: Bytes a second, at least 1 MiB, also with a unit such as V(500MB).
            type: str
          bytes_per_second_per_gib:
            description: Bytes a second for each GiB of the volume, also with a unit.
            type: str
      write:
        description: Limits of writes.
        type: dict
        suboptions: *rates
      total:
        description: Limits of reads and writes together.
        type: dict
        suboptions: *rates
      burst_ms:
        description:
          - Milliseconds. After a pause, as much as the rates give in that time starts at once.
          - The node takes 10 where the option is not set.
        type: int
      minimum_iops:
        description: Commands a second that it gets whatever others do, at least 100.
        type: int
"""
