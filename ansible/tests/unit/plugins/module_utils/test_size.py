# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Sizes are the same numbers as the flashyard program reads."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import pytest
from ansible_collections.flashyard.storage.plugins.module_utils.rest import Failure
from ansible_collections.flashyard.storage.plugins.module_utils.size import blocks_of, bytes_of


@pytest.mark.parametrize(
    "text, count",
    [
        ("0", 0),
        (4096, 4096),
        ("512 B", 512),
        ("1GiB", 1 << 30),
        ("1 gib", 1 << 30),
        ("1.5KiB", 1536),
        ("7.68TB", 7680000000000),
        ("4PiB", 1 << 52),
        ("1PB", 10**15),
        (" 1GB ", 1000000000),
        (str((1 << 64) - 1), (1 << 64) - 1),
    ],
)
def test_sizes_are_read_as_people_write_them(text, count):
    assert bytes_of(text, "size") == count


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "-1", "1.5", "1..5KiB", "1.", "1 XiB", "99999999999TiB", "0.3KiB", "1e3", "١"],
)
def test_what_is_no_size_is_refused_with_what_is_allowed(text):
    with pytest.raises(Failure, match="^limit: size .*; allowed: a whole number of bytes"):
        bytes_of(text, "limit")


def test_sizes_are_rounded_up_to_whole_blocks():
    assert [blocks_of(size, "size") for size in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]
    assert blocks_of("1GB", "size") == 1000001536
