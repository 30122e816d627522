# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Options of a backend in cinder.conf."""

from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt(
        "flashyard_url",
        help="Address of the node's REST API, such as https://node-1:4400.",
    ),
    cfg.StrOpt(
        "flashyard_token_file",
        help="File with the token of role operator. It is read again for each request.",
    ),
    cfg.StrOpt(
        "flashyard_ca_file",
        help="Certificates to trust, in PEM. The machine's authorities are trusted otherwise.",
    ),
    cfg.StrOpt(
        "flashyard_server_name",
        help="Name that the certificate is for, if it is not the host in flashyard_url.",
    ),
    cfg.StrOpt(
        "flashyard_pool",
        help="Pool of the node that holds the volumes of this backend.",
    ),
    cfg.StrOpt(
        "flashyard_transport",
        default="tcp",
        choices=["tcp", "rdma"],
        help="How hosts connect to the node: over rdma by its ports of that transport.",
    ),
    cfg.IntOpt(
        "flashyard_request_seconds",
        default=30,
        min=1,
        help="Seconds to wait for an answer of the node.",
    ),
    cfg.IntOpt(
        "flashyard_retry_seconds",
        default=60,
        min=0,
        help="Seconds for which a request is repeated while the node does not answer.",
    ),
    cfg.BoolOpt(
        "flashyard_authenticated_hosts_only",
        default=False,
        help="Attach volumes only to hosts that have a key for DH-HMAC-CHAP on the node.",
    ),
]
