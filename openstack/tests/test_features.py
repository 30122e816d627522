# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Features of Cinder beyond single volumes, by its manager, against a real node."""

from cinder import exception, objects
from cinder.scheduler.evaluator import evaluator
from cinder.tests.unit import fake_constants as fake
from cinder.tests.unit import utils as made
from cinder.tests.unit.image import fake as fake_image
from cinder.volume import group_types
from flashyard_client.api.hosts import list_hosts
from flashyard_client.api.pools import fail_pool_drive
from flashyard_client.api.snapshots import create_snapshot, list_snapshots
from flashyard_client.api.volumes import create_volume, list_volumes, show_volume
from flashyard_client.models import SnapshotSpec, VolumeSpec
from os_brick.initiator.connectors import nvmeof

from .support import BACKEND, GIB, Case, connector


class Addresses(Case):
    """Where hosts are to connect."""

    def test_hosts_are_told_what_is_advertised(self):
        volume = self.created()
        self.served.advertise("203.0.113.7:5000", "[2001:db8:9::7]:5001")
        properties = self.driver.initialize_connection(volume, connector(1))["data"]
        told = [("203.0.113.7", "5000", "tcp"), ("2001:db8:9::7", "5001", "tcp")]
        self.assertEqual(told, [tuple(portal) for portal in properties["portals"]])


class Types(Case):
    """Volume types: QoS specs, thick and thin, blocks."""

    def shown(self, volume):
        return self.node.ask(show_volume, volume.name)

    def test_qos_specs_are_limits_and_follow_a_retype(self):
        rates = {"consumer": "back-end", "total_iops_sec": "500", "read_bytes_sec": "4194304"}
        rates.update(write_iops_sec_per_gb="100", minimum_iops="200", burst_ms="50")
        gold = self.volume_type("gold", rates)
        plain = self.volume_type("plain", {"consumer": "front-end", "total_iops_sec": "7"})
        volume = self.created(volume_type_id=gold.id)
        limits = self.shown(volume).limits
        self.assertEqual(500, limits.total.iops)
        self.assertEqual(4194304, limits.read.bytes_per_second)
        self.assertEqual(100, limits.write.iops_per_gib)
        self.assertEqual((200, 50), (limits.minimum_iops, limits.burst_ms))
        clone = self.created(volume_type_id=gold.id, source_volid=volume.id)
        self.assertEqual(500, self.shown(clone).limits.total.iops)
        here, there = {"host": BACKEND}, {"host": "machine@other#fast"}
        retype = self.driver.retype
        self.assertTrue(retype(self.context, volume, {"id": plain.id}, {}, here))
        self.assertFalse(bool(self.shown(volume).limits))
        self.assertFalse(retype(self.context, volume, {"id": gold.id}, {}, there))
        self.assertFalse(bool(self.shown(volume).limits))

    def test_thick_volumes_and_block_sizes(self):
        thick = self.volume_type("thick", None, **{"provisioning:type": "thick"})
        large = self.volume_type("large", None, **{"flashyard:block_bytes": "4096"})
        volume = self.created(volume_type_id=thick.id)
        found = self.shown(volume)
        self.assertTrue(found.reserved)
        self.assertEqual(512, found.block_bytes)
        host = {"host": BACKEND}
        self.assertTrue(self.driver.retype(self.context, volume, self.vt, {}, host))
        self.assertFalse(bool(self.shown(volume).reserved))
        self.assertFalse(self.driver.retype(self.context, volume, {"id": large.id}, {}, host))
        # A type whose limits the node refuses leaves the volume as it was.
        both = self.volume_type(
            "both", {"consumer": "both", "total_iops_sec": "1"}, **{"provisioning:type": "thick"}
        )
        self.assertRaisesRegex(
            exception.VolumeBackendAPIException,
            "total.iops: 1; allowed: 100 or more",
            self.driver.retype,
            self.context,
            volume,
            {"id": both.id},
            {},
            host,
        )
        self.assertFalse(bool(self.shown(volume).reserved))
        made_large = self.created(volume_type_id=large.id)
        self.assertEqual(4096, self.shown(made_large).block_bytes)
        # A clone has the blocks that its data was written in.
        clone = self.created(source_volid=made_large.id)
        self.assertEqual(4096, self.shown(clone).block_bytes)


