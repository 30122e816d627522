# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""An ext4 image of a root with Python, os-brick and what these load: root.py FOLDER IMAGE."""

import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig

import attach

PROGRAMS = (os.path.realpath(sys.executable), "/usr/sbin/nvme", "/usr/sbin/blockdev")
MOUNTED = ("dev", "etc/nvme", "proc", "run", "sys", "tmp")
# Parts of the standard library that nothing here loads, and that are large.
LEFT_OUT = (
    "site-packages",
    "test",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "config-*",
)


def packages(site):
    """Packages in a folder that were loaded for os-brick, and metadata of all."""
    loaded = {name.split(".")[0] for name in sys.modules}
    for path in glob.glob(os.path.join(site, "*")):
        name = os.path.basename(path)
        if name.split(".")[0] in loaded or name.endswith((".dist-info", ".libs")):
            yield path


def libraries(root):
    """Shared libraries that programs and extensions want."""
    wanted = list(PROGRAMS)
    for folder, _folders, files in os.walk(root):
        wanted += [os.path.join(folder, name) for name in files if ".so" in name]
    for path in wanted:
        listing = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        yield from re.findall(r"(?:=> |^\s*)(/\S+) \(", listing, re.MULTILINE)


def copy(path, root):
    """Copies a file or a folder to the same place below a root."""
    target = root + os.path.abspath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(path):
        ignored = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(path, target, ignore=ignored, dirs_exist_ok=True)
    elif not os.path.exists(target):
        shutil.copy2(path, target)


def main(root, image):
    site = sysconfig.get_path("purelib")
    copy(
        os.path.realpath(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})),
        root,
    )
    for path in packages(site):
        copy(path, root)
    for path in PROGRAMS:
        copy(path, root)
    for path in set(libraries(root)):
        if os.path.exists(path):
            copy(path, root)
    shutil.copy2(attach.__file__, os.path.join(root, "attach.py"))
    for folder in MOUNTED:
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    with open(os.path.join(root, "python"), "w", encoding="utf-8") as file:
        file.write(f"{PROGRAMS[0]}\n{site}\n")
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, image, "512M"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
