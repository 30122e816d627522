# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Documentation of the connection of every module, and of how it runs."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment:
    """Options that say which node, and who asks."""

    DOCUMENTATION = r"""
options:
  node:
    description:
      - Address of the node's REST API, such as V(https://node-1:4400).
      - V(http) is taken for addresses of this machine only.
      - The environment variable E(FLASHYARD_NODE) is used where the option is not set.
    type: str
    required: true
  token:
    description:
      - Secret of the token with which the module asks.
      - The environment variable E(FLASHYARD_TOKEN) is used where the option is not set.
    type: str
  token_file:
    description:
      - File with the token's secret and nothing else, on the machine on which the module runs.
      - It counts where O(token) is not set.
      - The environment variable E(FLASHYARD_TOKEN_FILE) is used where the option is not set.
    type: path
  ca_file:
    description:
      - Certificates to trust, in PEM, on the machine on which the module runs.
      - It may be the certificate that the node made for itself.
      - The authorities that the machine trusts count where the option is not set.
      - Certificates are always verified.
      - The environment variable E(FLASHYARD_CA_FILE) is used where the option is not set.
    type: path
  server_name:
    description:
      - Name that the node's certificate has to be for.
      - It is the host in O(node) where the option is not set.
      - The certificate that a node makes for itself is for V(localhost).
      - The environment variable E(FLASHYARD_SERVER_NAME) is used where the option is not set.
    type: str
  timeout:
    description: Seconds that the node may take for an answer.
    type: int
    default: 30
  retries:
    description:
      - How often a request is repeated when the node does not answer.
      - A request that the node may have carried out is repeated only where that does no harm.
    type: int
    default: 3
attributes:
  check_mode:
    description: A check run changes nothing, and predicts what a run changes.
    support: full
  diff_mode:
    description: The module returns what differs, without secrets.
    support: full
  action_group:
    description: With C(module_defaults) for the group, the node and the token are said once.
    support: full
    membership:
      - flashyard.storage.flashyard
notes:
  - The module runs where the REST API is in reach.
  - That is often the control node, with C(delegate_to=localhost).
  - In a check run, objects that are not there yet are warned of. An earlier task may make them.
author:
  - Flashyard contributors (@flashyard)
"""

    INFO = r"""
attributes:
  diff_mode:
    description: The module changes nothing.
    support: N/A
"""

    NAMED = r"""
options:
  name:
    description:
      - The one to show. All are shown where the option is not set.
      - A name that nothing has gives an empty list.
    type: str
"""
