# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Cinder's own compliance test of drivers, with ours among those that are registered."""

from cinder.interface import (
    util,
    volume_group_driver,
    volume_manageable_driver,
    volume_snapshot_revert,
    volume_snapshotmanagement_driver,
)
from cinder.tests.unit import test

from cinder_flashyard import options, traits
from cinder_flashyard.driver import FlashyardDriver

from cinder.tests.compliance import test_volume_drivers  # isort: skip

from .support import PAGE


class Compliance(test_volume_drivers.TestVolumeDrivers):
    """All tests of Cinder's class, which collects drivers when it is imported."""


class Registered(test.TestCase):
    """The driver as Cinder sees it."""

    def test_driver_is_among_those_that_compliance_is_tested_of(self):
        names = [found.class_fqn for found in test_volume_drivers.VOLUME_DRIVERS]
        self.assertIn("cinder_flashyard.driver.FlashyardDriver", names)

    def test_driver_has_every_method_of_optional_interfaces(self):
        for interface in (
            volume_group_driver.VolumeGroupDriver,
            volume_manageable_driver.VolumeListManageableDriver,
            volume_snapshot_revert.VolumeSnapshotRevertDriver,
            volume_snapshotmanagement_driver.VolumeSnapshotManagementDriver,
        ):
            self.assertTrue(issubclass(FlashyardDriver, interface), interface)

    def test_options_are_told_to_cinder(self):
        found = [info for info in util.get_volume_drivers() if info.cls is FlashyardDriver]
        self.assertIn("flashyard_url", [option.name for option in found[0].driver_options])

    def test_page_has_every_option_and_every_key(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        keys = [f"{first}_{last}" for first in traits.DIRECTIONS for last in traits.RATES]
        keys += [option.name for option in options.OPTIONS] + list(traits.OTHERS)
        for key in keys:
            self.assertIn(f"`{key}`", page)
