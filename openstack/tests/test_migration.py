# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Cinder's copy of a volume from one real node to another, which are killed between its calls."""

import contextlib
import os
import tempfile
from unittest import mock

from cinder import exception
from cinder.volume import rpcapi, volume_utils
from flashyard_client.api.volumes import list_volumes, show_volume
from oslo_config import cfg

from .support import GIB, Case, Served, connector, documented_settings

ELSEWHERE = "machine@elsewhere#fast"
# Where the volume has data: at its beginning, within it and at its end.
PLACES = {0: "first", GIB // 2 + 4096: "middle", GIB - 4096: "last"}


class Calls:
    """Calls from a service of Cinder to another: each manager is called by the host it is for.

    The nodes in `killed`, by the same hosts, are away when a call begins, and come back during it.
    """

    def __init__(self, *managers):
        self.managers = {found.host: found for found in managers}
        self.killed = {}
        self.made = []

    def of(self, volume):
        """The manager of a volume."""
        return self.managers[volume_utils.extract_host(volume.host)]

    @contextlib.contextmanager
    def call(self, name, volume):
        """The manager of a volume, while a call of it is made."""
        manager = self.of(volume)
        self.made.append(name)
        served = self.killed.get(manager.host)
        with served.killed_and_late() if served else contextlib.nullcontext():
            yield manager

    def create_volume(self, context, volume, *_request, **_options):
        # A cast: its failure shows in the volume's status alone.
        with contextlib.suppress(exception.CinderException), self.call("create", volume) as there:
            there.create_volume(context, volume)

    def delete_volume(self, context, volume, *_options):
        with self.call("delete", volume) as there:
            there.delete_volume(context, volume)

    def initialize_connection(self, context, volume, machine):
        with self.call("connect", volume) as there:
            return there.initialize_connection(context, volume, machine)

    def terminate_connection(self, context, volume, machine, force=False):
        with self.call("disconnect", volume) as there:
            there.terminate_connection(context, volume.id, machine, force)

    def remove_export(self, context, volume):
        with self.call("remove the export", volume) as there:
            there.remove_export(context, volume.id)

    def update_migrated_volume(self, context, volume, new_volume, status):
        with self.call("update", new_volume) as there:
            there.update_migrated_volume(context, volume, new_volume, status)

    @staticmethod
    def get_capabilities(_context, _topic, _discover):
        return {}


class Brick:
    """Stands where os-brick's connector is, on a machine whose kernel has no NVMe/TCP host."""

    def __init__(self, case):
        self.case, self.attached = case, None

    def connect_volume(self, data):
        self.attached = self.case.device({"driver_volume_type": "nvmeof", "data": data})
        return {"type": "block", "path": self.attached.__enter__()}

    @staticmethod
    def check_valid_device(path, _root):
        return os.path.exists(path)

    def disconnect_volume(self, _data, _device, force=False):
        self.attached.__exit__(None, None, None)


class Migration(Case):
    """A volume goes from one node to another, by Cinder's own copy."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("FLASHYARD_TESTS"))
        self.addCleanup(directory.cleanup)
        self.elsewhere = Served(directory.name)
        self.addCleanup(self.elsewhere.kill)
        both = [
            documented_settings(self.served),
            documented_settings(self.elsewhere, "elsewhere"),
        ]
        cfg.CONF([], default_config_files=both)
        there = self.manager("elsewhere")
        self.calls = calls = Calls(self.volumes, there)
        for target, name, value in (
            (rpcapi, "VolumeAPI", lambda: calls),
            (volume_utils, "brick_get_connector", lambda *_words, **_more: Brick(self)),
            (volume_utils, "brick_get_connector_properties", lambda *_words: connector(9)),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        # The tests are root, and need nobody who makes them so.
        helper = mock.patch("cinder.utils.get_root_helper", return_value="env")
        helper.start()
        self.addCleanup(helper.stop)

    def filled(self):
        """A volume that has data."""
        volume = self.created()
        for offset, text in PLACES.items():
            self.write(self.connected(volume), text, offset=offset)
        self.driver.terminate_connection(volume, connector(1))
        volume.update({"previous_status": "available", "status": "maintenance"})
        volume.save()
        return volume

    def contents(self, volume, driver):
        """The data of a volume."""
        connection = driver.initialize_connection(volume, connector(1))
        return {offset: self.read(connection, offset=offset) for offset in PLACES}

    def test_volume_goes_through_kills_between_all_calls_with_all_its_data(self):
        volume = self.filled()
        name = volume.name
        self.calls.killed = {"machine@flashyard": self.served, "machine@elsewhere": self.elsewhere}
        with self.served.killed_and_late():
            self.volumes.migrate_volume(self.context, volume, {"host": ELSEWHERE})
        for call in ("create", "connect", "disconnect", "update", "delete"):
            self.assertIn(call, self.calls.made)
        volume.refresh()
        self.assertEqual(("available", "success"), (volume.status, volume.migration_status))
        self.assertEqual((ELSEWHERE, name), (volume.host, volume.name))
        self.assertEqual([], list(self.node.list(list_volumes)))
        found = self.elsewhere.admin.ask(show_volume, name)
        self.assertEqual((GIB, []), (found.capacity_bytes, found.hosts))
        driver = self.calls.of(volume).driver
        self.assertEqual(PLACES, self.contents(volume, driver))
        driver.terminate_connection(volume, connector(1))
        self.calls.delete_volume(self.context, volume)
        self.assertEqual([], list(self.elsewhere.admin.list(list_volumes)))

    def test_volume_stays_where_it_is_when_the_other_node_is_lost(self):
        volume = self.filled()
        self.override_config("flashyard_retry_seconds", 0, group="elsewhere")
        self.calls.managers["machine@elsewhere"].driver.do_setup(self.context)
        self.elsewhere.kill()
        self.assertRaises(
            exception.VolumeMigrationFailed,
            self.volumes.migrate_volume,
            self.context,
            volume,
            {"host": ELSEWHERE},
        )
        self.elsewhere.start()
        volume.refresh()
        self.assertEqual(("available", "error"), (volume.status, volume.migration_status))
        self.assertEqual([], list(self.elsewhere.admin.list(list_volumes)))
        self.assertEqual(PLACES, self.contents(volume, self.driver))
