# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Groups of volumes, whose snapshots are of one instant."""

from cinder.objects import fields
from cinder.volume import volume_utils
from flashyard_client.api.snapshots import (
    create_snapshot_group,
    show_pool_snapshot,
)
from flashyard_client.models import ErrorCode, NamedSnapshot, SnapshotGroup

from cinder_flashyard.node import Refusal


def refuse_others(group):
    """Leaves groups without consistent snapshots to Cinder, which does them one by one."""
    if not volume_utils.is_group_a_cg_snapshot_type(group):
        raise NotImplementedError()


def updates(objects, status):
    """Statuses of volumes or snapshots, for Cinder to note."""
    return [{"id": found.id, "status": status} for found in objects]


class Groups:
    """The part of the driver that is about groups."""

    def create_group(self, context, group):
        """A group is Cinder's own notion: the node is not told."""
        refuse_others(group)
        return {"status": fields.GroupStatus.AVAILABLE}

    def update_group(self, context, group, add_volumes=None, remove_volumes=None):
        """Members are counted when a snapshot is taken."""
        refuse_others(group)
        return None, None, None

    def delete_group(self, context, group, volumes):
        """Deletes a group with its volumes."""
        refuse_others(group)
        for volume in volumes:
            self.delete_volume(volume)
        status = fields.GroupStatus.DELETED
        return {"status": status}, updates(volumes, "deleted")

    def create_group_snapshot(self, context, group_snapshot, snapshots):
        """Takes snapshots of all volumes at one instant, or none."""
        refuse_others(group_snapshot)
        self.snapshot_together(
            [(self.snapshot_name(snapshot), snapshot.volume.name) for snapshot in snapshots]
        )
        status = fields.GroupSnapshotStatus.AVAILABLE
        return {"status": status}, updates(snapshots, fields.SnapshotStatus.AVAILABLE)

    def delete_group_snapshot(self, context, group_snapshot, snapshots):
        """Deletes the snapshots."""
        refuse_others(group_snapshot)
        for snapshot in snapshots:
            self.delete_snapshot(snapshot)
        status = fields.GroupSnapshotStatus.DELETED
        return {"status": status}, updates(snapshots, fields.SnapshotStatus.DELETED)

    def create_group_from_src(
        self,
        context,
        group,
        volumes,
        group_snapshot=None,
        snapshots=None,
        source_group=None,
        source_vols=None,
    ):
        """Makes volumes of a snapshot of a group, or of its volumes at one instant."""
        refuse_others(group)
        if snapshots:
            sources = [(self.snapshot_name(found), found.volume.name) for found in snapshots]
        else:
            names = [self.temporary_name(volume) for volume in volumes]
            sources = [(name, found.name) for name, found in zip(names, source_vols)]
            for volume in volumes:
                self.remove_temporary(volume)
            self.snapshot_together(sources)
        made = []
        try:
            for volume, (snapshot, source) in zip(volumes, sources):
                made.append(volume)
                self.make_of_snapshot(volume, snapshot, source)
        except Exception:
            for volume in made[:-1]:
                self.unmake(volume)
            raise
        finally:
            if source_vols:
                for volume in volumes:
                    self.remove_temporary_or_warn(volume)
        return {"status": fields.GroupStatus.AVAILABLE}, updates(volumes, "available")

    def snapshot_together(self, wanted):
        """Takes snapshots of one instant. An answer that was lost is no failure."""
        named = [NamedSnapshot(name=name, volume=volume) for name, volume in wanted]
        try:
            self.node.ask(create_snapshot_group, body=SnapshotGroup(snapshots=named))
        except Refusal as refusal:
            # All or none: those of an earlier try are there together.
            if refusal.code != ErrorCode.ALREADY_EXISTS or not self.are_there(wanted):
                raise

    def are_there(self, wanted):
        """Whether each snapshot is there, of its volume."""
        for name, volume in wanted:
            found = self.node.find(show_pool_snapshot, self.pool, name)
            if found is None or found.volume != volume:
                return False
        return True
