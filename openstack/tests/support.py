# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""A real node, Cinder's real volume manager over it, and volumes as block devices."""

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import types

from cinder import context, objects
from cinder.tests.unit import test
from cinder.tests.unit import utils as made
from cinder.volume import manager, qos_specs, volume_types
from flashyard_client.api.access import create_token
from flashyard_client.api.drives import add_drive
from flashyard_client.api.hosts import add_host, generate_host_key
from flashyard_client.api.pools import create_pool
from flashyard_client.models import (
    HostKeyRequest,
    HostSpec,
    PathDrive,
    PathDriveKind,
    PoolLevel,
    PoolSpec,
    Role,
    TokenSpec,
)
from oslo_config import cfg

from cinder_flashyard.node import Node

PROGRAM = os.environ["FLASHYARD"]
# The page whose example of cinder.conf the tests use.
PAGE = os.environ["FLASHYARD_CINDER_PAGE"]
BACKEND = "machine@flashyard#fast"
NQN = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8a"
GIB = 1 << 30
PATIENCE = 60


def wait_until(holds):
    """Waits until it holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


class Served:
    """A node as a process of its own, over a directory that outlives it."""

    def __init__(self, directory):
        self.directory = directory
        self.ports = ("0", "0")
        self.advertises = False
        settings = os.path.join(directory, "flashyard.toml")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(f'state_directory = "{directory}"\nnode.name = "node-1"\n')
        self.start()
        self.admin = Node(
            types.SimpleNamespace(
                flashyard_url=self.url,
                flashyard_token_file=self.path("admin.token"),
                flashyard_ca_file=self.path("certificate.pem"),
                flashyard_server_name="localhost",
                flashyard_request_seconds=30,
                flashyard_retry_seconds=30,
            )
        )
        self.prepare()

    def path(self, name):
        """A file in the directory."""
        return os.path.join(self.directory, name)

    def start(self):
        """Starts the process, on the ports that it had before."""
        nvme, api = self.ports
        command = [PROGRAM, "serve", "--config", self.path("flashyard.toml")]
        command += ["--api-listen", f"127.0.0.1:{api}"]
        if not self.advertises:
            command += ["--listen", f"127.0.0.1:{nvme}"]
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self.is_up)
        self.ports = (self.told["nvme"][0].rsplit(":", 1)[1], self.told["api"].rsplit(":", 1)[1])
        self.url = self.told["api"]

    def is_up(self):
        """Whether the process that was started last serves."""
        assert self.process.poll() is None, "the node ended"
        try:
            with open(self.path("endpoints.json"), encoding="utf-8") as file:
                self.told = json.load(file)
        except (OSError, ValueError):
            return False
        return self.told["pid"] == self.process.pid

    def kill(self):
        """Ends the process at once, as a power loss would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self):
        """Ends the process as a power loss would, and starts it again."""
        self.kill()
        self.start()

    def advertise(self, *addresses):
        """Has hosts told these addresses, each by a port of its own, after a restart."""
        self.kill()
        self.advertises = True
        port = '[[nvme.ports]]\nlisten = "127.0.0.1:0"\nadvertise = "{}"\n'
        with open(self.path("flashyard.toml"), "a", encoding="utf-8") as file:
            file.write("".join(port.format(address) for address in addresses))
        self.start()

    @contextlib.contextmanager
    def killed_and_late(self):
        """The node is killed, and comes back while the block runs."""
        self.kill()
        back = threading.Timer(0.3, self.start)
        back.start()
        try:
            yield
        finally:
            back.join()

    def prepare(self):
        """Drives, a pool and a token for Cinder."""
        names = [f"d{index}" for index in range(4)]
        for name in names:
            drive = PathDrive(kind=PathDriveKind.PATH, path=self.path(name), size="1GiB")
            self.admin.ask(add_drive, name, body=drive)
        spec = PoolSpec(level=PoolLevel.RAID6, drives=names)
        self.admin.ask(create_pool, "fast", body=spec)
        self.token("cinder", Role.OPERATOR)

    def token(self, name, role, tenant=None):
        """Makes a token: the file that has it."""
        spec = TokenSpec(role=role)
        if tenant:
            spec.tenant = tenant
        made_token = self.admin.ask(create_token, name, body=spec)
        with open(self.path(name + ".token"), "w", encoding="utf-8") as file:
            file.write(made_token.secret + "\n")
        return self.path(name + ".token")

    def host_with_key(self, name, nqn):
        """Adds a host that has to prove a secret: the file that has it."""
        self.admin.ask(add_host, name, body=HostSpec(nqn=nqn))
        key = self.admin.ask(generate_host_key, name, body=HostKeyRequest())
        with open(self.path(name + ".secret"), "w", encoding="utf-8") as file:
            file.write(key.secret)
        return self.path(name + ".secret")


