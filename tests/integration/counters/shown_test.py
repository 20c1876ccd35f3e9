#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each field of `verbena status --json` and each file of sysfs shows the truth.

    shown_test.py PREFIX PUPPET [unittest arguments]
"""

import json
import os
import pathlib
import re
import signal
import sys
import unittest

import puppets
from puppets import PuppetCase

CONTROL = pathlib.Path(__file__).resolve().parents[1] / "emulator"
sys.path.insert(0, str(CONTROL))
import control_client as cc  # noqa: E402

ROCE = "127.112.6.1"


class Status(PuppetCase):
    def context_of(self, puppet):
        return next(c for c in self.status()["devices"][0]["contexts"] if c["pid"] == puppet.process.pid)

    def test_the_emulator(self):
        status = self.status()
        self.assertEqual("verbena " + status["version"], self.device.control("version").stdout.strip())
        runtime = self.device.environment["VERBENA_RUNTIME_DIR"]
        self.assertEqual(status["runtime_dir"], runtime)
        self.assertEqual(status["pid"], int(pathlib.Path(runtime, "daemon.lock").read_text(encoding="ascii")))
        self.assertIs(status["ends_when_idle"], False)
        self.device.control("down")
        on_demand = self.device.control("run", "--fabric", self.device.fabric, "--", self.device.verbena, "status", "--json")
        self.assertIs(json.loads(on_demand.stdout)["ends_when_idle"], True)
        self.assertEqual(self.device.control("up", "--fabric", self.device.fabric).returncode, 0)

    def test_a_device(self):
        device = self.status()["devices"][0]
        address = self.device.fabric.replace(".0/24", ".1")
        self.assertEqual((device["name"], device["persona"], device["address"], device["interface"]),
                         ("verbena0", "InfiniBand", address, "lo"))
        info = self.device.run(["ibv_devinfo", "-v"]).stdout
        guid = re.search(r"node_guid:\s+(\S+)", info)[1]
        self.assertEqual(device["node_guid"], "0x" + guid.replace(":", ""))
        self.assertRegex(device["chardev"], r"^uverbs\d+$")
        self.assertEqual(self.device.run(["ls", "/dev/infiniband/" + device["chardev"]]).returncode, 0)
        port = device["ports"][0]
        self.assertEqual(port["port"], 1)
        self.assertEqual(port["state"], "ACTIVE")
        self.assertEqual(port["lid"], int(re.search(r"port_lid:\s+(\d+)", info)[1]))
        self.assertEqual(port["active_mtu"], int(re.search(r"active_mtu:\s+(\d+)", info)[1]))
        self.assertEqual(port["pkeys"], [0xffff])
        self.assertEqual(port["gids"], [self.device.run(["cat", "/sys/class/infiniband/verbena0/ports/1/gids/0"]).stdout.strip()])
        self.device.control("port", "verbena0", "down")
        self.assertEqual(self.status()["devices"][0]["ports"][0]["state"], "DOWN")
        self.device.control("port", "verbena0", "up")

    def test_a_process(self):
        puppet = self.start()
        context = self.context_of(puppet)
        self.assertEqual(context["program"], "puppet")
        self.assertEqual(context["slot"], puppet.qpn >> 14)
        self.assertEqual(context["resources"], {"pd": 1, "cq": 1, "qp": 1, "mr": 1, "srq": 0})
        self.assertIs(context["responding"], True)
        puppet.process.send_signal(signal.SIGSTOP)
        self.until(lambda: self.context_of(puppet)["responding"] is False, "it answers though it is stopped")
        puppet.process.send_signal(signal.SIGCONT)
        self.until(lambda: self.context_of(puppet)["responding"] is True, "it does not answer again")

    def test_further_slots_and_engines(self):
        with cc.Client(self.device.environment["VERBENA_RUNTIME_DIR"]).open_device() as client:
            slot = int.from_bytes(client.call(cc.EXTRA_SLOT)[1][:4], "little")
            contexts = self.status()["devices"][0]["contexts"]
            self.assertIn([slot], [context["extra_slots"] for context in contexts if context["slot"] == client.slot])
        for engines, further in (("1", [False]), ("2", [False, True])):
            puppet = self.start(VERBENA_ENGINES=engines)
            self.assertEqual(puppet.do("another"), "ok")
            contexts = self.status()["devices"][0]["contexts"]
            self.assertEqual(sorted(c["further_engine"] for c in contexts if c["pid"] == puppet.process.pid), further)

    def test_a_queue_pair(self):
        for link, name in (("udp", "udp"), ("auto", "ring")):
            first, second = self.start(link=link), self.start(link=link)
            new = self.qp_of(first)
            self.assertEqual((new["type"], new["state"], new["peer"], new["link"]), ("RC", "INIT", None, "none"))
            second.do("connect", rq_psn=300, **first.to)
            first.do("connect", sq_psn=300, timeout=14, retries=7, **second.to)
            self.assertEqual(self.qp_of(second)["receive_outstanding"], 0)
            second.do("receive", count=5, length=100)
            self.assertEqual(self.qp_of(second)["receive_outstanding"], 5)
            first.do("send", count=3, length=100)
            self.assertEqual(first.do("poll", count=3), "0 0 0")
            second.do("poll", count=3)
            # The first packets asked for the ring.
            self.until(lambda qpn=first, link=name: self.qp_of(qpn)["link"] == link, f"not by {name}")
            sent, got = self.qp_of(first), self.qp_of(second)
            self.assertEqual((sent["qpn"], sent["state"]), (f"0x{first.qpn:06x}", "RTS"))
            address = self.status()["devices"][0]["address"]
            self.assertEqual(sent["peer"], {"address": address, "qpn": f"0x{second.qpn:06x}"})
            self.assertEqual((sent["send_psn"], got["receive_psn"]), (303, 303))
            # On a busy machine the sender asks again, which repeats a packet.
            packets = 3 + sent["retransmitted_packets"]
            self.assertEqual((sent["sent_packets"], sent["sent_bytes"]), (packets, 100 * packets))
            self.assertLessEqual(3, got["received_packets"])
            self.assertLessEqual(got["received_packets"], packets)
            self.assertEqual(got["received_bytes"], 300)
            self.assertEqual((got["receive_outstanding"], sent["send_outstanding"]), (2, 0))
            second.kill()
            first.do("send", count=4)
            self.assertEqual(self.qp_of(first)["send_outstanding"], 4)
            self.assertEqual(first.do("poll", count=4), "12 5 5 5")
            # The peer had two receives left, so two of the requests go. Each of the 7 retries repeats one at least; how
            # many probes go besides depends on the machine.
            failed = self.qp_of(first)
            repeated = failed["retransmitted_packets"] - sent["retransmitted_packets"]
            self.assertLessEqual(7, repeated)
            self.assertEqual(failed["sent_packets"], sent["sent_packets"] + 2 + repeated)
            self.assertEqual(failed["send_outstanding"], 0)

    def cq_of(self, puppet):
        return self.context_of(puppet)["cqs"][0]

    def test_a_completion_queue(self):
        """A user whose program waits for an event that does not come sees why."""
        for link in ("udp", "auto"):
            first, second = self.start(link=link), self.start(link=link, PUPPET_CHANNEL="1", PUPPET_CQE="100")
            self.assertIsNone(self.cq_of(first)["channel_fd"])
            second.do("connect", **first.to)
            first.do("connect", **second.to)
            second.do("receive", count=120)
            new = self.cq_of(second)
            self.assertEqual(os.readlink(f"/proc/{second.process.pid}/fd/{new['channel_fd']}")[:5], "pipe:")
            self.assertEqual(new, {"cq": 1, "capacity": 100, "unpolled": 0, "overrun": False, "armed": "no",
                                   "channel_fd": new["channel_fd"], "unread_events": 0, "unacknowledged_events": 0})

            def shows(wanted, of=second):
                cq = self.cq_of(of)
                return (cq["unpolled"], cq["armed"], cq["unread_events"], cq["unacknowledged_events"]) == wanted

            second.do("arm", solicited=1)
            self.assertTrue(shows((0, "solicited", 0, 0)), self.cq_of(second))
            first.do("send")
            self.until(lambda: shows((1, "solicited", 0, 0)), "it is not solicited: no event")
            second.do("poll")
            second.do("arm")
            self.assertTrue(shows((0, "any", 0, 0)), self.cq_of(second))
            first.do("send", count=2)
            self.until(lambda: shows((2, "no", 1, 1)), "the event is not read")
            self.assertRegex(self.device.control("status").stdout,
                             r"\n    CQ 1: 2 of 100 completions not polled, not armed; events at fd \d+: "
                             r"1 not read, 1 not acknowledged\n")
            second.do("event")
            self.assertTrue(shows((2, "no", 0, 1)), self.cq_of(second))
            second.do("ack")
            self.assertTrue(shows((2, "no", 0, 0)), self.cq_of(second))
            first.do("send", count=110)
            self.until(lambda: self.cq_of(second)["overrun"], "101 are too many")
            self.assertEqual(self.cq_of(second)["unpolled"], 100)

    def test_the_queues_of_a_queue_pair(self):
        puppet = self.start(VERBENA_ENGINES="1")
        self.assertEqual(puppet.do("another"), "ok")
        self.assertEqual(puppet.do("another", receives=1), "ok")
        context = self.context_of(puppet)
        self.assertEqual([cq["cq"] for cq in context["cqs"]], [1, 2, 3])
        self.assertEqual(sorted((qp["send_cq"], qp["receive_cq"]) for qp in context["qps"]), [(1, 1), (2, 2), (3, 1)])
        self.assertEqual({qp["srq"] for qp in context["qps"]}, {None})
        self.assertRegex(self.device.control("status").stdout, "no peer, send CQ 3, receive CQ 1\n")

    def test_in_words(self):
        """The text of status without --json shows the same."""
        first, second = self.pair("udp")
        second.do("receive")
        first.do("send")
        first.do("poll")
        shown = self.device.control("status").stdout
        for words in (rf"^verbena \S+, pid \d+, in {self.device.environment['VERBENA_RUNTIME_DIR']}$",
                      r"^verbena0  InfiniBand  127\.\S+ on lo  LID 1  ACTIVE  MTU \d+$",
                      r"^  GID 0  fe80:\S+  IB$", r"^  sent [1-9]\d* packets, .*; received [1-9]\d* packets, .*$",
                      rf"^  pid {first.process.pid} \(puppet\), slot \d+: 1 QP, 1 CQ, 1 MR, 1 PD, 0 SRQ$",
                      rf"^    QP 0x{first.qpn:06x} RC   RTS   -> 127\.\S+ 0x{second.qpn:06x} by udp, CQ 1$",
                      r"^    CQ 1: \d+ of 20000 completions not polled$",
                      r"^       sent \d+ packets, [1-9]\d* B; received \d+, .*; repeated \d+; outstanding 0/0$"):
            self.assertRegex(shown, re.compile(words, re.MULTILINE))


class Sysfs(PuppetCase):
    options = ("--roce", ROCE, "--device", "roce_0", "--device", "ib_0")

    def read(self, path):
        done = self.device.run(["cat", "/sys/class/" + path])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.rstrip("\n")

    def test_a_device(self):
        for device in self.status()["devices"]:
            at = "infiniband/" + device["name"]
            node = device["chardev"]
            guid = device["node_guid"][2:]
            guid = ":".join(guid[i:i + 4] for i in range(0, 16, 4))
            verbs = "infiniband_verbs/" + node
            for file, wanted in (("node_type", "1: CA"), ("node_guid", guid), ("sys_image_guid", guid), ("hw_rev", "1"),
                                 ("fw_ver", self.status()["version"]), ("hca_type", "Verbena"), ("board_id", "VERBENA0000"),
                                 ("device/vendor", "0x5652"), ("device/device", "0x0001"), ("device/numa_node", "-1"),
                                 ("device/local_cpulist", f"0-{os.cpu_count() - 1}")):
                self.assertEqual(self.read(f"{at}/{file}"), wanted, file)
            self.assertIn(device["name"], self.read(f"{at}/node_desc"))
            mask = int(self.read(f"{at}/device/local_cpus").replace(",", ""), 16)
            self.assertEqual(mask, (1 << os.cpu_count()) - 1)
            self.assertEqual(self.read(f"{verbs}/ibdev"), device["name"])
            self.assertEqual(self.read(f"{verbs}/abi_version"), "1")
            number = self.device.run(["stat", "-c", "%Hr:%Lr", "/dev/infiniband/" + node]).stdout.strip()
            self.assertEqual(self.read(f"{verbs}/dev"), number)

    def test_a_port(self):
        for device in self.status()["devices"]:
            port, at = device["ports"][0], f"infiniband/{device['name']}/ports/1"
            is_roce = device["persona"] == "RoCE"
            for file, wanted in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "100 Gb/sec (4X EDR)"),
                                 ("link_layer", "Ethernet" if is_roce else "InfiniBand"), ("lid", f"0x{port['lid']:x}"),
                                 ("lid_mask_count", "0"), ("sm_sl", "0"), ("pkeys/0", "0xffff")):
                self.assertEqual(self.read(f"{at}/{file}"), wanted, file)
            rows = port["gid_table"]
            self.assertEqual([row["index"] for row in rows], [0, 1, 2, 3] if is_roce else [0])
            self.assertEqual({row["gid"] for row in rows}, set(port["gids"]))
            for row in rows:
                self.assertEqual(self.read(f"{at}/gids/{row['index']}"), row["gid"])
                is_v2 = is_roce and row["index"] % 2 == 1
                self.assertEqual(row["type"], "RoCE v2" if is_v2 else "RoCE v1" if is_roce else "IB")
                self.assertEqual(self.read(f"{at}/gid_attrs/types/{row['index']}"), "RoCE v2" if is_v2 else "IB/RoCE v1")
                if is_roce:
                    self.assertEqual(self.read(f"{at}/gid_attrs/ndevs/{row['index']}"), "lo")
            # The files agree with ibv_query_port.
            info = self.device.run(["ibv_devinfo", "-v", "-d", device["name"]]).stdout
            self.assertEqual(int(self.read(f"{at}/cap_mask"), 16), int(re.search(r"port_cap_flags:\s+0x(\w+)", info)[1], 16))
            self.assertEqual(int(self.read(f"{at}/sm_lid"), 16), int(re.search(r"sm_lid:\s+(\d+)", info)[1]))

    def test_beside_the_devices(self):
        for file, wanted in (("infiniband_verbs/abi_version", "6"), ("infiniband_mad/abi_version", "5"),
                             ("misc/rdma_cm/abi_version", "4")):
            self.assertEqual(self.read(file), wanted)
        self.assertRegex(self.read("misc/rdma_cm/dev"), r"^\d+:\d+$")
        nodes = set(self.device.run(["ls", "/dev/infiniband"]).stdout.split())
        self.assertLessEqual({"rdma_cm", *(device["chardev"] for device in self.status()["devices"])}, nodes)


if __name__ == "__main__":
    puppets.PREFIX, puppets.PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
