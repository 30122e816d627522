# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Connection properties of a volume for a host, as the Cinder driver makes them, in JSON."""

import json
import os
import sys
import types

from cinder_flashyard import hosts
from cinder_flashyard.node import Node


def main(volume, nqn):
    settings = types.SimpleNamespace(
        flashyard_url=os.environ["FLASHYARD_NODE"],
        flashyard_token_file=os.environ["FLASHYARD_TOKEN_FILE"],
        flashyard_ca_file=None,
        flashyard_server_name=None,
        flashyard_request_seconds=30,
        flashyard_retry_seconds=30,
    )
    node, connector = Node(settings), {"nqn": nqn, "host": "guest"}
    properties = hosts.connect(node, volume, connector, "tcp", authenticated_only=False)
    print(json.dumps(properties["data"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