class Attached(Case):
    """Connections of several machines, and hosts that prove who they are."""

    def test_volume_is_shared_until_the_last_attachment_of_a_machine_goes(self):
        volume = self.created(multiattach=True)
        first, second = connector(1), connector(2)
        one, other = self.attachment(volume, first), self.attachment(volume, first)
        self.attachment(volume, second)
        connections = [
            self.driver.initialize_connection(volume, found) for found in (first, second)
        ]
        self.write(connections[0], "by the first")
        self.assertEqual("by the first", self.read(connections[1]))
        terminate = self.volumes.attachment_delete
        terminate(self.context, one.id, volume)
        self.assertEqual("by the first", self.read(connections[0]))
        objects.VolumeAttachment.get_by_id(self.context, one.id).destroy()
        volume = objects.Volume.get_by_id(self.context, volume.id)
        terminate(self.context, other.id, volume)
        self.assertRaisesRegex(OSError, "not allowed|refused|denied", self.read, connections[0])
        self.assertEqual("by the first", self.read(connections[1]))
        # A detachment by force, without a machine, denies everybody.
        self.driver.terminate_connection(volume, None, force=True)
        self.assertRaises(OSError, self.read, connections[1])

    def test_host_with_a_key_proves_it_and_no_secret_passes_through_cinder(self):
        secret_file = self.served.host_with_key("db-1", connector(1)["nqn"])
        volume = self.created()
        self.override_config("flashyard_authenticated_hosts_only", True, group="flashyard")
        connection = self.connected(volume, 1)
        self.write(connection, "proved", secret_file=secret_file)
        self.assertEqual("proved", self.read(connection, secret_file=secret_file))
        self.assertRaises(OSError, self.read, connection)
        with open(secret_file, encoding="utf-8") as file:
            self.assertNotIn(file.read(), str(connection) + "".join(self.records.text))
        self.assertRaisesRegex(
            exception.VolumeBackendAPIException,
            "has no key for DH-HMAC-CHAP",
            self.connected,
            volume,
            2,
        )
        self.assertEqual(["db-1"], [host.name for host in self.node.list(list_hosts)])

    def test_os_brick_reads_the_connection(self):
        volume = self.created()
        connection = self.connected(volume)
        found = self.node.ask(show_volume, volume.name)
        target = nvmeof.NVMeOFConnProps(dict(connection["data"])).targets[0]
        self.assertEqual(found.nqn, target.nqn)
        self.assertEqual(str(found.uuid), target.uuid)
        self.assertEqual(connector(1)["nqn"], target.host_nqn)
        address, port = self.served.told["nvme"][0].split(":")
        portals = [(portal.address, portal.port, portal.transport) for portal in target.portals]
        self.assertEqual([(address, port, "tcp")], portals)

    def test_connector_without_nvme_is_refused(self):
        volume = self.created()
        self.assertRaisesRegex(
            exception.InvalidConnectorException,
            "nqn",
            self.driver.validate_connector,
            {"host": "old"},
        )
        self.assertEqual([], self.node.ask(show_volume, volume.name).hosts)


