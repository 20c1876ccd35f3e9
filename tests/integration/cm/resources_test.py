# SPDX-License-Identifier: BSD-2-Clause
"""What `rdma resource` of iproute2 lists and counts is what `verbena status` shows.

    resources_test.py BIN PROGRAM ib|roce
"""

import json
import os
import subprocess
import sys
import unittest

from rdma_processes import EmulatorTest

DEVICE = "verbena0"
PORT = 7475
# The kernel's names for the states of `verbena status`.
STATES = {"IDLE": "IDLE", "BOUND": "ADDR_BOUND", "ADDR_QUERY": "ADDR_QUERY", "ADDR_RESOLVED": "ADDR_RESOLVED",
          "ROUTE_RESOLVED": "ROUTE_RESOLVED", "LISTEN": "LISTEN", "REQUEST": "CONNECT", "CONNECT": "CONNECT",
          "CONNECTED": "CONNECT", "DISCONNECT": "CONNECT", "DISCONNECTED": "DISCONNECT"}


class ResourcesTest(EmulatorTest):
    def start_program(self, *counts):
        program = self.start(PROGRAM, self.address(), *counts)
        program.expect("ready")
        status = self.status()
        self.pid = status["cm_ids"][0]["pid"]
        return status

    def output(self, *words):
        return subprocess.run([os.path.join(self.BIN, "verbena"), *words], check=True, timeout=self.LIMIT,
                              capture_output=True, text=True).stdout

    def status(self):
        return json.loads(self.output("status", "--json"))

    def words(self, *words):
        return self.output("run", "--", "rdma", "resource", *words)

    def rdma(self, *words):
        """Returns what `rdma resource` lists, or the only row of its summary."""
        return json.loads(self.output("run", "--", "rdma", "-j", "resource", *words))

    def shown(self, kind, *words):
        rows = self.rdma("show", kind, *words)
        for row in rows:
            self.assertEqual((row["ifname"], row["pid"]), (DEVICE, self.pid))
            self.assertEqual(row["comm"], "cm_resources_pr")
        return rows

    @staticmethod
    def contexts(status):
        return status["devices"][0]["contexts"]

    def qps(self, status):
        return [qp for context in self.contexts(status) for qp in context["qps"]]

    def counts(self, status):
        """Returns the sums over all contexts, under the names that the tool uses."""
        sums = {name: sum(context["resources"][name] for context in self.contexts(status))
                for name in ("pd", "cq", "qp", "mr", "srq")}
        sums["ctx"] = sum(not context["further_engine"] for context in self.contexts(status))
        sums["cm_id"] = len(self.of_device(status))
        return sums

    @staticmethod
    def of_device(status):
        """Returns the IDs that are bound to the device, and those that listen on all devices."""
        return [id_ for id_ in status["cm_ids"] if id_["device"] is not None or id_["state"] == "LISTEN"]

    def test_what_a_program_has(self):
        status = self.start_program()
        with self.subTest("counts"):
            row, = self.rdma("show")
            counts = {name: row[name] for name in self.counts(status)}
            self.assertEqual(counts, self.counts(status))
            self.assertEqual(counts, {"pd": 3, "cq": 3, "qp": 7, "mr": 1, "srq": 2, "ctx": 1, "cm_id": 5})
            self.assertIn("pd 3 cq 3 qp 7 cm_id 5 mr 1 ctx 1 srq 2", self.words("show", DEVICE))
        with self.subTest("queue pairs"):
            self.assertEqual({(qp["lqpn"], qp["type"], qp["state"]) for qp in self.shown("qp")},
                             {(int(qp["qpn"], 16), qp["type"], qp["state"]) for qp in self.qps(status)})
            number = int(self.qps(status)[2]["qpn"], 16)
            self.assertEqual([qp["lqpn"] for qp in self.shown("qp", "link", f"{DEVICE}/1", "lqpn", str(number))], [number])
            self.assertEqual(len(self.shown("qp", "link", f"{DEVICE}/1", "type", "UD")), 4)
            self.assertEqual(len({qp["pdn"] for qp in self.shown("qp")}), 2)
        with self.subTest("completion queues"):
            self.check_completion_queues(status)
        with self.subTest("shared receive queues"):
            self.check_shared_receive_queues(status)
        with self.subTest("rdma_cm IDs"):
            self.check_rdma_cm_ids(status)
        with self.subTest("contexts"):
            first = next(context for context in self.contexts(status) if not context["further_engine"])
            self.assertEqual([context["ctxn"] for context in self.shown("ctx")], [first["slot"]])
        with self.subTest("what is counted only"):
            self.assertEqual((self.rdma("show", "mr"), self.rdma("show", "pd")), ([], []))

    def check_completion_queues(self, status):
        """A completion queue counts one user for each send or receive queue that completes to it."""
        first = next(context for context in self.contexts(status) if not context["further_engine"])
        used = [qp[which] for qp in self.qps(status) for which in ("send_cq", "receive_cq")]
        used += [srq["cqn"] for srq in self.shown("srq") if "cqn" in srq]
        self.assertEqual([(cq["cqn"], cq["cqe"], cq["users"], cq["ctxn"]) for cq in self.shown("cq")],
                         [(cq["cq"], cq["capacity"], used.count(cq["cq"]), first["slot"]) for cq in first["cqs"]])
        self.assertEqual(sorted((cq["cqe"], cq["users"]) for cq in self.shown("cq")), [(70, 1), (80, 6), (100, 8)])
        self.assertEqual([cq["cqe"] for cq in self.shown("cq", "dev", DEVICE, "cqn", "2")], [80])
        self.assertEqual(self.rdma("show", "cq", "dev", DEVICE, "pid", "1"), [])
        self.assertRegex(self.words("show", "cq"), rf"dev {DEVICE} cqn 1 cqe 100 users 8 .*ctxn {first['slot']} pid {self.pid} ")

    def check_shared_receive_queues(self, status):
        shown = {srq["type"]: srq for srq in self.shown("srq")}
        of_status = {srq["type"]: int(srq["srq"], 16) for context in self.contexts(status) for srq in context["srqs"]}
        self.assertEqual({type_: srq["srqn"] for type_, srq in shown.items()}, of_status)
        users = sorted(int(qp["qpn"], 16) for qp in self.qps(status) if qp["srq"] is not None)
        self.assertEqual(len(users), 4)
        self.assertEqual(shown["BASIC"]["lqpn"], [str(qpn) for qpn in users])
        self.assertNotIn("lqpn", shown["XRC"])
        self.assertNotIn("cqn", shown["BASIC"])
        self.assertEqual(next(cq["cqe"] for cq in self.shown("cq") if cq["cqn"] == shown["XRC"]["cqn"]), 70)
        self.assertNotEqual(shown["BASIC"]["pdn"], shown["XRC"]["pdn"])
        self.assertEqual([srq["type"] for srq in self.shown("srq", "dev", DEVICE, "type", "XRC")], ["XRC"])

    def check_rdma_cm_ids(self, status):
        def of_status(id_):
            return (id_["id"], STATES[id_["state"]], id_["port_space"], id_["source"], id_["destination"],
                    id_["qpn"] and int(id_["qpn"], 16), 1 if id_["device"] else None)

        def of_rdma(id_):
            return (id_["cm-idn"], id_["state"], id_["ps"], id_.get("src-addr"), id_.get("dst-addr"), id_.get("lqpn"),
                    id_.get("port"))

        shown = self.shown("cm_id")
        self.assertEqual({of_rdma(id_) for id_ in shown}, {of_status(id_) for id_ in self.of_device(status)})
        self.assertEqual((len(shown), len(status["cm_ids"])), (5, 7))
        self.assertEqual({id_["state"] for id_ in shown}, {"LISTEN", "ROUTE_RESOLVED", "CONNECT"})
        self.assertEqual({id_["qp-type"] for id_ in shown if id_["state"] == "CONNECT"}, {"RC"})
        listening = self.shown("cm_id", "link", DEVICE, "state", "LISTEN")
        self.assertEqual(sorted(id_["src-addr"] for id_ in listening), [f"0.0.0.0:{PORT + 1}", f"{self.address()}:{PORT}"])
        self.assertEqual([id_["src-addr"] for id_ in self.shown("cm_id", "link", f"{DEVICE}/1", "state", "LISTEN")],
                         [f"{self.address()}:{PORT}"])
        lqpn = next(id_["lqpn"] for id_ in shown if "lqpn" in id_)
        self.assertEqual([id_["lqpn"] for id_ in self.shown("cm_id", "link", f"{DEVICE}/1", "lqpn", str(lqpn))], [lqpn])
        self.assertRegex(self.words("show", "cm_id"),
                         rf"link {DEVICE}/- cm-idn \d+ state LISTEN ps TCP pid {self.pid} comm \S+ src-addr 0\.0\.0\.0:{PORT + 1} ")

    def test_thousands(self):
        """The summary counts all. A list that is longer than the reader's buffer ends with an error."""
        status = self.start_program(2000, 2000)
        row, = self.rdma("show")
        self.assertEqual({name: row[name] for name in self.counts(status)}, self.counts(status))
        self.assertEqual((row["cq"], row["cm_id"]), (2003, 2005))
        cqs = [cq for context in self.contexts(status) for cq in context["cqs"]]
        self.assertEqual([(cq["cqn"], cq["cqe"]) for cq in self.shown("cq")], [(cq["cq"], cq["capacity"]) for cq in cqs])
        done = subprocess.run([os.path.join(self.BIN, "verbena"), "run", "--", "rdma", "resource", "show", "cm_id"], check=False,
                              timeout=self.LIMIT, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "error: No buffer space available\n"))

    def test_hundreds(self):
        status = self.start_program(1, 600)
        shown = self.shown("cm_id")
        # The first pass lists the IDs at no port, the second one the others, each in the order of the IDs.
        known = [id_["id"] for id_ in status["cm_ids"] if id_["device"] is not None]
        at_port = [id_ for id_ in shown if "port" in id_]
        self.assertGreater(len(known), 600)
        self.assertEqual([id_["cm-idn"] for id_ in at_port], known)
        self.assertEqual({id_["state"] for id_ in at_port[4:]}, {"ADDR_BOUND"})

    def test_nothing_is_there(self):
        row, = self.rdma("show")
        self.assertEqual({row[name] for name in ("pd", "cq", "qp", "mr", "srq", "ctx", "cm_id")}, {0})
        for kind in ("qp", "cq", "srq", "cm_id", "ctx"):
            self.assertEqual(self.rdma("show", kind), [])


if __name__ == "__main__":
    EmulatorTest.BIN, PROGRAM, EmulatorTest.PERSONA = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0]], verbosity=2)
