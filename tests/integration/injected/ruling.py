# SPDX-License-Identifier: BSD-2-Clause
"""What tests of scripted faults share: an emulator each, the programs that meet the rules, and their outcome."""

import errno
import json
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "provider"))
import device as devices  # noqa: E402

BUILD = EXCHANGE = MESSAGES = STEPS = None  # the programs of the command line
LINKS = ("auto", "udp")

STATUSES = {0: "SUCCESS", 1: "LOC_LEN_ERR", 2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR", 7: "BAD_RESP_ERR",
            9: "REM_INV_REQ_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR", 12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR",
            16: "REM_ABORT_ERR", 19: "FATAL_ERR", 20: "RESP_TIMEOUT_ERR", 21: "GENERAL_ERR"}
STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
EVENTS = {1: "QP_FATAL", 2: "QP_REQ_ERR", 3: "QP_ACCESS_ERR", 7: "PATH_MIG_ERR", 8: "DEVICE_FATAL", 17: "CLIENT_REREGISTER", 19: "WQ_FATAL"}


def word_of_status(status):
    """Returns the name of a completion's status. From 100 on it is the errno with which the post failed."""
    return errno.errorcode[status - 100] if status >= 100 else STATUSES.get(status, status)


class Case(unittest.TestCase):
    """The base of the tests. Each has an emulator of its own."""

    emulator = ()  # options of `verbena up`

    def setUp(self):
        self.device = self.enterContext(devices.Emulator(BUILD, *self.emulator))

    def fault(self, *words):
        done = self.device.control("fault", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def inject(self, *rules, more=()):
        """Sets these rules in place of earlier ones."""
        self.fault("--clear")
        words = [word for rule in rules for word in ("--inject", rule)]
        return self.fault(*words, *more)

    def status(self):
        return json.loads(self.device.control("status", "--json").stdout)

    def rules(self):
        return {rule["rule"]: (rule["matched"], rule["fired"]) for rule in self.status()["rules"]}

    def fired(self):
        return [rule["fired"] for rule in self.status()["rules"]]

    def drops(self):
        return self.status()["devices"][0]["ports"][0]["drops"]

    def exchange(self, link, *words):
        """Returns the outcome by side, with names for statuses."""
        self.device.environment["VERBENA_LINK"] = link
        done = self.device.run([EXCHANGE, *(str(word) for word in words)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.explained = done.stderr
        return self.ends_of(done)

    def ends_of(self, done):
        ends = {}
        for line in done.stdout.splitlines():
            end = json.loads(line)
            end["state"] = STATES[end["state"]]
            for name in ("statuses", "refused"):
                end[name] = [word_of_status(status) for status in end.get(name, [])]
            if "events" in end:
                end["events"] = [EVENTS.get(event, event) for event in end["events"]]
            ends[end.pop("side")] = end
        self.assertEqual(set(ends), {"client", "server"}, done.stdout + done.stderr)
        return ends

    def all_is_well(self, ends, count):
        client, server = ends["client"], ends["server"]
        self.assertEqual((client["statuses"], client["corrupt"], client["state"]), (["SUCCESS"] * count, [], "RTS"))
        self.assertEqual((server["corrupt"], server["events"], server["state"]), ([], [], "RTS"))

    def messages(self, link, kind, count, size):
        """Returns the numbers of the messages that did not arrive."""
        self.device.environment["VERBENA_LINK"] = link
        done = self.device.run([MESSAGES, kind, str(count), str(size)])
        self.assertEqual(done.returncode, 0, done.stderr)
        return [int(number) for number in done.stdout.split()[1:]]

    def until(self, condition, what):
        end = time.monotonic() + devices.LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)


def main():
    """NAME BUILD EXCHANGE MESSAGES STEPS [CASE ...]"""
    global BUILD, EXCHANGE, MESSAGES, STEPS
    BUILD, EXCHANGE, MESSAGES, STEPS = (sys.argv.pop(1) for _ in range(4))
    unittest.main()