class Grouped(Case):
    """Groups, by Cinder's manager."""

    def group(self, **properties):
        specs = {"consistent_group_snapshot_enabled": "<is> True"}
        kind = group_types.create(self.context, f"kind-{len(properties)}", specs)
        usual = {"host": BACKEND, "volume_type_ids": [self.vt["id"]], "group_type_id": kind.id}
        return made.create_group(self.context, **dict(usual, **properties))

    def test_snapshots_of_a_group_are_of_one_instant(self):
        group = self.group()
        self.volumes.create_group(self.context, group)
        members = [self.created(group_id=group.id) for _ in range(2)]
        connections = [self.connected(volume) for volume in members]
        for connection in connections:
            self.write(connection, "before")
        taken = made.create_group_snapshot(
            self.context, group.id, group_type_id=group.group_type_id
        )
        snapshots = []
        for volume in members:
            snapshot = self.snapshot(volume)
            snapshot.update({"group_snapshot_id": taken.id})
            snapshot.save()
            snapshots.append(snapshot)
        with self.served.killed_and_late():
            self.volumes.create_group_snapshot(self.context, taken)
        found = list(self.node.list(list_snapshots))
        self.assertEqual({snapshot.name for snapshot in snapshots}, {item.name for item in found})
        # Asked once more, as after an answer that was lost.
        self.driver.create_group_snapshot(self.context, taken, snapshots)
        for connection in connections:
            self.write(connection, "after")
        copies = self.group(group_snapshot_id=taken.id)
        volumes = [
            self.volume(group_id=copies.id, snapshot_id=snapshot.id) for snapshot in snapshots
        ]
        self.volumes.create_group_from_src(self.context, copies, group_snapshot=taken)
        for volume in volumes:
            self.assertEqual("before", self.read(self.connected(volume)))
            self.driver.terminate_connection(volume, connector(1))
        clones = self.group(source_group_id=group.id, description="clones")
        volumes = [self.volume(group_id=clones.id, source_volid=found.id) for found in members]
        self.volumes.create_group_from_src(self.context, clones, source_group=group)
        for volume in volumes:
            self.assertEqual("after", self.read(self.connected(volume)))
            self.driver.terminate_connection(volume, connector(1))
        self.volumes.delete_group_snapshot(self.context, taken)
        # No snapshot that served to clone is left either.
        self.assertEqual([], list(self.node.list(list_snapshots)))
        for volume in members:
            self.driver.terminate_connection(volume, connector(1))
        for found in (copies, clones, group):
            self.volumes.delete_group(self.context, found)
        self.assertEqual([], list(self.node.list(list_volumes)))


class Managed(Case):
    """Volumes and snapshots that were there before Cinder."""

    def test_volume_and_snapshot_are_taken_and_let_go(self):
        spec = VolumeSpec(pool="fast", size="1500MiB", hosts=[])
        before = self.node.ask(create_volume, "data", body=spec)
        self.node.ask(create_snapshot, "monday", body=SnapshotSpec(volume="data"))
        reference = {"source-name": "data"}
        volume = self.volume(size=0)
        rows = self.driver.get_manageable_volumes([volume], None, 10, 0, ["size"], ["asc"])
        self.assertEqual([(reference, 2, True)], [self.row(found) for found in rows])
        self.volumes.manage_existing(self.context, volume, reference)
        volume.refresh()
        self.assertEqual(("available", 2), (volume.status, volume.size))
        found = self.node.ask(show_volume, volume.name)
        self.assertEqual((2 * GIB, before.uuid), (found.capacity_bytes, found.uuid))
        rows = self.driver.get_manageable_volumes([volume], None, 10, 0, ["size"], ["asc"])
        self.assertEqual([({"source-name": volume.name}, 2, False)], [self.row(r) for r in rows])
        self.manages_snapshot(volume)
        self.driver.unmanage(volume)
        self.assertEqual(before.uuid, self.node.ask(show_volume, volume.name).uuid)

    def manages_snapshot(self, volume):
        """A snapshot keeps its name, and is used by it."""
        reference, snapshot = {"source-name": "monday"}, self.snapshot(volume)
        rows = self.driver.get_manageable_snapshots([], None, 10, 0, ["size"], ["asc"])
        self.assertEqual([(reference, 2, True)], [self.row(found) for found in rows])
        self.volumes.manage_existing_snapshot(self.context, snapshot, reference)
        snapshot.refresh()
        self.assertEqual("monday", snapshot.provider_id)
        rows = self.driver.get_manageable_snapshots([snapshot], None, 10, 0, ["size"], ["asc"])
        self.assertEqual([(reference, 2, False)], [self.row(found) for found in rows])
        self.assertRaises(
            exception.ManageExistingAlreadyManaged,
            self.driver.manage_existing_snapshot,
            self.snapshot(volume),
            reference,
        )
        clone = self.created(snapshot_id=snapshot.id, size=2)
        self.assertEqual("monday", self.node.ask(show_volume, clone.name).origin)
        self.driver.delete_snapshot(snapshot)
        self.assertEqual([], list(self.node.list(list_snapshots)))

    @staticmethod
    def row(found):
        return (found["reference"], found["size"], found["safe_to_manage"])

    def test_what_cinder_may_not_have_is_refused(self):
        specs = {
            "used": VolumeSpec(pool="fast", size="1GiB", hosts=["any"]),
            "twin-1": VolumeSpec(pool="fast", size="1GiB", hosts=[], subsystem="twins"),
            "twin-2": VolumeSpec(pool="fast", size="1GiB", hosts=[], subsystem="twins"),
        }
        for name, spec in specs.items():
            self.node.ask(create_volume, name, body=spec)
        ours, before = self.created(), list(self.node.list(list_volumes))
        for reference, error, reason in (
            ({"source-name": "used"}, "InvalidReference", "hosts use it: any"),
            ({"source-name": "twin-1"}, "InvalidReference", "several volumes: twin-1, twin-2"),
            ({"source-name": "nowhere"}, "InvalidReference", "fast has no volume nowhere"),
            ({"source-id": "used"}, "InvalidReference", "source-name is missing"),
            ({"source-name": ours.name}, "AlreadyManaged", "already managed"),
        ):
            kind = getattr(exception, "ManageExisting" + error)
            for call in (self.driver.manage_existing_get_size, self.driver.manage_existing):
                self.assertRaisesRegex(kind, reason, call, self.volume(), reference)
        self.assertEqual(before, list(self.node.list(list_volumes)))


