# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""The REST API of a Flashyard node, by Python's standard library alone."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import http.client
import json
import socket
import ssl
import time
from urllib.parse import quote, urlencode, urlsplit

from ansible.module_utils.basic import env_fallback

# Requests that may be repeated when nobody knows whether the node got them.
IDEMPOTENT = ("GET", "PUT", "PATCH", "DELETE")
# A proxy answers so while the node is away. The node itself never does.
AWAY = (502, 503, 504)
# The longest wait before a request is repeated, in seconds.
LONGEST_WAIT = 10
# Objects in a page of a list: the most that a node gives.
PAGE = 1000


class Failure(Exception):
    """A failure, in one line for people."""


class Answer:
    """An answer: a status, an object, the object's tag, and the seconds to wait."""

    def __init__(self, status, body, tag, wait):
        self.status, self.body, self.tag, self.wait = status, body, tag, wait


def connection_options():
    """Options that say which node, and who asks."""
    return dict(
        node=dict(type="str", required=True, fallback=(env_fallback, ["FLASHYARD_NODE"])),
        token=dict(type="str", no_log=True, fallback=(env_fallback, ["FLASHYARD_TOKEN"])),
        token_file=dict(
            type="path", no_log=False, fallback=(env_fallback, ["FLASHYARD_TOKEN_FILE"])
        ),
        ca_file=dict(type="path", fallback=(env_fallback, ["FLASHYARD_CA_FILE"])),
        server_name=dict(type="str", fallback=(env_fallback, ["FLASHYARD_SERVER_NAME"])),
        timeout=dict(type="int", default=30),
        retries=dict(type="int", default=3),
    )


def path_of(*parts, **query):
    """The path of an object, each part quoted, and the query parameters that are set."""
    path = "/v1/" + "/".join(quote(str(part), safe="") for part in parts)
    query = dict((name, value) for name, value in query.items() if value not in (None, False))
    if not query:
        return path
    text = dict((name, "true" if value is True else value) for name, value in query.items())
    return path + "?" + urlencode(text)


def secret_of(params):
    """The token: that of the options, or the one word in a file."""
    if params["token"]:
        return params["token"].strip()
    if not params["token_file"]:
        raise Failure("no token: give token or token_file, or set FLASHYARD_TOKEN_FILE")
    return word_in(params, "token_file")


def word_in(params, option):
    """The only word of the file that an option names."""
    name = params[option]
    try:
        with open(name, encoding="utf-8-sig") as file:
            words = file.read().split()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure("%s %s: %s" % (option, name, reason_of(error)))
    if len(words) != 1:
        raise Failure("%s %s: %d words; allowed: one" % (option, name, len(words)))
    return words[0]


