# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""Requests to a node by the generated client: repeated where nobody answers, refusals raised."""

import os
import ssl
import time
from urllib.parse import urlsplit

import httpx
from cinder import exception
from flashyard_client import AuthenticatedClient
from flashyard_client.models import ErrorBody, ErrorCode

# A proxy answers so while the node is away. The node itself never does.
AWAY = (502, 503, 504)
TOO_MANY = 429
# The longest wait before a request is repeated, in seconds.
LONGEST_WAIT = 1
# Objects in a page of a list: the most that a node gives.
PAGE = 1000


class Failure(exception.VolumeBackendAPIException):
    """A failure, in one line for people."""

    def __init__(self, message):
        super().__init__(data=message)


class Refusal(Failure):
    """A request that the node refused; `code` is a stable word."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Token(httpx.Auth):
    """The token in a file, which is read for each request: a new one counts at once."""

    def __init__(self, file_name):
        self.file_name = file_name

    def auth_flow(self, request):
        request.headers["Authorization"] = "Bearer " + self.read()
        yield request

    def read(self):
        """The one word in the file."""
        what = f"flashyard_token_file {self.file_name}"
        try:
            with open(self.file_name, encoding="utf-8-sig") as file:
                words = file.read().split()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure("{}: {}".format(what, getattr(error, "strerror", None) or "no text"))
        if len(words) != 1:
            raise Failure(f"{what}: {len(words)} words; allowed: one")
        if not words[0].isascii() or not words[0].isprintable():
            raise Failure(f"{what}: characters that no token has")
        return words[0]


def trust(ca_file):
    """Trust in certificates: the machine's authorities, or those of a file."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise Failure(f"flashyard_ca_file {ca_file}: {error.strerror or error}")
    if ca_file:
        # The certificate that a node makes for itself is its own authority. It lacks what
        # strict verification asks of authorities, which Python 3.13 turned on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def reason_of(error):
    """The reason, without names of exceptions."""
    cause = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is not trusted: " + cause.verify_message
        if isinstance(cause, OSError) and (cause.errno or 0) > 0:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__


class Node:
    """A node, over connections that are kept."""

    def __init__(self, configuration):
        self.url = configuration.flashyard_url.rstrip("/")
        self.check_url()
        self.token = Token(configuration.flashyard_token_file)
        self.patience = configuration.flashyard_retry_seconds
        self.server_name = configuration.flashyard_server_name
        context = trust(configuration.flashyard_ca_file)
        arguments = {"auth": self.token, "trust_env": False}
        if self.server_name:
            arguments["event_hooks"] = {"request": [self.name_server]}
        self.client = AuthenticatedClient(
            base_url=self.url,
            token="",
            verify_ssl=context,
            timeout=httpx.Timeout(configuration.flashyard_request_seconds),
            httpx_args=arguments,
        )

    def check_url(self):
        """Refuses an address that is none, or over which a token would go in the clear."""
        try:
            parts = urlsplit(self.url)
            host, _port = parts.hostname, parts.port
        except ValueError as error:
            raise Failure(f"flashyard_url {self.url}: {error}")
        if parts.scheme not in ("https", "http") or not host or parts.path or parts.query:
            raise Failure(f"flashyard_url {self.url}; allowed: https://HOST or https://HOST:PORT")
        loopback = host in ("localhost", "::1") or host.startswith("127.")
        if parts.scheme == "http" and not loopback:
            raise Failure(
                f"flashyard_url {self.url}: a token goes over http to this machine only; use https"
            )

    def name_server(self, request):
        """Has the certificate be for the configured name."""
        request.extensions["sni_hostname"] = self.server_name

    def ask(self, operation, *path, **arguments):
        """The object that the node answers. Every operation that is used may be repeated."""
        until = time.monotonic() + self.patience
        wait = 0.25
        while True:
            try:
                answer = operation.sync_detailed(*path, client=self.client, **arguments)
            except httpx.TransportError as error:
                reason = reason_of(error)
                failure = Failure(f"node {self.url} does not answer: {reason}")
                if "certificate" in reason:
                    raise failure
            except (ValueError, KeyError, TypeError):
                raise Failure(f"{self.url} is no Flashyard node: its answer has another shape")
            else:
                if answer.status_code < 400:
                    return answer.parsed
                failure = self.refusal(answer)
                if answer.status_code not in AWAY + (TOO_MANY,):
                    raise failure
            if time.monotonic() + wait > until:
                raise failure
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def refusal(self, answer):
        """The reason of an answer that is no success, as a failure."""
        body = answer.parsed
        if not isinstance(body, ErrorBody):
            return Refusal(f"node {self.url}: status {answer.status_code}", None)
        message = body.message
        if body.field:
            message = f"{body.field}: {message}"
        if body.code == ErrorCode.UNAUTHENTICATED:
            message = "it does not take the token: " + message
        elif body.code == ErrorCode.FORBIDDEN:
            message = "the token may not do that: " + message
        return Refusal(f"node {self.url}: {message}", body.code)

    def find(self, operation, *path, **arguments):
        """The same; nothing where the node has no such object."""
        try:
            return self.ask(operation, *path, **arguments)
        except Refusal as refusal:
            if refusal.code != ErrorCode.NOT_FOUND:
                raise
            return None

    def remove(self, operation, *path, **arguments):
        """Deletes an object. Whether there was one."""
        try:
            self.ask(operation, *path, **arguments)
        except Refusal as refusal:
            if refusal.code != ErrorCode.NOT_FOUND:
                raise
            return False
        return True

    def list(self, operation):
        """All objects of a list, page by page."""
        page = self.ask(operation, limit=PAGE)
        while True:
            yield from page.items
            if not page.next_:
                return
            page = self.ask(operation, limit=PAGE, after=page.next_)
