# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import pytest
from ansible_collections.flashyard.storage.plugins.module_utils import mounts
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure
from ansible_collections.flashyard.storage.plugins.module_utils.service import Service, word


def test_systemd_leaves_words_as_they_are():
    """What systemd replaces, and what it takes for the end of a word."""
    scope = "tcp://[fe80::1%eth0]:4420/nqn.x:data?nsid=1"
    assert word(scope) == "tcp://[fe80::1%%eth0]:4420/nqn.x:data?nsid=1"
    assert word("/etc/a b/$key") == '"/etc/a b/$$key"'
    assert word('"quoted\\') == '"\\"quoted\\\\"'
    assert word("two\nlines") == '"two\\nlines"'


def test_a_service_has_one_line_for_each_command():
    planned = Service(None, "data").planned(["/usr/bin/flashyard", "attach", "a\nb"], ["/x", "%"])
    assert planned["boot"]
    assert 'ExecStart=/usr/bin/flashyard attach "a\\nb"' in planned["service"]
    assert "ExecStop=/x %%" in planned["service"]


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\n"])
def test_names_that_no_service_has_are_refused(name):
    with pytest.raises(Failure, match="no part of a service's name; allowed: letters, digits"):
        Service(None, name).planned(["a"], ["b"])


def test_fstab_is_read_as_mount_reads_it(tmp_path, monkeypatch):
    """By the file system, the device, or the service that the mount needs; no other line."""
    fstab = tmp_path / "fstab"
    fstab.write_text(
        "# UUID=1 /comment xfs defaults 0 0\n\n"
        "UUID=1 /by-uuid xfs defaults 0 0\n"
        'UUID="1" /with\\040space xfs defaults 0 0\n'
        "UUID=2 /other xfs defaults 0 0\n"
        "/dev/../dev/null /by-device xfs defaults 0 0\n"
        "LABEL=1 /label xfs defaults 0 0\n"
        "UUID=3 /by-service xfs ro,x-systemd.requires=flashyard-attach-data.service,nofail 0 0\n"
        "UUID=4 /by-another xfs x-systemd.requires=flashyard-attach-data2.service 0 0\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(mounts, "FSTAB", str(fstab))
    unit = "flashyard-attach-data.service"
    paths = mounts.fstab_paths("/dev/null", "1", unit)
    assert paths == ["/by-uuid", "/with space", "/by-device", "/by-service"]
    assert mounts.fstab_paths(None, None, unit) == ["/by-service"]
