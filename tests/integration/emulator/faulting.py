# SPDX-License-Identifier: BSD-2-Clause
"""`verbena fault` and the emulator: what it sets, what a change keeps, and which queue pairs it is for."""

import json
import os
import re
import struct
import subprocess

import control_client as cc
from emulator_case import EmulatorCase


class Faults(EmulatorCase):
    def fault(self, *words):
        done = self.verbena("fault", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def faults(self):
        return {(f["qpn"], f["traffic"]): f for f in self.status()["devices"][0]["faults"]}

    def told(self, client):
        """Returns what a context is told: the faults (queue pair number, loss, delay, seed), and the ticket."""
        _, _, body = client.next_unasked(cc.SET_FAULT)
        name, count = struct.unpack("<I8sI", body[:16])[1:]
        self.assertEqual(name, b"verbena0")
        faults = [struct.unpack_from("<IIQ4I4Q?", body, 16 + 65 * i) for i in range(count)]
        ticket, rules = struct.unpack("<II", body[16 + 65 * count:])
        self.assertEqual(rules, 0)
        return [(f[0], f[3], f[7], f[10]) for f in faults], ticket

    def begin(self, *words):
        """Starts `verbena fault` and does not wait for its end."""
        command = subprocess.Popen([self.home + "/bin/verbena", "fault", *words], env=self.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (command.kill(), command.communicate()))
        return command

    def confirmed(self, client, *words):
        """Runs `verbena fault`, with a context that puts it in force. Returns its exit code and output, and what the
        context got."""
        command = self.begin(*words)
        told, ticket = self.told(client)
        self.assertIsNone(command.poll())
        client.send(cc.FAULTS_IN_FORCE, struct.pack("<I", ticket))
        said, complaint = command.communicate(timeout=30)
        self.assertEqual((command.returncode, complaint), (0, ""))
        return said, told

    def test_faults_reach_their_contexts(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            said, told = self.confirmed(client, "--loss", "1%", "--delay", "2ms")
            seed = int(re.fullmatch(r"seed (\d+); .* --seed \1\n", said)[1])
            self.assertEqual(told, [(0, 10000, 2_000_000, seed), (1, 10000, 2_000_000, seed)])
            self.assertEqual(self.faults()["all", "data"]["seed"], seed)
            self.assertEqual(self.confirmed(client, "--clear"), ("", []))
            self.assertEqual(self.faults(), {})
            for wrong in (["--loss", "much"], ["--loss", "0.0000001%"], [],
                          ["--clear", "--loss", "1%"], ["--qp", "1", "--loss", "1%"],
                          ["--qp", "0x4001", "--cm", "--loss", "1%"], ["--seed", "-1", "--loss", "1%"]):
                done = self.verbena("fault", *wrong)
                self.assertEqual(done.returncode, 2, wrong)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_second_fault_leaves_the_first(self):
        self.up()
        self.assertEqual(self.fault("--loss", "10%", "--seed", "7"), "")
        self.fault("--delay", "1ms", "--data")
        data, cm = self.faults()["all", "data"], self.faults()["0x000001", "cm"]
        self.assertEqual((data["loss_ppm"], data["delay_ns"], data["seed"]), (100_000, 1_000_000, 7))
        self.assertEqual((cm["loss_ppm"], cm["delay_ns"], cm["seed"]), (100_000, 0, 7))
        self.fault("--loss", "0%", "--data")
        self.assertEqual((self.faults()["all", "data"]["loss_ppm"], len(self.faults())), (0, 2))
        self.fault("--delay", "0", "--seed", "8")
        self.assertEqual(list(self.faults()), [("0x000001", "cm")])
        self.assertEqual(self.faults()["0x000001", "cm"]["seed"], 8)
        self.fault("--clear", "--data")
        self.assertEqual(len(self.faults()), 1)
        self.fault("--loss", "0%")
        self.assertEqual(self.faults(), {})
        done = self.verbena("fault", "--seed", "9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no fault is set that this seed could be for", done.stderr)

    def seed_said(self, *words):
        """Returns the seed that `verbena fault` prints, which must be that of its JSON answer, or None."""
        said = self.fault(*words)
        in_json = json.loads(self.verbena("fault", "--json", *words).stdout)["seed"]
        seed = int(re.fullmatch(r"seed (\d+); .* --seed \1\n", said)[1]) if said else None
        self.assertEqual(in_json, seed)
        return seed

    def test_one_seed_repeats_all_faults(self):
        """A fault that is added later has the seed that is printed, which is the one in force."""
        self.up()
        seed = self.seed_said("--loss", "1%", "--cm")
        self.assertEqual(self.seed_said("--loss", "10%"), seed)
        self.assertEqual({fault["seed"] for fault in self.faults().values()}, {seed})
        self.assertEqual(self.seed_said("--inject", "drop percent=10"), seed)
        self.fault("--loss", "2%", "--data", "--seed", "7")
        self.assertIsNone(self.seed_said("--loss", "3%"), "two seeds are in force")
        self.assertEqual({fault["seed"] for fault in self.faults().values()}, {seed, 7})

    def test_a_seed_for_one_fault(self):
        """`--seed` alone is for all faults and rules, and with --cm, --qp or --device for the fault that these name."""
        self.up("--device", "m1", "--device", "m2")
        self.fault("--loss", "1%", "--seed", "7", "--inject", "drop percent=10")
        for words in (["--cm"], ["--data"], ["--device", "m1"]):
            self.fault(*words, "--seed", "8")
            self.assertEqual([rule["seed"] for rule in self.status()["rules"]], [7], words)
        self.fault("--seed", "9")
        status = self.status()
        self.assertEqual([rule["seed"] for rule in status["rules"]], [9])
        self.assertEqual({fault["seed"] for device in status["devices"] for fault in device["faults"]}, {9})

    def test_a_fault_beside_a_rule(self):
        """The options that say which packets meet a fault are about the fault, and not about the rule beside it."""
        self.up("--device", "m1", "--device", "m2")
        self.fault("--device", "m1", "--data", "--loss", "1%", "--seed", "7", "--inject", "drop nth=9")
        status = self.status()
        self.assertEqual([[(fault["traffic"], fault["loss_ppm"]) for fault in device["faults"]] for device in status["devices"]],
                         [[("data", 10_000)], []])
        self.assertEqual([rule["rule"] for rule in status["rules"]], ["drop nth=9"])
        for words in (["--data"], ["--cm"], ["--device", "m1"], ["--qp", "0x4001"], ["--data", "--seed", "7"]):
            done = self.verbena("fault", *words, "--inject", "drop nth=9")
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("a rule says itself whom it is about", done.stderr)

    def test_what_is_set_is_shown(self):
        self.up()
        self.fault("--duplicate", "200ppm", "--reorder", "0.01", "--corrupt", "1%", "--jitter", "50us", "--rate", "1Gbit",
                   "--data", "--seed", "5")
        fault = self.faults()["all", "data"]
        self.assertEqual([fault[name] for name in ("duplicate_ppm", "reorder_ppm", "corrupt_ppm", "jitter_ns",
                                                   "rate_bytes_per_second", "seed", "ended")],
                         [200, 10_000, 10_000, 50_000, 125_000_000, 5, False])
        self.assertIn("fault on all queue pairs: duplicate 0.02% reorder 1% corrupt 1% jitter 50us rate 125.0 MB/s, seed 5\n"
                      "    of 0 packets none\n", self.verbena("status").stdout)

    def ask_for(self, client, found, *words):
        """Starts `verbena fault --qp`, and lets the context say whether it has that queue pair."""
        command = self.begin(*words)
        _, _, body = client.next_unasked(cc.FIND_QUEUE_PAIR)
        ticket, number = struct.unpack("<II", body)
        client.send(cc.QUEUE_PAIR_FOUND, struct.pack("<IB", ticket, found))
        told = None
        if found:
            told, ticket = self.told(client)
            client.send(cc.FAULTS_IN_FORCE, struct.pack("<I", ticket))
        _, said = command.communicate(timeout=30)
        return number, command.returncode, said, told

    def test_it_ends_when_every_program_has_it_in_force(self):
        self.up()
        with cc.Client(self.dir).open_device() as first, cc.Client(self.dir).open_device() as second:
            command = self.begin("--loss", "1%", "--seed", "1")
            first.send(cc.FAULTS_IN_FORCE, struct.pack("<I", self.told(first)[1]))
            ticket = self.told(second)[1]
            second.send(cc.FAULTS_IN_FORCE, struct.pack("<I", ticket - 1))  # the ticket of an earlier change
            second.call(cc.EXTRA_SLOT)
            self.assertIsNone(command.poll())
            # The second context confirms only the later of two changes.
            later = self.begin("--loss", "2%", "--seed", "1")
            first.send(cc.FAULTS_IN_FORCE, struct.pack("<I", self.told(first)[1]))
            second.send(cc.FAULTS_IN_FORCE, struct.pack("<I", self.told(second)[1]))
            for one in (command, later):
                self.assertEqual((one.communicate(timeout=30), one.returncode), (("", ""), 0))

    def test_a_program_that_ends_is_not_waited_for(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            command = self.begin("--loss", "1%", "--seed", "1")
            self.told(client)
        self.assertEqual((command.communicate(timeout=30), command.returncode), (("", ""), 0))

    def test_a_program_that_stands_still_is_named(self):
        self.up()
        with cc.Client(self.dir).open_device(), cc.Client(self.dir).open_device():
            done = self.verbena("fault", "--loss", "1%", "--seed", "1")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, rf"^verbena: set, but 1 process.* until they go on: {os.getpid()} \(test\)\n$")
        self.assertEqual(self.faults()["all", "data"]["loss_ppm"], 10_000)

    def test_a_fault_of_one_queue_pair(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            qpn = client.slot << 14 | 5
            self.confirmed(client, "--loss", "10%", "--delay", "1ms", "--data", "--seed", "3")
            done = self.verbena("fault", "--qp", str(1000 << 14), "--loss", "1%")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"there is no queue pair 0x{1000 << 14:06x}", done.stderr)
            number, code, said, _ = self.ask_for(client, False, "--qp", hex(qpn), "--loss", "1%")
            self.assertEqual((number, code), (qpn, 1))
            self.assertIn(f"there is no queue pair 0x{qpn:06x}", said)
            _, code, _, told = self.ask_for(client, True, "--qp", hex(qpn), "--loss", "0%")
            # A fault of a queue pair takes what it does not name from the fault of all queue pairs.
            self.assertEqual((code, told), (0, [(0, 100_000, 1_000_000, 3), (qpn, 0, 1_000_000, 3)]))
            self.assertEqual(self.confirmed(client, "--clear", "--qp", hex(qpn))[1], [(0, 100_000, 1_000_000, 3)])
            self.ask_for(client, True, "--qp", hex(qpn), "--corrupt", "5%")
        self.until(lambda: self.faults()[f"0x{qpn:06x}", "data"]["ended"], "its program has ended")
        with cc.Client(self.dir).open_device() as client:
            self.assertEqual([fault[0] for fault in self.confirmed(client, "--reorder", "1%")[1]], [0, 1])
        self.assertIn("its queue pair is gone", self.verbena("status").stdout)
        # This client does not answer.
        with cc.Client(self.dir).open_device() as client:
            done = self.verbena("fault", "--qp", hex(client.slot << 14 | 5), "--loss", "1%")
            self.assertEqual(done.returncode, 1)
            self.assertIn("does not answer", done.stderr)