def documented_settings(node, backend="flashyard"):
    """The example of cinder.conf on the page, with the paths and the address of this node."""
    with open(PAGE, encoding="utf-8") as file:
        block = file.read().split("```ini\n# cinder.conf\n", 1)[1].split("```", 1)[0]
    for text, value in (
        ("https://node-1:4400", node.url),
        ("/etc/cinder/flashyard.token", node.path("cinder.token")),
        ("/etc/cinder/node-1.pem", node.path("certificate.pem")),
    ):
        assert text in block, text
        block = block.replace(text, value)
    block = block.replace("\n[flashyard]\n", f"\n[{backend}]\n")
    settings = node.path("cinder.conf")
    with open(settings, "w", encoding="utf-8") as file:
        file.write(block)
    return settings


class Records(logging.Handler):
    """All that is logged, at every level."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.text = []

    def emit(self, record):
        self.text.append(self.format(record))


def connector(number, host=None):
    """The connector of a machine, as os-brick makes it."""
    return {"nqn": f"{NQN}{number}", "host": host or f"Compute_{number}.example", "ip": "127.0.0.1"}


class Case(test.TestCase):
    """Cinder's manager of volumes, as the documented cinder.conf makes it, over a real node."""

    def setUp(self):
        super().setUp()
        self.records = Records()
        for name in (None, "httpx", "httpcore"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.DEBUG)
        logging.getLogger().addHandler(self.records)
        self.addCleanup(logging.getLogger().removeHandler, self.records)
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("FLASHYARD_TESTS"))
        self.addCleanup(directory.cleanup)
        self.served = Served(directory.name)
        self.addCleanup(self.served.kill)
        cfg.CONF([], default_config_files=[documented_settings(self.served)])
        self.context = context.get_admin_context()
        self.context.user_id, self.context.project_id = "user", "project"
        self.volumes = self.manager(cfg.CONF.enabled_backends[0])
        self.driver = self.volumes.driver
        self.node = self.served.admin

    def manager(self, backend):
        """The manager of a backend, as its service starts it."""
        host = f"machine@{backend}"
        service = objects.Service(
            self.context,
            host=host,
            binary="cinder-volume",
            topic="cinder-volume",
            rpc_current_version=manager.VolumeManager.RPC_API_VERSION,
            object_current_version=objects.base.OBJ_VERSIONS.get_current(),
        )
        service.create()
        volumes = manager.VolumeManager(service_name=backend, host=host)
        volumes.init_host(added_to_cluster=False, service_id=service.id)
        assert volumes.driver.initialized, "\n".join(self.records.text[-5:])
        return volumes

    def volume(self, **properties):
        """A volume in Cinder's database, not yet made."""
        usual = {"size": 1, "host": BACKEND, "status": "creating", "volume_type_id": self.vt["id"]}
        return made.create_volume(self.context, **dict(usual, **properties))

    def created(self, **properties):
        """A volume that the manager made."""
        volume = self.volume(**properties)
        self.volumes.create_volume(self.context, volume)
        volume.refresh()
        self.assertEqual("available", volume.status)
        return volume

    def snapshot(self, volume):
        """A snapshot in Cinder's database, not yet taken."""
        return made.create_snapshot(
            self.context, volume.id, volume_size=volume.size, volume_type_id=volume.volume_type_id
        )

    def volume_type(self, name, qos=None, **specs):
        """A volume type with extra specs and QoS specs."""
        found = volume_types.create(self.context, name, specs)
        if qos is not None:
            rates = qos_specs.create(self.context, f"{name}-qos", qos)
            qos_specs.associate_qos_with_type(self.context, rates.id, found.id)
        return objects.VolumeType.get_by_id(self.context, found.id)

    def attachment(self, volume, machine):
        """An attachment in Cinder's database."""
        found = objects.VolumeAttachment(
            self.context,
            volume_id=volume.id,
            attached_host=machine["host"],
            connector=machine,
            attach_status="attached",
        )
        found.create()
        return found

    @contextlib.contextmanager
    def device(self, connection, secret_file=None):
        """A block device, by nothing but the properties that os-brick would get."""
        assert connection["driver_volume_type"] == "nvmeof"
        data = connection["data"]
        address, port, _transport = data["portals"][0]
        remembered = self.served.path("attached")
        volume = f"tcp://{address}:{port}/{data['target_nqn']}?nsid=1"
        command = [PROGRAM, "attach", volume, "--method", "fuse", "--directory", remembered]
        command += ["--host-nqn", data["host_nqn"]]
        if secret_file:
            command += ["--dhchap-secret-file", secret_file]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode:
            raise OSError(done.stderr.strip())
        path = re.search(r"/dev/\S+", done.stdout).group()
        try:
            yield path
        finally:
            command = [PROGRAM, "detach", volume, "--directory", remembered]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)

    def write(self, connection, text, offset=0, secret_file=None):
        """Writes and flushes a block of text to a volume."""
        with self.device(connection, secret_file) as path, open(path, "r+b") as file:
            file.seek(offset)
            file.write(text.encode().ljust(4096, b"."))
            file.flush()
            os.fsync(file.fileno())

    def read(self, connection, offset=0, secret_file=None):
        """The text that a block of a volume has."""
        with self.device(connection, secret_file) as path, open(path, "rb") as file:
            file.seek(offset)
            return file.read(4096).rstrip(b".\0").decode()

    def connected(self, volume, number=1):
        """The connection of a machine to a volume."""
        return self.driver.initialize_connection(volume, connector(number))