def reason_of(error):
    """The reason, without numbers that only programs read."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not trusted: " + error.verify_message
    if isinstance(error, socket.timeout):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def is_loopback(host):
    """Whether a host name stays on this machine."""
    return host in ("localhost", "::1") or host.startswith("127.")


class Node:
    """A node, over one connection that is kept."""

    def __init__(self, params):
        self.url = params["node"].rstrip("/")
        try:
            parts = urlsplit(self.url)
            self.host, self.port = parts.hostname, parts.port or 4400
        except ValueError as error:
            raise Failure("node %s: %s" % (self.url, error))
        if parts.scheme not in ("https", "http") or not self.host or parts.path or parts.query:
            raise Failure("node %s; allowed: https://HOST or https://HOST:PORT" % self.url)
        if parts.scheme == "http" and not is_loopback(self.host):
            raise Failure(
                "node %s: a token goes over http to this machine only; use https" % self.url
            )
        self.secret = secret_of(params)
        if not self.secret.isascii() or not self.secret.isprintable():
            raise Failure("the token has characters that no token has")
        self.timeout, self.retries = params["timeout"], params["retries"]
        if self.timeout < 1:
            raise Failure("timeout %d; allowed: 1 second or more" % self.timeout)
        self.server_name = params["server_name"] or self.host
        self.context = self.trust(params["ca_file"]) if parts.scheme == "https" else None
        self.connection = None

    @staticmethod
    def trust(ca_file):
        """Trust in certificates: the machine's authorities, or those of a file."""
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Failure("ca_file %s: %s" % (ca_file, reason_of(error)))
        if ca_file:
            # The certificate that a node makes for itself is its own authority. It lacks what
            # strict verification asks of authorities, which Python 3.13 turned on.
            context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
            context.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0x80000)
        return context

    def connected(self):
        """The connection, made if there is none."""
        if self.connection is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
            connection.connect()
            if self.context:
                plain, name = connection.sock, self.server_name
                connection.sock = self.context.wrap_socket(plain, server_hostname=name)
            self.connection = connection
        return self.connection

    def close(self):
        """Ends the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def ask_once(self, method, path, body, headers):
        """One try. Whether the node may have got it is in the exception's `sent`."""
        sent = False
        try:
            connection = self.connected()
            sent = True
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            error.sent = sent
            raise
        except ValueError as error:
            # Names that no machine has. Certificates that are not trusted are an OSError too.
            raise Failure("node %s, server_name %s: %s" % (self.url, self.server_name, error))
        if answer.will_close:
            self.close()
        wait = answer.getheader("Retry-After") or ""
        wait = int(wait) if wait.isdigit() else None
        return Answer(answer.status, self.read(answer.status, text), answer.getheader("ETag"), wait)

    def read(self, status, text):
        """The object in an answer."""
        if not text:
            return None
        try:
            body = json.loads(text.decode("utf-8"))
        except ValueError:
            if status >= 400:
                return None
            raise Failure("%s is no Flashyard node: it answers without JSON" % self.url)
        if status < 400 and not isinstance(body, dict):
            raise self.other_shape("no object")
        return body

    def other_shape(self, what):
        """The failure of an answer that no node gives."""
        found = (self.url, what)
        return Failure("%s is no Flashyard node of this version: its answer has %s" % found)

    def ask(self, method, path, body=None, tag=None):
        """An answer, of whatever status. Tries again what may be tried again."""
        headers = {"Authorization": "Bearer " + self.secret, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body).encode("utf-8")
        if tag:
            headers["If-Match"] = tag
        # A condition that the first try has changed would refuse the second one.
        repeatable = method in IDEMPOTENT and not tag
        lost = False
        for turn in range(self.retries + 1):
            last = turn == self.retries
            wait = min(0.5 * 2**turn, LONGEST_WAIT)
            try:
                answer = self.ask_once(method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                lost = lost or error.sent
                untrusted = isinstance(error, ssl.SSLError)
                if last or untrusted or (error.sent and not repeatable):
                    raise Failure("node %s does not answer: %s" % (self.url, reason_of(error)))
            else:
                if lost and method == "DELETE" and answer.status == 404:
                    # It went with the first try, whose answer was lost.
                    return Answer(204, None, None, None)
                away = answer.status in AWAY and repeatable
                if last or not (away or answer.status == 429):
                    return answer
                wait = min(answer.wait or wait, LONGEST_WAIT)
            time.sleep(wait)
        raise Failure("retries %d; allowed: 0 or more" % self.retries)

    def refusal(self, answer):
        """Why a node refused, as a failure."""
        body = answer.body if isinstance(answer.body, dict) else {}
        message = body.get("message") or "status %d" % answer.status
        if body.get("field"):
            message = "%s: %s" % (body["field"], message)
        if answer.status == 401:
            message = "it does not take the token: " + message
        elif answer.status == 403:
            message = "the token may not do that: " + message
        elif answer.status == 412:
            message = "somebody else changed the object meanwhile; run the task again"
        return Failure("node %s: %s" % (self.url, message))

    def find(self, path):
        """An object and its tag; nothing where there is none."""
        answer = self.ask("GET", path)
        if answer.status == 404:
            return None, None
        if answer.status != 200:
            raise self.refusal(answer)
        if answer.body is None:
            raise self.other_shape("no object")
        return answer.body, answer.tag

    def get(self, path, *attributes):
        """An object that has to be there, with some of its attributes."""
        answer = self.ask("GET", path)
        if answer.status != 200:
            raise self.refusal(answer)
        for attribute in attributes:
            if attribute not in (answer.body or {}):
                raise self.other_shape("no " + attribute)
        return answer.body

    def all(self, *kind):
        """Every object of a kind, page by page."""
        found, after = [], None
        while True:
            page = self.get(path_of(*kind, limit=PAGE, after=after), "items")
            items = page["items"]
            if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
                raise self.other_shape("no list of objects")
            found += items
            after = page.get("next")
            if after is None:
                return found

    def change(self, method, path, body=None, tag=None):
        """Makes a change, and gives what the node answers."""
        answer = self.ask(method, path, body, tag)
        if answer.status not in (200, 204):
            raise self.refusal(answer)
        return answer.body

    def wait_for(self, job, seconds):
        """Waits for a job to end, which has to succeed."""
        until = time.monotonic() + seconds
        path = path_of("jobs", job["id"])
        while job["state"] == "running":
            if time.monotonic() > until:
                raise Failure(
                    "job %d of %s is at %d%% after %d s, and goes on by itself"
                    % (job["id"], job["object"], job["percent"], seconds)
                )
            time.sleep(0.5)
            job = self.get(path)
        if job["state"] != "done":
            why = (job["id"], job["object"], job.get("message"))
            raise Failure("job %d of %s failed: %s" % why)
