# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""The flashyard program on a host, which attaches volumes there and knows what is attached."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import os
import re

from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

# Where the program remembers what is attached, unless it is told otherwise.
DIRECTORY = "/run/flashyard/attached"


def program_options(**own):
    """Options of a module that runs the program, and those of its own."""
    return dict(
        program=dict(type="path", default="flashyard"),
        directory=dict(type="path", default=DIRECTORY),
        **own
    )


class Program:
    """The program, as root of the host."""

    def __init__(self, module):
        self.module = module
        params = module.params
        self.path = params["program"]
        if "/" not in self.path:
            self.path = module.get_bin_path(self.path)
        elif not os.access(self.path, os.X_OK):
            self.path = None
        self.directory = ["--directory", params["directory"]]

    def run(self, *arguments):
        """What it prints; it has to succeed."""
        if self.path is None:
            program = self.module.params["program"]
            raise Failure("program %s is not there; allowed: install it first" % program)
        command = [self.path] + list(arguments) + self.directory
        code, output, errors = self.module.run_command(command)
        if code != 0:
            lines = [line for line in errors.strip().splitlines() if line]
            raise Failure("; ".join(lines) or "%s ended with %d" % (self.path, code))
        return output

    def command(self, *arguments):
        """The words with which a service runs it, on a host that may not have it yet."""
        path = self.path or os.path.join("/usr/bin", self.module.params["program"])
        elsewhere = self.directory if self.directory[1] != DIRECTORY else []
        return [path] + list(arguments) + elsewhere

    def attachments(self):
        """What is attached to this host; nothing where the program is not there yet."""
        if self.path is None:
            return []
        try:
            found = json.loads(self.run("attached", "--output", "json"))
        except ValueError as error:
            raise Failure("%s attached: no JSON: %s" % (self.path, error))
        return [attachment_of(one) for one in found]


def attachment_of(told):
    """An attachment in the words of the modules."""
    paths = [parts_of(text) for text in told["address"].split()]
    return dict(
        name=told["name"],
        nqn=paths[0][1],
        nsid=paths[0][2],
        addresses=[path[0] for path in paths],
        method="kernel" if "kernel" in told["way"] else "fuse",
        device=told["device"],
        state=told["condition"],
        since=told["since"],
        why=told["why"],
    )


def parts_of(address):
    """Address, NQN and namespace of what the program remembers of a path."""
    match = re.match(r"^(?:tcp|rdma)://([^/]+)/(.*?)(?:\?nsid=([0-9]+))?$", address)
    if match is None:
        raise Failure("attached as %s; allowed: tcp:// or rdma://, HOST:PORT/NQN?nsid=N" % address)
    return match.group(1), match.group(2), int(match.group(3) or 1)
