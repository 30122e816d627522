# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Numbers of bytes as people write them: the same words as the flashyard program takes."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import re
from fractions import Fraction

from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "pib": 1 << 50,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "pb": 10**15,
}
# Drives and volumes are whole blocks of this many bytes.
BLOCK = 4096
LARGEST = (1 << 64) - 1


def bytes_of(text, option):
    """The bytes that a text says: exactly, never rounded."""
    match = re.match(r"^([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)$", str(text).strip(), re.ASCII)
    unit = UNITS.get(match.group(2).lower()) if match else None
    count = Fraction(match.group(1)) * unit if unit else Fraction(1, 2)
    if count.denominator != 1 or count > LARGEST or (unit == 1 and "." in match.group(1)):
        raise Failure(
            "%s: size %r; allowed: a whole number of bytes, or a number with KiB, MiB, GiB, TiB, "
            "PiB, KB, MB, GB, TB or PB" % (option, text)
        )
    return int(count)


def blocks_of(text, option):
    """The bytes of the whole blocks that have room for what a text says."""
    return -(-bytes_of(text, option) // BLOCK) * BLOCK
