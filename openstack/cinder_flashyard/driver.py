# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Cinder driver for a pool of a Flashyard node, whose volumes hosts reach by NVMe/TCP."""

from cinder import context as cinder_context
from cinder import coordination, exception, interface, objects
from cinder.volume import configuration, driver
from flashyard_client.api.access import show_self
from flashyard_client.api.pools import show_pool
from flashyard_client.api.snapshots import (
    create_snapshot,
    delete_pool_snapshot,
    show_pool_snapshot,
)
from flashyard_client.api.volumes import (
    create_volume,
    delete_volume,
    deny_host,
    limit_volume,
    list_volumes,
    reserve_volume,
    resize_volume,
    rollback_volume,
    show_volume,
)
from flashyard_client.models import (
    ErrorCode,
    Role,
    SnapshotSpec,
    VolumeReserve,
    VolumeResize,
    VolumeRollback,
    VolumeSpec,
)
from oslo_config import cfg
from oslo_log import log
from oslo_utils import units

from cinder_flashyard import VERSION, capacity, hosts
from cinder_flashyard.groups import Groups
from cinder_flashyard.managing import Managing
from cinder_flashyard.node import Failure, Node, Refusal
from cinder_flashyard.options import OPTIONS
from cinder_flashyard.traits import DEFAULT_BLOCK_BYTES, Traits

LOG = log.getLogger(__name__)

cfg.CONF.register_opts(OPTIONS, group=configuration.SHARED_CONF_GROUP)

REQUIRED = ("flashyard_url", "flashyard_token_file", "flashyard_pool")


