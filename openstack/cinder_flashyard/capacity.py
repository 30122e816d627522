# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Capacity and health of a pool, as Cinder's scheduler wants them."""

from cinder.common import constants
from cinder.volume import volume_utils
from flashyard_client.models import PoolState
from oslo_utils import units

from cinder_flashyard import VERSION

# Half as good where the pool has lost drives. Backends with a function of their own take that.
GOODNESS = "capabilities.free_percent / (capabilities.degraded + 1)"


def gib_of(count):
    """Bytes as GiB, rounded down to hundredths."""
    return count * 100 // units.Gi / 100


def pool_stats(pool, volumes, functions, configuration):
    """The report of one pool. A pool that is offline has no room."""
    online = pool.state != PoolState.OFFLINE
    usable = pool.usable_bytes if online else 0
    free = max(usable - pool.used_bytes - (pool.reserved_bytes or 0), 0) if online else 0
    provisioned = sum(volume.capacity_bytes for volume in volumes if volume.pool == pool.name)
    filter_function, goodness_function = functions
    return {
        "pool_name": pool.name,
        "total_capacity_gb": gib_of(usable),
        "free_capacity_gb": gib_of(free),
        "provisioned_capacity_gb": gib_of(provisioned),
        "free_percent": 100 * free // usable if usable else 0,
        "degraded": int(pool.state == PoolState.DEGRADED),
        "thin_provisioning_support": True,
        "thick_provisioning_support": True,
        "max_over_subscription_ratio": volume_utils.get_max_over_subscription_ratio(
            configuration.max_over_subscription_ratio, supports_auto=True
        ),
        "reserved_percentage": configuration.reserved_percentage,
        "QoS_support": True,
        "multiattach": True,
        "online_extend_support": True,
        "consistent_group_snapshot_enabled": True,
        "filter_function": filter_function,
        "goodness_function": goodness_function,
    }


def backend_stats(name, pool):
    """The report of the backend around that of its pool."""
    return {
        "volume_backend_name": name,
        "vendor_name": "Flashyard",
        "driver_version": VERSION,
        "storage_protocol": constants.NVMEOF_TCP,
        "backend_state": "up" if pool["total_capacity_gb"] else "down",
        # Each volume is a subsystem of its own.
        "shared_targets": False,
        # Blocks that were never written read as zeroes.
        "sparse_copy_volume": True,
        "pools": [pool],
    }
