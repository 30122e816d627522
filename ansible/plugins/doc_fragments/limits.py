# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""What the documentation says of limits, of volumes and of tenants."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DIRECTION = """
      {name}:
        description: {what}
        type: dict
        suboptions:
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
            type: str"""


class ModuleDocFragment:
    """The option that says what a volume, or a tenant's volumes together, may do."""

    DOCUMENTATION = (
        r"""
options:
  limits:
    description:
      - What it may do, and what it is promised. Nothing changes where the option is not set.
      - What is absent in it is not limited, so an empty dictionary takes all limits away.
    type: dict
    suboptions:"""
        + DIRECTION.format(name="read", what="Limits of reads.")
        + DIRECTION.format(name="write", what="Limits of writes.")
        + DIRECTION.format(name="total", what="Limits of reads and writes together.")
        + r"""
      burst_ms:
        description:
          - After a pause, what the rates are in this many milliseconds starts at once.
          - The node takes 10 where the option is not set.
        type: int
      minimum_iops:
        description: Commands a second that it gets whatever others do, at least 100.
        type: int
"""
    )
