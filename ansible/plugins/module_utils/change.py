# Copyright (c) 2026 Flashyard contributors
# SPDX-License-Identifier: Apache-2.0

"""How every module works: look, plan, then carry out, or in check mode say what is planned."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

from ansible_collections.flashyard.storage.plugins.module_utils.rest import (
    Failure,
    Node,
    connection_options,
)

STATE = dict(type="str", choices=["present", "absent"], default="present")


def options(**own):
    """Options of a module: which node, and those of its own."""
    return dict(connection_options(), **own)


def without_nothing(attributes):
    """Attributes that are set."""
    return dict((name, value) for name, value in attributes.items() if value is not None)


class Plan:
    """How an object is, how it will be, and the requests between.

    `before` and `after` are what people see as the difference. They hold attributes that people
    set, in the words of the REST API, and no secrets. There are requests where they differ.
    """

    def __init__(self, before):
        self.before = without_nothing(before)
        self.after = dict(self.before)
        self.requests = []
        self.warnings = []

    def ask(self, method, path, body=None, wait=None):
        """Plans a request. With `wait` it starts a job, which ends within so many seconds."""
        self.requests.append((method, path, body, wait))

    def set(self, **attributes):
        """Says what attributes will be."""
        self.after = without_nothing(dict(self.after, **attributes))

    def nothing_left(self):
        """Says that the object will be gone."""
        self.after = {}

    def expect(self, node, kind, names):
        """Warns of objects that are not there: an earlier task of a check run may make them."""
        there = [found["name"] for found in node.all(kind)] if names else []
        for name in names:
            if name not in there:
                self.warnings.append("%s: no object is named %s yet" % (kind, name))


def run(module, work):
    """Does a module's work, and ends it: well, or with one line that says why not."""
    try:
        node = Node(module.params)
        module.no_log_values.add(node.secret)
        result = work(module, node)
        node.close()
    except Failure as failure:
        module.fail_json(msg=str(failure))
    except KeyError as missing:
        # Attributes of the module's own are all there.
        module.fail_json(msg=str(node.other_shape("no %s" % missing)))
    module.exit_json(**result)


def carry_out(module, node, plan, read, tag=None):
    """Makes the change, unless it is a check run. `read` gives what people then see of the object.

    The first request is made only if nobody changed the object since it was looked at.
    """
    changed = bool(plan.requests)
    after = plan.after
    if module.check_mode:
        for warning in plan.warnings:
            module.warn(warning)
    else:
        for method, path, body, wait in plan.requests:
            answer = node.change(method, path, body, tag)
            tag = None
            if wait is not None:
                node.wait_for(answer, wait)
        if changed:
            after = without_nothing(read())
    return dict(changed=changed, diff=dict(before=plan.before, after=after))


def shown(module, result, key, found, node, path):
    """Adds the object as the node shows it; a check run adds what is known of it."""
    if not result["changed"]:
        result[key] = found or {}
    elif module.check_mode:
        after = result["diff"]["after"]
        result[key] = dict(found or {}, **after) if after else {}
    else:
        result[key] = node.find(path)[0] or {}
    return result


def look_up(kind, key):
    """The work of a module that shows objects of a kind: all of them, or those of a name."""

    def work(module, node):
        name, found = module.params.get("name"), node.all(kind)
        if name is not None:
            found = [one for one in found if one["name"] == name]
        return {"changed": False, key: found}

    return work


def differs(what, found, wanted):
    """The failure to change an attribute that does not change."""
    return Failure(
        "%s is %s and not %s, which does not change: remove it first, or ask for what it is"
        % (what, found, wanted)
    )
