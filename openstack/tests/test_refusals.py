# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Bad input: one clear failure each, nothing half made, and secrets in no log."""

import http.server
import socket
import threading

from cinder import exception
from cinder.tests.unit import utils as made
from cinder.volume import group_types
from flashyard_client.api.snapshots import create_snapshot, list_snapshots
from flashyard_client.api.volumes import create_volume, list_volumes, show_volume
from flashyard_client.models import Role, SnapshotSpec, VolumeSpec

from .support import BACKEND, GIB, Case, connector


class Page(http.server.BaseHTTPRequestHandler):
    """A server that is no node."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_arguments):
        """Says nothing."""


class Refused(Case):
    """Calls that fail."""

    def setUp(self):
        super().setUp()
        self.override("flashyard_retry_seconds", 1)

    def override(self, option, value):
        """Another value of an option, which the driver reads when it is set up."""
        self.override_config(option, value, group="flashyard")
        self.driver.do_setup(self.context)

    def fails(self, reason, call, *arguments, kind=exception.VolumeBackendAPIException, **named):
        """A call fails in one line that has the reason, and leaves the node as it is."""
        before = self.everything()
        error = self.assertRaises(kind, call, *arguments, **named)
        self.assertIn(reason, str(error))
        self.assertNotIn("\n", str(error))
        self.assertEqual(before, self.everything())

    def everything(self):
        """All volumes and snapshots."""
        return [list(self.node.list(list_volumes)), list(self.node.list(list_snapshots))]

    def names(self):
        """Those of all volumes and snapshots."""
        return [[found.name for found in kind] for kind in self.everything()]

    def token_of(self, words):
        """A token file."""
        path = self.served.path("other.token")
        with open(path, "w", encoding="utf-8") as file:
            file.write(words)
        return path

    def test_tokens(self):
        check = self.driver.check_for_setup_error
        wrong = "fyt_wrong0000000000000000000000000000000000000"
        for words, reason in (
            (wrong, "it does not take the token"),
            ("two words", "2 words; allowed: one"),
            ("", "0 words; allowed: one"),
            ("t\u00f6ken", "characters that no token has"),
        ):
            self.override("flashyard_token_file", self.token_of(words))
            self.fails(reason, check)
        self.override("flashyard_token_file", "/nonexistent")
        self.fails("flashyard_token_file /nonexistent: No such file or directory", check)
        self.override("flashyard_token_file", self.served.token("reader", Role.VIEWER))
        self.fails("reader has role viewer; allowed: operator or admin, of no tenant", check)
        self.override("flashyard_token_file", self.served.token("acme", Role.OPERATOR, "acme"))
        self.fails("acme has role operator of a tenant; allowed", check)
        # A token that is put right counts without a restart.
        with open(self.served.path("cinder.token"), encoding="utf-8") as file:
            right = file.read()
        self.override("flashyard_token_file", self.token_of(wrong))
        self.fails("it does not take the token", self.driver.create_volume, self.volume())
        self.token_of(right)
        self.driver.create_volume(self.volume())
        logged = "".join(self.records.text)
        for name in ("admin.token", "cinder.token", "reader.token", "acme.token"):
            with open(self.served.path(name), encoding="utf-8") as file:
                self.assertNotIn(file.read().strip(), logged)
        self.assertNotIn(wrong, logged)

    def test_addresses(self):
        check, url = self.driver.check_for_setup_error, self.served.url
        for bad, reason in (
            ("http://192.0.2.1:4400", "a token goes over http to this machine only; use https"),
            ("ftp://node-1", "allowed: https://HOST or https://HOST:PORT"),
            ("https://node-1:port", "flashyard_url https://node-1:port: Port could not be cast"),
        ):
            self.fails(reason, self.override, "flashyard_url", bad)
        for option in ("flashyard_url", "flashyard_token_file", "flashyard_pool"):
            value = self.driver.configuration.safe_get(option)
            self.fails(option, self.override, option, "", kind=exception.InvalidConfigurationValue)
            self.override_config(option, value, group="flashyard")
        self.override("flashyard_url", url)
        self.fails("no pool is named nowhere", self.with_option, "flashyard_pool", "nowhere")
        self.override("flashyard_pool", "fast")
        self.override("flashyard_server_name", "other.example")
        self.fails("its certificate is not trusted: Hostname mismatch", check)
        self.override("flashyard_ca_file", None)
        self.fails("its certificate is not trusted: self-signed certificate", check)
        self.fails(
            "flashyard_ca_file /nonexistent: No such file",
            self.override,
            "flashyard_ca_file",
            "/nonexistent",
        )

    def test_a_transport_that_the_node_has_no_port_of(self):
        volume = self.created()
        self.override("flashyard_transport", "rdma")
        connects = self.driver.initialize_connection
        self.fails("has no port over rdma", connects, volume, connector(1))

    def with_option(self, option, value):
        """A start of the driver with another value."""
        self.override(option, value)
        self.driver.check_for_setup_error()

    def test_nodes_that_do_not_answer(self):
        volume = self.volume()
        self.served.kill()
        create = self.driver.create_volume
        error = self.assertRaises(exception.VolumeBackendAPIException, create, volume)
        self.assertIn("does not answer: Connection refused", str(error))
        self.served.start()
        self.assertEqual([[], []], self.everything())
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.override_config("flashyard_request_seconds", 1, group="flashyard")
            self.override("flashyard_url", f"http://127.0.0.1:{silent.getsockname()[1]}")
            self.fails("does not answer: no answer in time", create, volume)
        with http.server.HTTPServer(("127.0.0.1", 0), Page) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            self.override("flashyard_url", f"http://127.0.0.1:{other.server_port}")
            check = self.driver.check_for_setup_error
            self.fails("is no Flashyard node: its answer has another shape", check)
            other.shutdown()

    def calls(self):
        """Every call that asks the node, each with what is there, or is to be made."""
        driver, context = self.driver, self.context
        source = self.created()
        snapshot, other = self.snapshot(source), self.snapshot(source)
        driver.create_snapshot(snapshot)
        self.node.ask(create_volume, "before", body=VolumeSpec(pool="fast", size=GIB))
        self.node.ask(create_snapshot, "monday", body=SnapshotSpec(volume=source.name))
        specs = {"consistent_group_snapshot_enabled": "<is> True"}
        kind = group_types.create(context, "consistent", specs).id
        types, before = [self.vt["id"]], {"source-name": "before"}
        group = made.create_group(context, host=BACKEND, volume_type_ids=types, group_type_id=kind)
        taken = made.create_group_snapshot(context, group.id, group_type_id=kind)
        rows = ([], None, 10, 0, ["size"], ["asc"])
        where, monday = {"host": source.host}, {"source-name": "monday"}
        of_snapshot = {"group_snapshot": taken, "snapshots": [snapshot]}
        of_group = {"source_group": group, "source_vols": [source]}
        new = self.volume()
        calls = (
            (driver.check_for_setup_error,),
            (driver.create_volume, new),
            (driver.create_volume_from_snapshot, new, snapshot),
            (driver.create_cloned_volume, new, source),
            (driver.delete_volume, source),
            (driver.extend_volume, source, 2),
            (driver.retype, context, source, {"id": self.vt["id"]}, {}, where),
            (driver.update_migrated_volume, context, new, source, "available"),
            (driver.create_snapshot, other),
            (driver.delete_snapshot, snapshot),
            (driver.revert_to_snapshot, context, source, snapshot),
            (driver.initialize_connection, source, connector(1)),
            (driver.terminate_connection, source, connector(1)),
            (driver.terminate_connection, source, None),
            (driver.manage_existing_get_size, new, before),
            (driver.manage_existing, new, before),
            (driver.manage_existing_snapshot_get_size, other, monday),
            (driver.manage_existing_snapshot, other, monday),
            (driver.get_manageable_volumes, *rows),
            (driver.get_manageable_snapshots, *rows),
            (driver.delete_group, context, group, [source]),
            (driver.create_group_snapshot, context, taken, [other]),
            (driver.delete_group_snapshot, context, taken, [snapshot]),
            (driver.create_group_from_src, context, group, [new], of_snapshot),
            (driver.create_group_from_src, context, group, [new], of_group),
        )
        for call, *arguments in calls:
            named = arguments.pop() if arguments[-1:] in ([of_snapshot], [of_group]) else {}
            yield call, arguments, named

    def test_every_call_without_a_token_or_a_node(self):
        calls = list(self.calls())
        self.override("flashyard_retry_seconds", 0)
        wrong = "fyt_wrong0000000000000000000000000000000000000"
        right = self.driver.configuration.safe_get("flashyard_token_file")
        self.override("flashyard_token_file", self.token_of(wrong))
        for call, arguments, named in calls:
            # After some of them the node refuses all of this address, for a while.
            self.fails("token", call, *arguments, **named)
        self.override("flashyard_token_file", right)
        before = self.names()
        self.served.kill()
        for call, arguments, named in calls:
            error = self.assertRaises(
                exception.VolumeBackendAPIException, call, *arguments, **named
            )
            self.assertIn("does not answer: Connection refused", str(error))
            self.assertNotIn("\n", str(error))
        self.served.start()
        self.assertEqual(before, self.names())
        logged = "".join(self.records.text)
        self.assertNotIn(wrong, logged)
        self.assertNotIn("Traceback", logged)
        with open(right, encoding="utf-8") as file:
            self.assertNotIn(file.read().strip(), logged)

    def test_sizes_and_names(self):
        volume = self.created(size=2)
        shrink = self.driver.extend_volume
        self.fails("what is behind it would be lost", shrink, volume, 1)
        self.assertEqual(2 * GIB, self.node.ask(show_volume, volume.name).capacity_bytes)
        missing = self.volume()
        snapshot = self.snapshot(missing)
        for call, arguments in (
            (self.driver.create_snapshot, (snapshot,)),
            (self.driver.extend_volume, (missing, 2)),
            (self.driver.create_cloned_volume, (self.volume(), missing)),
            (self.driver.create_volume_from_snapshot, (self.volume(), snapshot)),
            (self.driver.revert_to_snapshot, (self.context, missing, snapshot)),
            (self.driver.initialize_connection, (missing, connector(1))),
        ):
            self.fails(f"no volume is named {missing.name}", call, *arguments)
        revert = self.driver.revert_to_snapshot
        self.fails("no snapshot is named", revert, self.context, volume, snapshot)
        # A clone that ended in the middle leaves a snapshot, which goes with the volume.
        temporary, before = self.driver.temporary_name(missing), self.everything()
        self.node.ask(create_snapshot, temporary, body=SnapshotSpec(volume=volume.name))
        self.driver.delete_volume(missing)
        self.assertEqual(before, self.everything())
        # Deleting and detaching what is gone is no failure.
        self.driver.delete_volume(missing)
        self.driver.delete_snapshot(snapshot)
        self.assertFalse(self.driver.terminate_connection(missing, connector(1)))

    def test_volume_in_use_is_not_deleted(self):
        volume = self.created()
        with self.device(self.connected(volume)):
            self.fails("connected", self.driver.delete_volume, volume, kind=exception.VolumeIsBusy)

    def test_types_that_the_node_cannot_give(self):
        kinds = (
            ({"speed": "1"}, {}, exception.InvalidQoSSpecs, "speed; allowed: total_iops_sec"),
            ({"total_iops_sec": "x"}, {}, exception.InvalidQoSSpecs, "'x'; allowed: a whole"),
            ({"total_iops_sec": "5"}, {}, None, "total.iops: 5; allowed: 100 or more"),
            (None, {"provisioning:type": "fat"}, exception.InvalidInput, "allowed: thin, thick"),
            (None, {"flashyard:block_bytes": "8"}, exception.InvalidInput, "allowed: 512, 4096"),
        )
        source = self.created()
        snapshot = self.snapshot(source)
        self.driver.create_snapshot(snapshot)
        for number, (rates, specs, kind, reason) in enumerate(kinds):
            rates = rates and dict(rates, consumer="back-end")
            found = self.volume_type(f"kind-{number}", rates, **specs)
            volume = self.volume(volume_type_id=found.id)
            kind = kind or exception.VolumeBackendAPIException
            self.fails(reason, self.driver.create_volume, volume, kind=kind)
            self.fails(reason, self.driver.create_cloned_volume, volume, source, kind=kind)
            clone = self.driver.create_volume_from_snapshot
            self.fails(reason, clone, volume, snapshot, kind=kind)
        self.fails_for_want_of_space(source, snapshot)

    def fails_for_want_of_space(self, source, snapshot):
        """Volumes that are larger than the pool, and all of it kept."""
        thick = self.volume_type("thick", None, **{"provisioning:type": "thick"})
        volume = self.volume(volume_type_id=thick.id, size=100)
        self.fails("pool fast", self.driver.create_volume, volume)
        self.fails("pool fast", self.driver.create_cloned_volume, volume, source)
        self.fails("pool fast", self.driver.create_volume_from_snapshot, volume, snapshot)
        self.fails_as_a_group(source, snapshot, thick)

    def fails_as_a_group(self, source, snapshot, thick):
        """A group of which the second volume cannot be made."""
        specs = {"consistent_group_snapshot_enabled": "<is> True"}
        kind = group_types.create(self.context, "consistent", specs)
        group = made.create_group(
            self.context,
            host=BACKEND,
            volume_type_ids=[self.vt["id"], thick.id],
            group_type_id=kind.id,
        )
        volumes = [self.volume(), self.volume(volume_type_id=thick.id, size=100)]
        create = self.driver.create_group_from_src
        sources = {"source_group": group, "source_vols": [source, source]}
        self.fails("volume", create, self.context, group, volumes, **sources)
        sources = {"group_snapshot": group, "snapshots": [snapshot, snapshot]}
        self.fails("pool fast", create, self.context, group, volumes, **sources)
