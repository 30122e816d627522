# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""OpenStack Cinder driver for Flashyard storage nodes."""

VERSION = "0.1.0"
