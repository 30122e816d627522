"""Writes the result of each task as a line of JSON, to the file that RESULTS names.

Tasks of the collection's modules are written, and with RESULTS_OF=all those of all modules.
"""

import json
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: results
type: notification
short_description: Results of tasks as lines of JSON
description: Writes the result of each task as a line of JSON.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "results"

    def note(self, result, failed=False):
        task, found = result.task, result.result
        ours = task.action.split(".")[0] == "flashyard" or os.environ.get("RESULTS_OF") == "all"
        if not ours or found.get("results") is not None:
            return
        item = found.get("item")
        line = {
            "host": result.host.get_name(),
            "task": task.get_name() + (" " + json.dumps(item) if item is not None else ""),
            "action": task.action.split(".")[-1],
            "changed": found.get("changed", False),
            "failed": failed,
            "message": found.get("msg", ""),
            "diff": found.get("diff"),
        }
        with open(os.environ["RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")

    v2_runner_on_ok = note
    v2_runner_item_on_ok = note

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.note(result, failed=True)

    def v2_runner_item_on_failed(self, result):
        self.note(result, failed=True)
