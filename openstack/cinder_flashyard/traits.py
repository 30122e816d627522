# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Traits that a volume type gives its volumes: extra specs and QoS specs."""

from cinder import exception
from cinder.volume import volume_types
from flashyard_client.models import BlockSize, Limit, Limits

BLOCK_BYTES = "flashyard:block_bytes"
PROVISIONING = "provisioning:type"
# Images have partition tables that count blocks of 512 bytes.
DEFAULT_BLOCK_BYTES = BlockSize(512)

DIRECTIONS = ("total", "read", "write")
# By the end of a key in QoS specs the attribute of a limit in the REST API.
RATES = {
    "iops_sec": "iops",
    "bytes_sec": "bytes_per_second",
    "iops_sec_per_gb": "iops_per_gib",
    "bytes_sec_per_gb": "bytes_per_second_per_gib",
}
OTHERS = ("minimum_iops", "burst_ms")


def number_of(key, text):
    """The number that a QoS spec says."""
    if not str(text).isdecimal() or int(text) == 0:
        raise exception.InvalidQoSSpecs(
            reason=f"{key} is {text!r}; allowed: a whole number from 1 on"
        )
    return int(text)


def limits_of(specs):
    """The limits that QoS specs say; they have the keys that Nova knows, and two more."""
    limits = Limits()
    for key, text in sorted(specs.items()):
        direction, _, rate = key.partition("_")
        if key in OTHERS:
            setattr(limits, key, number_of(key, text))
        elif direction in DIRECTIONS and rate in RATES:
            limit = getattr(limits, direction) or Limit()
            setattr(limit, RATES[rate], number_of(key, text))
            setattr(limits, direction, limit)
        else:
            allowed = [f"{first}_{last}" for first in DIRECTIONS for last in RATES]
            raise exception.InvalidQoSSpecs(
                reason="{}; allowed: {}".format(key, ", ".join(allowed + list(OTHERS)))
            )
    return limits


class Traits:
    """Traits of volumes of a type, or of none."""

    def __init__(self, type_id):
        self.limits = Limits()
        self.reserved, self.block_bytes = False, None
        if type_id is None:
            return
        specs = volume_types.get_volume_type_extra_specs(type_id)
        self.reserved = self.provisioning(specs.get(PROVISIONING, "thin"))
        self.block_bytes = self.block_size(specs.get(BLOCK_BYTES))
        qos = volume_types.get_volume_type_qos_specs(type_id)["qos_specs"]
        if qos and qos["consumer"] in ("back-end", "both"):
            self.limits = limits_of(qos["specs"])

    @staticmethod
    def provisioning(text):
        """Whether space is kept for all of a volume."""
        if text not in ("thin", "thick"):
            raise exception.InvalidInput(reason=f"{PROVISIONING} is {text!r}; allowed: thin, thick")
        return text == "thick"

    @staticmethod
    def block_size(text):
        """Bytes in a logical block, if the type says it."""
        if text not in (None, "512", "4096"):
            raise exception.InvalidInput(reason=f"{BLOCK_BYTES} is {text!r}; allowed: 512, 4096")
        return text and BlockSize(int(text))
