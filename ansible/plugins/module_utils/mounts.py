# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""What block devices carry, and where fstab mounts them."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import re

from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

FSTAB = "/etc/fstab"
# No mount point is in fstab or in the kernel's table with these characters as they are.
ESCAPED = re.compile(r"\\([0-7]{3})")


def plain(field):
    """A field of fstab or of the kernel's table, without escapes."""
    return ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), field)


def escaped(path):
    """The reverse."""
    return re.sub(r"[\\ \t\n]", lambda match: "\\%03o" % ord(match.group()), path)


def run(module, *command):
    """What a program prints; it has to succeed."""
    path = module.get_bin_path(command[0])
    if path is None:
        raise Failure("program %s is not installed on this host" % command[0])
    code, output, errors = module.run_command([path] + list(command[1:]))
    if code != 0:
        raise Failure("%s: %s" % (" ".join(command), " ".join(errors.split()) or code))
    return output


def carried(module, device):
    """What the device carries, in blkid's words; nothing where it is blank."""
    blkid = module.get_bin_path("blkid")
    if blkid is None:
        raise Failure("program blkid is not installed on this host")
    code, output, errors = module.run_command([blkid, "-p", "-o", "export", device])
    if code not in (0, 2):
        raise Failure("blkid %s: %s" % (device, " ".join(errors.split()) or code))
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def fstab_lines():
    """Lines of fstab."""
    try:
        with open(FSTAB, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def is_entry(line, path):
    """Whether the line of fstab mounts something there."""
    fields = line.split()
    return len(fields) > 1 and not fields[0].startswith("#") and plain(fields[1]) == path


def fstab_paths(device, uuid, unit):
    """Where fstab mounts the device or its file system, or what needs the unit of systemd."""

    def is_meant(source, options):
        if "x-systemd.requires=" + unit in options.split(","):
            return True
        kind, equals, value = source.partition("=")
        if equals:
            return uuid is not None and kind == "UUID" and value.strip('"') == uuid
        return device is not None and os.path.realpath(source) == os.path.realpath(device)

    entries = [line.split() for line in fstab_lines() if not line.lstrip().startswith("#")]
    return [
        plain(fields[1])
        for fields in entries
        if len(fields) > 3 and is_meant(plain(fields[0]), fields[3])
    ]
