# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Volumes and snapshots that were there before Cinder."""

import math

from cinder import exception, objects
from cinder.volume import volume_utils
from flashyard_client.api.snapshots import list_snapshots, show_pool_snapshot
from flashyard_client.api.volumes import list_volumes, rename_volume, resize_volume, show_volume
from flashyard_client.models import ErrorCode, ObjectState, VolumeRename, VolumeResize
from oslo_utils import units

from cinder_flashyard.node import Refusal
from cinder_flashyard.traits import Traits

REFERENCE = "source-name"


def name_in(reference):
    """The name that a reference says."""
    name = reference.get(REFERENCE)
    if not isinstance(name, str) or not name:
        raise exception.ManageExistingInvalidReference(
            existing_ref=reference, reason=f"{REFERENCE} is missing"
        )
    return name


def gib_of(count):
    """Whole GiB that have room for bytes."""
    return math.ceil(count / units.Gi)


class Managing:
    """The part of the driver that takes objects of the node into Cinder, and lets them go."""

    def manageable(self, reference):
        """The volume that a reference names, if Cinder may have it."""
        name = name_in(reference)
        found = self.node.find(show_volume, name)
        if found is None or found.pool != self.pool:
            reason = f"pool {self.pool} has no volume {name}"
            raise exception.ManageExistingInvalidReference(existing_ref=reference, reason=reason)
        if self.managed_already(name):
            raise exception.ManageExistingAlreadyManaged(volume_ref=name)
        reason = self.obstacle(found, list(self.node.list(list_volumes)))
        if reason:
            raise exception.ManageExistingInvalidReference(existing_ref=reference, reason=reason)
        return found

    @staticmethod
    def managed_already(name):
        """Whether a volume of Cinder has the name."""
        number = volume_utils.extract_id_from_volume_name(name)
        return volume_utils.check_already_managed_volume(number)

    @staticmethod
    def obstacle(volume, volumes):
        """The reason for which Cinder may not have a volume."""
        if volume.state != ObjectState.ONLINE:
            return f"it is not online: {volume.reason}"
        if volume.hosts:
            return "hosts use it: {}; deny them first".format(", ".join(volume.hosts))
        others = [found.name for found in volumes if found.nqn == volume.nqn]
        if len(others) > 1:
            return "its subsystem has several volumes: {}".format(", ".join(others))
        return None

    def manage_existing_get_size(self, volume, existing_ref):
        """The size in GiB, rounded up."""
        return gib_of(self.manageable(existing_ref).capacity_bytes)

    def manage_existing(self, volume, existing_ref):
        """Gives a volume Cinder's name, the traits of its type, and whole GiB."""
        found = self.manageable(existing_ref)
        traits = Traits(volume.volume_type_id)
        if traits.block_bytes not in (None, found.block_bytes):
            raise exception.ManageExistingVolumeTypeMismatch(
                reason=f"it has blocks of {found.block_bytes} bytes"
            )
        size = gib_of(found.capacity_bytes) * units.Gi
        if size != found.capacity_bytes:
            self.node.ask(resize_volume, found.name, body=VolumeResize(size=size))
        self.apply(found, traits)
        self.rename(found.name, volume.name)

    def rename(self, old, new):
        """Gives a volume another name. An answer that was lost is no failure."""
        try:
            self.node.ask(rename_volume, old, body=VolumeRename(name=new))
        except Refusal as refusal:
            renamed = self.node.find(show_volume, new)
            if refusal.code != ErrorCode.NOT_FOUND or renamed is None:
                raise

    def unmanage(self, volume):
        """Lets a volume go, which stays as it is."""

    def get_manageable_volumes(self, cinder_volumes, marker, limit, offset, sort_keys, sort_dirs):
        """Volumes of the pool, and why Cinder may not have some."""
        ours = {volume["name"]: volume["id"] for volume in cinder_volumes}
        volumes = list(self.node.list(list_volumes))
        entries = []
        for found in volumes:
            if found.pool == self.pool:
                reason = self.obstacle(found, volumes)
                entries.append(self.entry(found, found.capacity_bytes, ours, reason))
        return volume_utils.paginate_entries_list(
            entries, marker, limit, offset, sort_keys, sort_dirs
        )

    @staticmethod
    def entry(found, capacity, ours, reason):
        """A row of a list of what Cinder may have."""
        number = ours.get(found.name)
        reason = "already managed" if number else reason
        return {
            "reference": {REFERENCE: found.name},
            "size": gib_of(capacity),
            "safe_to_manage": reason is None,
            "reason_not_safe": reason,
            "cinder_id": number,
            "extra_info": None,
        }

    def manageable_snapshot(self, snapshot, reference):
        """The snapshot that a reference names, if Cinder may have it."""
        name = name_in(reference)
        found = self.node.find(show_pool_snapshot, self.pool, name)
        if found is None or found.volume != snapshot.volume.name:
            reason = f"volume {snapshot.volume.name} has no snapshot {name}"
            raise exception.ManageExistingInvalidReference(existing_ref=reference, reason=reason)
        others = objects.SnapshotList.get_all_for_volume(
            snapshot._context.elevated(), snapshot.volume_id
        )
        if name in [self.snapshot_name(other) for other in others if other.id != snapshot.id]:
            raise exception.ManageExistingAlreadyManaged(volume_ref=name)
        return found

    def manage_existing_snapshot_get_size(self, snapshot, existing_ref):
        """The size in GiB, rounded up."""
        return gib_of(self.manageable_snapshot(snapshot, existing_ref).bytes_)

    def manage_existing_snapshot(self, snapshot, existing_ref):
        """Has Cinder remember the name: snapshots keep theirs."""
        return {"provider_id": self.manageable_snapshot(snapshot, existing_ref).name}

    def unmanage_snapshot(self, snapshot):
        """Lets a snapshot go, which stays as it is."""

    def get_manageable_snapshots(
        self, cinder_snapshots, marker, limit, offset, sort_keys, sort_dirs
    ):
        """Snapshots of the pool, and why Cinder may not have some."""
        ours = {self.snapshot_name(found): found["id"] for found in cinder_snapshots}
        entries = []
        for found in self.node.list(list_snapshots):
            if found.pool == self.pool:
                reason = None if found.volume else "its volume is gone"
                entry = self.entry(found, found.bytes_, ours, reason)
                entries.append(dict(entry, source_reference={REFERENCE: found.volume}))
        return volume_utils.paginate_entries_list(
            entries, marker, limit, offset, sort_keys, sort_dirs
        )
