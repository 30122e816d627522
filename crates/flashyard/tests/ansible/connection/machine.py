"""Runs on a machine that is made of namespaces, which the process `machine_pid` is in."""

import subprocess

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: machine
short_description: Machines that are made of namespaces
description: Runs on a machine that is made of namespaces.
options:
  machine_pid:
    description: A process of the machine.
    vars:
      - name: machine_pid
"""

ENVIRONMENT = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]


class Connection(ConnectionBase):
    transport = "machine"
    has_pipelining = True

    def _connect(self):
        return self

    def close(self):
        pass

    def inside(self, command, **streams):
        pid = str(self.get_option("machine_pid"))
        enter = ["nsenter", "--target", pid, "--mount", "--net", "--uts", "--pid", "--root"]
        words = enter + ["--wdns=/"] + ENVIRONMENT + ["/bin/sh", "-c", command]
        return subprocess.run(words, check=False, **streams)

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        done = self.inside(cmd, input=in_data or b"", capture_output=True)
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        with open(in_path, "rb") as file:
            self.copied(f"cat >{self._shell.quote(out_path)}", stdin=file)

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        with open(out_path, "wb") as file:
            self.copied(f"cat {self._shell.quote(in_path)}", stdout=file)

    def copied(self, command, **streams):
        if self.inside(command, stderr=subprocess.DEVNULL, **streams).returncode:
            raise AnsibleConnectionFailure(f"{command} failed")
