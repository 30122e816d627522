# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Rare acts of a node or a proxy: it ends connections, asks to wait, answers no JSON."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import socket
import threading

import pytest
from ansible_collections.flashyard.storage.plugins.module_utils import rest

FOUND = b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: "a.b"\r\n\r\n{"name":1}'
GONE = b"HTTP/1.1 204 No Content\r\n\r\n"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
SLOWER = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 6\r\nContent-Length: 0\r\n\r\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
LOST = b""


class Script(threading.Thread):
    """Answers each connection's one request with the next of some answers, and hangs up."""

    def __init__(self, answers):
        super().__init__(daemon=True)
        self.answers, self.requests = answers, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        for answer in self.answers:
            connection = self.socket.accept()[0]
            with connection:
                self.requests.append(connection.recv(65536).decode("ascii"))
                connection.sendall(answer.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        self.socket.close()

    def node(self, **options):
        params = dict(
            node="http://127.0.0.1:%d" % self.port,
            token="fy_secret",
            token_file=None,
            ca_file=None,
            server_name=None,
            timeout=5,
            retries=2,
        )
        return rest.Node(dict(params, **options))


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """How long was waited between tries; nothing really waits."""
    found = []
    monkeypatch.setattr(rest.time, "sleep", found.append)
    return found


def test_an_object_comes_with_its_tag_and_a_missing_one_is_nothing():
    script = Script([FOUND, MISSING])
    node = script.node()
    assert node.find("/v1/a") == ({"name": 1}, '"a.b"')
    assert node.find("/v1/b") == (None, None)
    assert "Authorization: Bearer fy_secret" in script.requests[0]


def test_reads_are_repeated_after_lost_answers_and_where_the_node_is_away(waits):
    assert Script([LOST, AWAY, FOUND]).node().get("/v1/a") == {"name": 1}
    assert waits == [0.5, 1.0]


def test_everything_is_repeated_after_the_wait_that_the_node_asks_for(waits):
    script = Script([SLOWER, GONE])
    assert script.node().change("POST", "/v1/a", {}) is None
    assert waits == [6] and len(script.requests) == 2


@pytest.mark.parametrize("method, tag", [("POST", None), ("PUT", '"a.b"'), ("DELETE", '"a.b"')])
def test_what_may_have_been_carried_out_is_not_repeated_where_that_does_harm(method, tag):
    script = Script([LOST, GONE])
    with pytest.raises(rest.Failure, match="^node http://127.0.0.1:[0-9]+ does not answer: "):
        script.node().change(method, "/v1/a", {}, tag)
    assert len(script.requests) == 1


def test_a_deletion_whose_answer_was_lost_is_done():
    assert Script([LOST, MISSING]).node().change("DELETE", "/v1/a") is None
    with pytest.raises(rest.Failure, match="status 404"):
        Script([MISSING]).node().change("DELETE", "/v1/a")


def test_tries_come_to_an_end():
    script = Script([LOST, LOST, LOST])
    with pytest.raises(rest.Failure, match="does not answer"):
        script.node().get("/v1/a")
    assert len(script.requests) == 3


def test_what_is_no_node_is_called_so():
    with pytest.raises(rest.Failure, match="is no Flashyard node"):
        Script([PAGE]).node().get("/v1/a")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"node": "node-1:4400"}, "allowed: https://HOST"),
        ({"node": "https://node-1/path"}, "allowed: https://HOST"),
        ({"node": "https://node-1:x"}, "^node https://node-1:x: "),
        ({"node": "http://node-1:4400"}, "to this machine only"),
        ({"token": None}, "^no token: give token or token_file"),
        ({"token": "a\nb"}, "characters that no token has"),
        ({"token": "\u00e9"}, "characters that no token has"),
        ({"token": None, "token_file": "/nonexistent"}, "^token_file /nonexistent: No such"),
        ({"retries": -1}, "^retries -1; allowed: 0 or more"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, message):
    with pytest.raises(rest.Failure, match=message) as failure:
        Script([]).node(**options).get("/v1/a")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("text", ["", "two words"])
def test_a_token_file_has_one_word(tmp_path, text):
    (tmp_path / "token").write_text(text)
    with pytest.raises(rest.Failure, match="words; allowed: one$"):
        Script([]).node(token=None, token_file=str(tmp_path / "token"))


def test_blanks_and_a_byte_order_mark_around_a_token_do_not_count(tmp_path):
    (tmp_path / "token").write_bytes(b"\xef\xbb\xbf\n fy_secret \n")
    node = Script([]).node(token=None, token_file=str(tmp_path / "token"))
    assert node.secret == "fy_secret"


def test_parts_of_paths_are_quoted_and_queries_left_out_that_say_nothing():
    assert rest.path_of("a", "b/c?d", force=False, after=None) == "/v1/a/b%2Fc%3Fd"
    assert rest.path_of("a", force=True, limit=3) == "/v1/a?force=true&limit=3"
