# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Connection properties of a volume for a host, as the Cinder driver makes them, in JSON."""

import json
import os
import sys
import types

from cinder_flashyard import hosts
from cinder_flashyard.node import Node
from flashyard_client.api.volumes import allow_host


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
    host = hosts.find_or_add(node, connector, authenticated_only=False)
    found = node.ask(allow_host, volume, host.name)
    print(json.dumps(hosts.connection(node, found, connector)["data"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
