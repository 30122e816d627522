# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""The life of a volume on a real node that is killed between every pair of calls."""

from flashyard_client.api.snapshots import list_snapshots
from flashyard_client.api.volumes import list_volumes

from .support import GIB, Case, connector


class Life(Case):
    """Calls of Cinder's manager, each made while the node is away, and data written between."""

    def test_volume_lives_through_kills_between_all_calls(self):
        volumes, late, restart = self.volumes, self.served.killed_and_late, self.served.restart
        volume = self.volume()
        with late():
            volumes.create_volume(self.context, volume)
        with late():
            connection = volumes.initialize_connection(self.context, volume, connector(1))
        restart()
        self.write(connection, "first")
        snapshot = self.snapshot(volume)
        with late():
            volumes.create_snapshot(self.context, snapshot)
        restart()
        self.write(connection, "second")
        of_snapshot = self.volume(snapshot_id=snapshot.id, size=2)
        with late():
            volumes.create_volume(self.context, of_snapshot)
        clone = self.volume(source_volid=volume.id)
        with late():
            volumes.create_volume(self.context, clone)
        restart()
        self.assertEqual("second", self.read(self.connected(clone)))
        restart()
        self.assertEqual("first", self.read(self.connected(of_snapshot)))
        with late():
            volumes.extend_volume(self.context, volume, 3, [])
        restart()
        self.write(connection, "third", offset=3 * GIB - 4096)
        with late():
            volumes.terminate_connection(self.context, volume.id, connector(1))
        self.assertRaises(OSError, self.read, connection)
        volume.refresh()
        for found, status in ((volume, "reverting"), (snapshot, "restoring")):
            found.update({"status": status})
            found.save()
        with late():
            volumes.revert_to_snapshot(self.context, volume, snapshot)
        volume.refresh()
        self.assertEqual(("available", 3), (volume.status, volume.size))
        with late():
            connection = volumes.initialize_connection(self.context, volume, connector(1))
        self.assertEqual("first", self.read(connection))
        self.assertEqual("", self.read(connection, offset=3 * GIB - 4096))
        with late():
            volumes.terminate_connection(self.context, volume.id, connector(1))
        with late():
            volumes.delete_snapshot(self.context, snapshot)
        for found in (of_snapshot, clone):
            with late():
                self.driver.terminate_connection(found, connector(1))
        for found in (volume, of_snapshot, clone):
            with late():
                volumes.delete_volume(self.context, found)
        self.assertEqual([], list(self.node.list(list_volumes)))
        self.assertEqual([], list(self.node.list(list_snapshots)))
