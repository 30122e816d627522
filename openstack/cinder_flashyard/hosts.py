# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Hosts of a node, and what os-brick needs to connect them to a volume."""

import hashlib
import re

from flashyard_client.api.hosts import add_host, list_hosts
from flashyard_client.api.node import show_status
from flashyard_client.api.volumes import allow_host
from flashyard_client.models import HostSpec

from cinder_flashyard.node import Failure

# Characters of a machine's name that go into a host's, whose name has at most 63.
NAME_CHARACTERS = 40


def name_for(connector):
    """The name of a host that the driver adds: the machine's, and a mark of its NQN."""
    machine = re.sub("[^a-z0-9._-]", "-", connector.get("host", "").lower())
    machine = machine[:NAME_CHARACTERS].strip("._-") or "host"
    return "{}-{}".format(machine, hashlib.sha256(connector["nqn"].encode()).hexdigest()[:8])


def find(node, nqn):
    """The host with an NQN, whoever added it."""
    return next((host for host in node.list(list_hosts) if host.nqn == nqn), None)


def find_or_add(node, connector, authenticated_only):
    """The host of a connector, which is added if need be."""
    host = find(node, connector["nqn"])
    if host is None and not authenticated_only:
        host = node.ask(add_host, name_for(connector), body=HostSpec(nqn=connector["nqn"]))
    if authenticated_only and not (host and host.key):
        raise Failure(
            "host {} has no key for DH-HMAC-CHAP on node {}; allowed: hosts that have one "
            "(flashyard host key NAME --generate), or flashyard_authenticated_hosts_only = false".format(
                connector["nqn"], node.url
            )
        )
    return host


def is_same(attachment, connector):
    """Whether an attachment is on the machine of a connector."""
    known = attachment.connector or {}
    if "nqn" in known:
        return known["nqn"] == connector["nqn"]
    return attachment.attached_host == connector.get("host")


def portals(node, volume, transport):
    """Addresses in the clear, the better paths to a volume first: os-brick knows no TLS."""
    status = node.ask(show_status, volume=volume)
    tls = status.nvme_tls_addresses or []
    plain = [text for text in status.nvme_addresses if text not in tls]
    served = plain if transport == "tcp" else status.nvme_rdma_addresses or []
    if not served:
        raise Failure(
            f"node {node.url} has no port over {transport} without TLS, "
            "and os-brick knows none with it"
        )
    found = []
    for text in served:
        address, port = text.rsplit(":", 1)
        found.append((address.strip("[]"), port, transport))
    return found


def connect(node, volume, connector, transport, authenticated_only):
    """Allows a host to use a volume: the connection properties of os-brick."""
    # Before anything changes: a node may have none.
    found = portals(node, volume, transport)
    host = find_or_add(node, connector, authenticated_only)
    allowed = node.ask(allow_host, volume, host.name)
    return {
        "driver_volume_type": "nvmeof",
        "data": {
            "target_nqn": allowed.nqn,
            "vol_uuid": str(allowed.uuid),
            "portals": found,
            "host_nqn": connector["nqn"],
            "discard": True,
        },
    }
