# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Changes that a node makes and whose answers are lost: each is asked for again, without harm."""

import httpx
from cinder.tests.unit import utils as made
from cinder.volume import group_types
from flashyard_client.api.hosts import list_hosts
from flashyard_client.api.snapshots import list_snapshots
from flashyard_client.api.volumes import create_volume, list_volumes, show_volume
from flashyard_client.models import VolumeSpec

from .support import BACKEND, GIB, Case, connector


class Losing(httpx.BaseTransport):
    """A connection that loses the first answer to each change."""

    def __init__(self, transport):
        self.transport = transport
        self.lost = []

    def handle_request(self, request):
        answer = self.transport.handle_request(request)
        change = (request.method, str(request.url), request.content)
        if request.method == "GET" or change in self.lost:
            return answer
        answer.read()
        answer.close()
        self.lost.append(change)
        raise httpx.ReadError("the answer was lost")


class LostAnswers(Case):
    """Every call that changes something."""

    def setUp(self):
        super().setUp()
        client = self.driver.node.client.get_httpx_client()
        self.losing = client._transport = Losing(client._transport)

    def loses(self, changes, call, *arguments):
        """A call succeeds although the answers to as many changes are lost."""
        before = len(self.losing.lost)
        result = call(*arguments)
        self.assertEqual(changes, len(self.losing.lost) - before)
        return result

    def shown(self, volume):
        return self.node.ask(show_volume, volume.name)

    def test_volumes_and_snapshots(self):
        driver, rates = self.driver, {"consumer": "back-end", "total_iops_sec": "500"}
        gold = self.volume_type("gold", rates, **{"provisioning:type": "thick"})
        volume, clone = self.volume(volume_type_id=gold.id), self.volume(size=2)
        self.loses(2, driver.create_volume, volume)
        self.assertEqual(500, self.shown(volume).limits.total.iops)
        snapshot = self.snapshot(volume)
        self.loses(1, driver.create_snapshot, snapshot)
        # A snapshot, the volume, its size, and the snapshot's end.
        self.loses(4, driver.create_cloned_volume, clone, volume)
        self.assertEqual(2 * GIB, self.shown(clone).capacity_bytes)
        self.loses(2, driver.retype, self.context, volume, self.vt, {}, {"host": BACKEND})
        self.assertFalse(bool(self.shown(volume).reserved))
        self.loses(1, driver.extend_volume, volume, 3)
        volume.size = 3
        self.loses(1, driver.revert_to_snapshot, self.context, volume, snapshot)
        self.assertEqual(3 * GIB, self.shown(volume).capacity_bytes)
        # The host, and its permission.
        connection = self.loses(2, driver.initialize_connection, volume, connector(1))
        self.assertEqual(1, len(list(self.node.list(list_hosts))))
        self.write(connection, "through")
        self.loses(1, driver.terminate_connection, volume, connector(1))
        self.assertEqual([], self.shown(volume).hosts)
        self.loses(1, driver.delete_snapshot, snapshot)
        self.loses(1, driver.delete_volume, volume)
        self.loses(1, driver.delete_volume, clone)
        self.assertEqual([], list(self.node.list(list_volumes)))
        self.assertEqual([], list(self.node.list(list_snapshots)))

    def test_groups_and_managing(self):
        driver = self.driver
        spec = VolumeSpec(pool="fast", size="1GiB", hosts=[])
        before = self.node.ask(create_volume, "data", body=spec)
        volume = self.volume()
        # The limits, and the name.
        self.loses(2, driver.manage_existing, volume, {"source-name": "data"})
        self.assertEqual(before.uuid, self.shown(volume).uuid)
        specs = {"consistent_group_snapshot_enabled": "<is> True"}
        kind = group_types.create(self.context, "consistent", specs)
        types = {"host": BACKEND, "volume_type_ids": [self.vt["id"]], "group_type_id": kind.id}
        group = made.create_group(self.context, **types)
        copies = [self.volume(), self.volume()]
        create = driver.create_group_from_src
        # Two snapshots at once, two volumes, and the end of the snapshots.
        self.loses(5, create, self.context, group, copies, None, None, group, [volume, volume])
