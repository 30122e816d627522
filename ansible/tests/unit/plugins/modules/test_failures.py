# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Every module that asks a node: a failure is one line, without a stack trace or a secret."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import importlib
import json
import os
import socket
import threading

import pytest
from ansible.module_utils import basic
from ansible_collections.flashyard.storage.plugins.module_utils import rest

TOKEN = "fyt_secret0000000000000000000000000000000000"
SECRET = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
TLS_KEY = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"

# Options with which each module has something to do.
OPTIONS = {
    "drive": {"name": "d0", "path": "/dev/nvme0n1"},
    "host": {
        "name": "db-1",
        "nqn": "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa",
        "dhchap_secret": SECRET,
        "tls_key": TLS_KEY,
    },
    "pool": {"name": "fast", "level": "raid6", "drives": ["d0", "d1", "d2", "d3"]},
    "port": {"id": 1, "path": "optimized"},
    "replication": {
        "name": "data",
        "to": "https://node-2:4400",
        "to_token": TOKEN,
        "pool": "fast",
        "every_seconds": 300,
    },
    "schedule": {"name": "data", "volumes": ["data"], "weekly": 4},
    "settings": {"scrub_interval_days": 14},
    "snapshot": {"name": "first", "volume": "data"},
    "tenant": {"name": "acme", "grants": [{"pool": "fast", "size": "1TiB"}]},
    "token": {"name": "watcher", "role": "viewer"},
    "volume": {"name": "data", "pool": "fast", "size": "1TiB"},
}
MODULES = sorted(OPTIONS) + sorted(name + "_info" for name in OPTIONS)


def body(text, status="200 OK"):
    """An answer with a body."""
    head = "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return (head % (status, len(text)) + text).encode("ascii")


REFUSED = body('{"code":"unauthorized","message":"the token is not known"}', "401 Unauthorized")
# What a node, or something in its place, says to every request; and why the module fails.
ANSWERS = [
    (REFUSED, "it does not take the token: the token is not known"),
    (b"", "does not answer: "),
    (body("<html>"), "is no Flashyard node: it answers without JSON"),
    (body("[1]"), "is no Flashyard node of this version: its answer has no object"),
    (body('{"other":"program"}'), "is no Flashyard node of this version: its answer has no "),
    (body('{"items":[1]}'), "is no Flashyard node of this version: its answer has no "),
    (body("", "503 Service Unavailable"), "status 503"),
]


class Always(threading.Thread):
    """Gives one answer to all requests."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            connection = self.socket.accept()[0]
            with connection:
                connection.recv(65536)
                connection.sendall(self.answer)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    """Nothing really waits."""
    monkeypatch.setattr(rest.time, "sleep", lambda seconds: None)


def module_of(name):
    """A module of the collection, as Python has it."""
    return importlib.import_module("ansible_collections.flashyard.storage.plugins.modules." + name)


def failure_of(name, options, monkeypatch, capsys, check):
    """The message of a module that fails; all that it printed has no secret and no stack trace."""
    options = dict(options, _ansible_check_mode=check, _ansible_diff=True)
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": options}).encode("utf-8")
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", arguments)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    module = module_of(name)
    with pytest.raises(SystemExit) as end:
        module.main()
    printed = "".join(capsys.readouterr())
    assert end.value.code == 1
    for secret in (TOKEN, SECRET, TLS_KEY):
        assert secret not in printed
    assert "Traceback" not in printed
    result = json.loads(printed)
    assert result["failed"] and "\n" not in result["msg"]
    return result["msg"]


def options_of(name, folder):
    """Options of a module, or of the one that shows what it makes."""
    if name == "token":
        return dict(OPTIONS[name], secret_file=str(folder / "token"))
    return OPTIONS.get(name, {})


def test_every_module_is_here():
    folder = os.path.dirname(module_of("volume").__file__)
    asking = []
    for file in os.listdir(folder):
        if file.endswith(".py"):
            with open(os.path.join(folder, file), encoding="utf-8") as source:
                if "  - flashyard.storage.connection\n" in source.read():
                    asking.append(file[: -len(".py")])
    assert sorted(asking) == sorted(MODULES)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("answer, reason", ANSWERS)
@pytest.mark.parametrize("name", MODULES)
def test_answers_that_help_nobody(name, answer, reason, check, tmp_path, monkeypatch, capsys):
    options = dict(options_of(name, tmp_path), node=Always(answer).url, token=TOKEN, retries=1)
    message = failure_of(name, options, monkeypatch, capsys, check)
    assert reason in message
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", MODULES)
def test_a_node_that_is_not_there(name, tmp_path, monkeypatch, capsys):
    options = dict(options_of(name, tmp_path), node="http://127.0.0.1:1", token=TOKEN, retries=0)
    message = failure_of(name, options, monkeypatch, capsys, False)
    assert message == "node http://127.0.0.1:1 does not answer: Connection refused"


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"node": "http://127.0.0.1:1", "timeout": 0}, "timeout 0; allowed: 1 second or more"),
        ({"node": "http://127.0.0.1:1", "retries": -1}, "retries -1; allowed: 0 or more"),
        ({"node": "https://%s" % ("a" * 70)}, "node https://aaa"),
        ({"node": "https://nodes..example"}, "node https://nodes..example"),
        ({"node": "https://127.0.0.1:1", "server_name": ".x"}, "node https://127.0.0.1:1"),
    ],
)
def test_options_that_name_no_node(options, reason, monkeypatch, capsys):
    message = failure_of("settings_info", dict(options, token=TOKEN), monkeypatch, capsys, False)
    assert reason in message
