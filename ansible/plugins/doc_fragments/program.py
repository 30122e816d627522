# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Documentation of modules that run the flashyard program on a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment:
    """Options that say which program, and where it remembers what is attached."""

    DOCUMENTATION = r"""
options:
  program:
    description: The flashyard program on the host, by its path or its name.
    type: path
    default: flashyard
  directory:
    description: Directory in which the program remembers what is attached.
    type: path
    default: /run/flashyard/attached
attributes:
  check_mode:
    description: A check run changes nothing, and predicts what a run changes.
    support: full
  diff_mode:
    description: The module returns what differs, without secrets.
    support: full
notes:
  - The module runs on the host that uses the volume, as root.
author:
  - Flashyard contributors (@flashyard)
"""

    INFO = r"""
attributes:
  diff_mode:
    description: The module changes nothing.
    support: N/A
"""
