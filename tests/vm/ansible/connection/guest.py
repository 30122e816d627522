"""Runs on a virtual machine, by the service `serve` there."""

import socket

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: guest
short_description: Virtual machines of the tests
description: Runs on a virtual machine of the tests.
options:
  guest_port:
    description: Port of this machine that leads to the virtual machine.
    vars:
      - name: guest_port
"""

# Emulated processors share what a busy machine leaves them.
PATIENCE = 600


class Connection(ConnectionBase):
    transport = "guest"
    has_pipelining = True

    def _connect(self):
        return self

    def close(self):
        pass

    def inside(self, command, given=b""):
        command = command.encode()
        address = ("127.0.0.1", int(self.get_option("guest_port")))
        with socket.create_connection(address, PATIENCE) as link, link.makefile("rb") as answer:
            link.sendall(b"%d %d\n" % (len(command), len(given)) + command + given)
            head = answer.readline().split()
            if len(head) != 3:
                raise AnsibleConnectionFailure("the virtual machine hung up")
            code, output, errors = map(int, head)
            return code, answer.read(output), answer.read(errors)

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self.inside(cmd, in_data or b"")

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        with open(in_path, "rb") as file:
            code, _, errors = self.inside(f"cat >{self._shell.quote(out_path)}", file.read())
        if code:
            raise AnsibleConnectionFailure(errors.decode())

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        code, output, errors = self.inside(f"cat {self._shell.quote(in_path)}")
        if code:
            raise AnsibleConnectionFailure(errors.decode())
        with open(out_path, "wb") as file:
            file.write(output)
