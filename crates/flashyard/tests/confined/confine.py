"""Runs a program under a seccomp profile, as container engines do: confine.py PROFILE PROGRAM..."""

import ctypes
import json
import os
import re
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, AND, JUMP_IF_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
# Of struct seccomp_data: the number, the architecture, and the low half of each argument.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
X86_64 = 0xC000003E
MASKED = "SCMP_CMP_MASKED_EQ"


def numbers():
    """The system calls of this machine, by name."""
    for directory in ("/usr/include/x86_64-linux-gnu/asm", "/usr/include/asm"):
        path = os.path.join(directory, "unistd_64.h")
        if os.path.exists(path):
            with open(path) as header:
                found = re.findall(r"#define __NR_(\w+) (\d+)", header.read())
            return {name: int(number) for name, number in found}
    sys.exit("no list of system calls; Debian has it in linux-libc-dev")


def verdict(rule):
    if rule["action"] == "SCMP_ACT_ALLOW":
        return ALLOW
    assert rule["action"] == "SCMP_ACT_ERRNO", rule["action"]
    return ERRNO | rule.get("errnoRet", 1)


def program(profile):
    """The filter, each rule by itself."""
    known = numbers()
    code = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, X86_64),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            if name not in known:
                sys.exit("no system call is called %s" % name)
            answer = [(RETURN, 0, 0, verdict(rule))]
            for argument in rule.get("args", []):
                assert argument["op"] == MASKED, argument["op"]
                place = ARGUMENTS + 8 * argument["index"]
                answer = [
                    (LOAD, 0, 0, place),
                    (AND, 0, 0, argument["value"]),
                    (JUMP_IF_EQUAL, 0, len(answer), argument["valueTwo"]),
                    *answer,
                    (LOAD, 0, 0, NUMBER),
                ]
            code.append((JUMP_IF_EQUAL, 0, len(answer), known[name]))
            code.extend(answer)
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO", profile["defaultAction"]
    code.append((RETURN, 0, 0, ERRNO | profile["defaultErrnoRet"]))
    return code


def confine(code):
    packed = b"".join(struct.pack("HBBI", *step) for step in code)
    steps = ctypes.create_string_buffer(packed)
    pointer = struct.pack("HxxxxxxP", len(code), ctypes.addressof(steps))
    system = ctypes.CDLL(None, use_errno=True)
    for call in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(pointer), 0, 0),
    ):
        if system.prctl(*call) != 0:
            sys.exit("prctl: %s" % os.strerror(ctypes.get_errno()))


with open(sys.argv[1]) as file:
    confine(program(json.load(file)))
os.execv(sys.argv[2], sys.argv[2:])
