"""Keeps what schemathesis makes up within a scratch directory and this machine."""

import itertools
import os
import re

import schemathesis
import urllib3

SCRATCH = os.environ["SCRATCH"]
PATHS = ("path", "directory", "profile")


CONDITIONS = ("if-match", "if-none-match")
calls = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    confine(case.body)
    # No object has a tag that is made up: with one each time, hardly a change would be made.
    # Wrong requests stay as they are: which of their headers is missing is what is tried.
    right = case.meta is None or case.meta.generation.mode.is_positive
    if right and next(calls) % 8:
        for name in [name for name in case.headers or () if name.lower() in CONDITIONS]:
            del case.headers[name]
    # The token that all this is done with has to stay what it is.
    named = case.path_parameters
    if "/v1/tokens/" in case.path and isinstance(named, dict) and named.get("name") == "admin":
        named["name"] = "other"


def confine(body):
    if not isinstance(body, dict):
        return
    for name in PATHS:
        value = body.get(name)
        if isinstance(value, str) and value.startswith("/"):
            body[name] = f"{SCRATCH}/{len(value)}"
    for name in ("graphite", "syslog"):
        receiver = body.get(name)
        if isinstance(receiver, dict):
            address = receiver.get("address")
            if isinstance(address, str) and re.search(r":\d+$", address):
                receiver["address"] = "127.0.0.1:9"


# A node slows an address down that comes with one wrong token after another, and so does the check
# that wrong tokens are refused: every connection comes from another address of this machine.
addresses = (f"127.1.{n >> 8 & 255}.{n & 255}" for n in itertools.cycle(range(1, 65000)))
connect = urllib3.connection.HTTPConnection._new_conn


def connect_from_another_address(connection):
    connection.source_address = (next(addresses), 0)
    return connect(connection)


urllib3.connection.HTTPConnection._new_conn = connect_from_another_address
