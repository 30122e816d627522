# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""In the guest: os-brick attaches a volume as Nova has it do, writes or compares, and detaches."""

import json
import sys

import os_brick
from os_brick.initiator import connector
from os_brick.privileged import default
from oslo_concurrency import lockutils
from oslo_config import cfg

TEXT = b"written through os-brick".ljust(4096, b".")


def main(verb, properties):
    # Everything here is root.
    default.set_client_mode(False)
    lockutils.set_defaults("/tmp")
    os_brick.setup(cfg.CONF)
    brick = connector.InitiatorConnector.factory("NVMEOF", root_helper=None)
    device = brick.connect_volume(json.loads(properties))
    print(device["path"])
    with open(device["path"], "r+b") as file:
        if verb == "write":
            file.write(TEXT)
        elif file.read(len(TEXT)) != TEXT:
            raise SystemExit("the volume has other data")
    brick.disconnect_volume(json.loads(properties), device)


if __name__ == "__main__":
    main(*sys.argv[1:])