@interface.volumedriver
class FlashyardDriver(Groups, Managing, driver.VolumeDriver):
    """Volumes in a pool of a Flashyard node."""

    VERSION = VERSION

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTIONS)
        self.node = self.pool = None

    @staticmethod
    def get_driver_options():
        """Options of the driver in cinder.conf."""
        return OPTIONS

    def do_setup(self, context):
        """Looks at the options. The node is not asked yet."""
        for option in REQUIRED:
            if not self.configuration.safe_get(option):
                raise exception.InvalidConfigurationValue(option=option, value="")
        self.node = Node(self.configuration)
        self.pool = self.configuration.flashyard_pool

    def check_for_setup_error(self):
        """Refuses a token that may not change volumes, and a pool that is not there."""
        caller = self.node.ask(show_self)
        if caller.role == Role.VIEWER or caller.tenant:
            raise Failure(
                "the token {} has role {}{}; allowed: operator or admin, of no tenant".format(
                    caller.name, caller.role, " of a tenant" if caller.tenant else ""
                )
            )
        self.node.ask(show_pool, self.pool)

    # Volumes.

    def create_volume(self, volume):
        """Makes an empty volume."""
        traits = Traits(volume.volume_type_id)
        spec = VolumeSpec(
            pool=self.pool,
            size=volume.size * units.Gi,
            block_bytes=traits.block_bytes or DEFAULT_BLOCK_BYTES,
        )
        self.make(volume, spec, traits)

    def make(self, volume, spec, traits):
        """Makes a volume with all that belongs to it, or nothing."""
        spec.hosts, spec.reserved = [], traits.reserved
        found = self.node.ask(create_volume, volume.name, body=spec)
        try:
            size = volume.size * units.Gi
            if found.capacity_bytes < size:
                self.node.ask(resize_volume, volume.name, body=VolumeResize(size=size))
            if traits.limits.to_dict():
                self.node.ask(limit_volume, volume.name, body=traits.limits)
        except Exception:
            self.unmake(volume)
            raise

    def unmake(self, volume):
        """Deletes what was made in vain."""
        try:
            self.node.remove(delete_volume, volume.name)
        except Failure as failure:
            LOG.error("Volume %s was made in part, and stays: %s", volume.name, failure)

    def make_of_snapshot(self, volume, snapshot, source):
        """Makes a volume that starts out as a snapshot, with the blocks of its source."""
        found = self.node.ask(show_volume, source)
        spec = VolumeSpec(snapshot=f"{self.pool}/{snapshot}", block_bytes=found.block_bytes)
        self.make(volume, spec, Traits(volume.volume_type_id))

    def create_volume_from_snapshot(self, volume, snapshot):
        """Makes a volume that starts out as a snapshot, at once."""
        self.make_of_snapshot(volume, self.snapshot_name(snapshot), snapshot.volume.name)

    def create_cloned_volume(self, volume, src_vref):
        """Makes a volume that starts out as another one is now, at once."""
        temporary = self.temporary_name(volume)
        # One of an earlier try is of an earlier instant.
        self.remove_temporary(volume)
        self.node.ask(create_snapshot, temporary, body=SnapshotSpec(volume=src_vref.name))
        try:
            self.make_of_snapshot(volume, temporary, src_vref.name)
        finally:
            self.remove_temporary_or_warn(volume)

    @staticmethod
    def temporary_name(volume):
        """The name of the snapshot that a clone is made of."""
        return f"clone-{volume.name_id}"

    def remove_temporary(self, volume):
        """Deletes that snapshot. To look first keeps refusals out of the node's audit log."""
        place = (self.pool, self.temporary_name(volume))
        if self.node.find(show_pool_snapshot, *place):
            self.node.remove(delete_pool_snapshot, *place)

    def remove_temporary_or_warn(self, volume):
        """The same; where it fails, deleting the volume does it."""
        try:
            self.remove_temporary(volume)
        except Failure as failure:
            LOG.warning("Snapshot %s stays: %s", self.temporary_name(volume), failure)

    def delete_volume(self, volume):
        """Deletes a volume. One that is not there is no failure."""
        try:
            if not self.node.remove(delete_volume, volume.name):
                LOG.warning("Volume %s was gone already.", volume.name)
        except Refusal as refusal:
            if refusal.code == ErrorCode.IN_USE:
                raise exception.VolumeIsBusy(message=str(refusal))
            raise
        self.remove_temporary(volume)

    def extend_volume(self, volume, new_size):
        """Makes a volume larger, hosts or not."""
        body = VolumeResize(size=new_size * units.Gi)
        self.node.ask(resize_volume, volume.name, body=body)

    def retype(self, context, volume, new_type, diff, host):
        """Gives a volume the traits of another type, where it can have them."""
        if host["host"] != volume.host:
            return False
        traits = Traits(new_type["id"])
        found = self.node.ask(show_volume, volume.name)
        if traits.block_bytes not in (None, found.block_bytes):
            return False
        self.apply(found, traits)
        return True

    def apply(self, found, traits):
        """Sets what a type says of a volume that is there."""
        was = bool(found.reserved)
        if traits.reserved != was:
            body = VolumeReserve(reserved=traits.reserved)
            self.node.ask(reserve_volume, found.name, body=body)
        try:
            self.node.ask(limit_volume, found.name, body=traits.limits)
        except Refusal:
            if traits.reserved != was:
                self.node.ask(reserve_volume, found.name, body=VolumeReserve(reserved=was))
            raise

    def update_migrated_volume(self, ctxt, volume, new_volume, original_volume_status):
        """Gives a volume that was migrated here its former name, unless that is taken here."""
        try:
            self.rename(new_volume.name, volume.name)
        except Refusal as refusal:
            if refusal.code != ErrorCode.ALREADY_EXISTS:
                raise
            return {"_name_id": new_volume.name_id}
        return {"_name_id": None}

    # Snapshots.

    @staticmethod
    def snapshot_name(snapshot):
        """The name on the node: that of before Cinder, or Cinder's."""
        return snapshot["provider_id"] or snapshot["name"]

    def create_snapshot(self, snapshot):
        """Takes a snapshot."""
        body = SnapshotSpec(volume=snapshot.volume.name)
        self.node.ask(create_snapshot, self.snapshot_name(snapshot), body=body)

    def delete_snapshot(self, snapshot):
        """Deletes a snapshot. One that is not there is no failure."""
        name = self.snapshot_name(snapshot)
        if not self.node.remove(delete_pool_snapshot, self.pool, name):
            LOG.warning("Snapshot %s was gone already.", name)

    def revert_to_snapshot(self, context, volume, snapshot):
        """Has a volume be again as a snapshot, and as large as it is now."""
        name = f"{self.pool}/{self.snapshot_name(snapshot)}"
        body = VolumeRollback(snapshot=name, allow_shrink=True)
        found = self.node.ask(rollback_volume, volume.name, body=body)
        if found.capacity_bytes < volume.size * units.Gi:
            self.extend_volume(volume, volume.size)

    def snapshot_revert_use_temp_snapshot(self):
        """A rollback happens as a whole or not at all, so that Cinder need not keep a copy."""
        return False

    # Connections.

    def validate_connector(self, connector):
        """Refuses a machine without NVMe-oF."""
        if not connector.get("nqn"):
            raise exception.InvalidConnectorException(missing="nqn")

    @coordination.synchronized("flashyard-{volume.id}")
    def initialize_connection(self, volume, connector, **kwargs):
        """Allows a host to use a volume, and says how it connects."""
        self.validate_connector(connector)
        transport = self.configuration.flashyard_transport
        only = self.configuration.flashyard_authenticated_hosts_only
        return hosts.connect(self.node, volume.name, connector, transport, only)

    @coordination.synchronized("flashyard-{volume.id}")
    def terminate_connection(self, volume, connector, **kwargs):
        """Denies a host, or all, which ends its sessions. Whether others share the connection."""
        found = self.node.find(show_volume, volume.name)
        if found is None:
            return False
        if connector is None:
            for name in found.hosts:
                self.node.find(deny_host, volume.name, name)
            return False
        # Those of the object are as old as it is.
        attachments = objects.VolumeAttachmentList.get_all_by_volume_id(
            cinder_context.get_admin_context(), volume.id
        )
        if sum(hosts.is_same(attachment, connector) for attachment in attachments) > 1:
            return True
        host = hosts.find(self.node, connector["nqn"])
        if host is not None and host.name in found.hosts:
            self.node.find(deny_host, volume.name, host.name)
        return False

    def ensure_export(self, context, volume):
        """Volumes are served as long as they are there."""

    def create_export(self, context, volume, connector):
        """Volumes are served as long as they are there."""

    def remove_export(self, context, volume):
        """Volumes are served as long as they are there."""

    # Reports.

    def get_pool(self, volume):
        """The pool of a volume that Cinder knows without one."""
        return self.pool

    def get_default_goodness_function(self):
        """Free space, and half as much where the pool has lost drives."""
        return capacity.GOODNESS

    def _update_volume_stats(self):
        try:
            pool = self.node.ask(show_pool, self.pool)
            volumes = list(self.node.list(list_volumes))
        except Failure as failure:
            LOG.error("Pool %s tells nothing: %s", self.pool, failure)
            self._stats = dict(self._stats, backend_state="down")
            return
        functions = (self.get_filter_function(), self.get_goodness_function())
        report = capacity.pool_stats(pool, volumes, functions, self.configuration)
        name = self.configuration.safe_get("volume_backend_name") or type(self).__name__
        self._stats = capacity.backend_stats(name, report)