class Migrated(Case):
    """Volumes that Cinder copied here from another backend."""

    def test_volume_has_its_former_name_unless_that_is_taken(self):
        former, copied = self.volume(), self.created()
        uuid = self.node.ask(show_volume, copied.name).uuid
        update = self.driver.update_migrated_volume
        self.assertEqual({"_name_id": None}, update(self.context, former, copied, "available"))
        self.assertEqual(uuid, self.node.ask(show_volume, former.name).uuid)
        # Asked once more, as after an answer that was lost.
        self.assertEqual({"_name_id": None}, update(self.context, former, copied, "available"))
        other = self.created()
        self.assertEqual({"_name_id": other.id}, update(self.context, former, other, "available"))
        self.assertEqual(uuid, self.node.ask(show_volume, former.name).uuid)


class Reports(Case):
    """Capacity, goodness, and images that are cached."""

    def goodness(self, pool):
        return evaluator.evaluate(pool["goodness_function"], capabilities=pool)

    def test_pool_reports_capacity_and_goodness(self):
        self.created(size=5)
        stats = self.driver.get_volume_stats(refresh=True)
        pool = stats["pools"][0]
        self.assertEqual(("up", "fast"), (stats["backend_state"], pool["pool_name"]))
        self.assertEqual(5, pool["provisioned_capacity_gb"])
        self.assertTrue(1 < pool["free_capacity_gb"] <= pool["total_capacity_gb"] < 2, pool)
        whole = self.goodness(pool)
        self.assertTrue(90 < whole <= 100, whole)
        # Two drives that are left are too few to be made whole again.
        for drive in ("d0", "d1"):
            self.node.ask(fail_pool_drive, "fast", drive)
        pool = self.driver.get_volume_stats(refresh=True)["pools"][0]
        self.assertEqual(1, pool["degraded"])
        self.assertTrue(0 < self.goodness(pool) <= whole / 2, pool)
        self.override_config("flashyard_retry_seconds", 0, group="flashyard")
        self.driver.do_setup(self.context)
        self.served.kill()
        self.assertEqual("down", self.driver.get_volume_stats(refresh=True)["backend_state"])
        self.served.start()
        self.assertEqual("up", self.driver.get_volume_stats(refresh=True)["backend_state"])

    def test_image_that_is_cached_becomes_a_volume_by_a_clone(self):
        fake_image.mock_image_service(self)
        image = fake_image.FakeImageService().show(self.context, fake.IMAGE_ID)
        cached = self.created()
        self.write(self.connected(cached), "an image")
        self.driver.terminate_connection(cached, connector(1))
        cache = self.volumes.image_volume_cache
        cache.create_cache_entry(self.context, cached, image["id"], image)
        volume = self.volume(size=2)
        request = {"image_id": image["id"], "image_size": 1, "volume_properties": {}}
        self.volumes.create_volume(self.context, volume, request)
        volume.refresh()
        self.assertEqual("available", volume.status)
        self.assertEqual(2 * GIB, self.node.ask(show_volume, volume.name).capacity_bytes)
        self.assertEqual("an image", self.read(self.connected(volume)))
