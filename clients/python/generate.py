# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Generation of the package flashyard_client from the description of the REST API."""

import os
import shutil
import subprocess
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Formatting is of no use to a package that nobody edits, and takes another program.
SETTINGS = "post_hooks: []\n"
PACKAGE = "flashyard_client"


class Generate(BuildHookInterface):
    """Hook of the build, which puts the generated package into the wheel."""

    def initialize(self, version, build_data):
        self.folder = tempfile.mkdtemp()
        settings = os.path.join(self.folder, "settings.yml")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(SETTINGS)
        package = os.path.join(self.folder, PACKAGE)
        command = [sys.executable, "-m", "openapi_python_client", "generate"]
        command += ["--path", os.path.join(self.root, "openapi.json"), "--config", settings]
        command += ["--meta", "none", "--output-path", package, "--fail-on-warning"]
        subprocess.run(command, check=True)
        build_data["force_include"][package] = PACKAGE

    def finalize(self, version, build_data, artifact_path):
        shutil.rmtree(self.folder)
