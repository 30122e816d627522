"""Stands for the script that ansible-test would fetch: the pip of an environment installs another."""

import subprocess
import sys

PIP = ["@PIP@", "--python", sys.executable, "install"]
# Words for the script alone.
words = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.run(PIP + words).returncode)
