# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Services of systemd that attach volumes when the machine starts."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import re

from ansible_collections.flashyard.storage.plugins.module_utils.mounts import run
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

UNITS = "/etc/systemd/system"
TARGET = "remote-fs.target"
UNIT = """# Written by Ansible: the module flashyard.storage.attach.
[Unit]
Description=Flashyard volume {name}
After=network-online.target
Wants=network-online.target
Before=remote-fs-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={start}
ExecStop={stop}

[Install]
WantedBy={target}
"""


def word(text):
    """A word of a command in a unit, which systemd leaves as it is."""
    text = text.replace("%", "%%").replace("$", "$$")
    if re.search(r"[\s\"'\\;]", text):
        text = '"%s"' % re.sub(r'(["\\])', r"\\\1", text).replace("\n", "\\n")
    return text


class Service:
    """The service that attaches one volume; `name` is that of the attachment."""

    def __init__(self, module, name):
        self.module, self.name = module, name
        self.unit = "flashyard-attach-%s.service" % name
        self.path = os.path.join(UNITS, self.unit)
        self.link = os.path.join(UNITS, TARGET + ".wants", self.unit)

    def look(self):
        """How it is now, as people see it; nothing where there is none."""
        try:
            with open(self.path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return {}
        return dict(boot=os.path.lexists(self.link), service=lines)

    def planned(self, start, stop):
        """How it is to be, with the words of its commands."""
        if not re.match(r"^[A-Za-z0-9:_.-]+\Z", self.name):
            raise Failure(
                "%s is no part of a service's name; allowed: letters, digits, and :_.-" % self.name
            )
        commands = [" ".join(word(text) for text in words) for words in (start, stop)]
        unit = UNIT.format(name=self.name, start=commands[0], stop=commands[1], target=TARGET)
        return dict(boot=True, service=unit.splitlines())

    def carry_out(self, after):
        """Makes it so."""
        if after:
            self.write(after["service"])
        else:
            self.remove()

    def write(self, lines):
        """Has systemd attach the volume when the machine starts, not now."""
        new = os.path.join(self.module.tmpdir, self.unit)
        with open(new, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        self.module.set_mode_if_different(new, "0644", False)
        self.module.atomic_move(new, self.path)
        self.systemctl("enable")

    def remove(self):
        """Has systemd forget it. The volume is detached already, or stays attached."""
        self.systemctl("disable")
        os.unlink(self.path)
        if not self.is_running():
            return
        # Without its file the service has no command to stop by, and nothing is detached twice.
        run(self.module, "systemctl", "daemon-reload")
        if self.state() not in ("inactive", "failed"):
            self.systemctl("stop")
        if self.state() == "failed":
            self.systemctl("reset-failed")

    def state(self):
        """What systemd says of it."""
        shown = run(self.module, "systemctl", "show", "--property=ActiveState", self.unit)
        return shown.strip().partition("=")[2]

    def is_running(self):
        """Whether systemd runs this machine, which it does not where an image is made."""
        return os.path.isdir("/run/systemd/system")

    def systemctl(self, act):
        """Has systemd do something with the unit, or change its files where it does not run."""
        options = [] if self.is_running() else ["--root=/"]
        run(self.module, "systemctl", *(options + [act, self.unit]))
