# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import pytest
from ansible_collections.flashyard.storage.plugins.module_utils.program import attachment_of
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure

TOLD = dict(name="data", device="/dev/nvme0n1", condition="degraded", since=None, why="1 of 2")


def test_paths_of_the_kernel_are_addresses_of_one_namespace():
    """What no machine without the kernel's host tells."""
    address = "tcp://192.0.2.1:4420/nqn.x:data?nsid=2 tcp://[fe80::1%eth0]:4420/nqn.x:data?nsid=2"
    told = dict(TOLD, address=address, way=dict(kernel=dict(nqn="nqn.x:data", ours=True)))
    found = attachment_of(told)
    assert found["addresses"] == ["192.0.2.1:4420", "[fe80::1%eth0]:4420"]
    assert (found["nqn"], found["nsid"], found["method"]) == ("nqn.x:data", 2, "kernel")
    assert (found["state"], found["why"]) == ("degraded", "1 of 2")


def test_other_words_are_refused():
    told = dict(TOLD, address="rdma://192.0.2.1", way=dict(fuse=dict(pid=1)))
    with pytest.raises(Failure, match="attached as rdma://192.0.2.1; allowed: tcp://"):
        attachment_of(told)
