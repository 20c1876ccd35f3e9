# SPDX-License-Identifier: BSD-2-Clause
"""Rules for events that happen once, at a time after a program has opened the device.

    rule_events_test.py BUILD EXCHANGE MESSAGES STEPS [CASE ...]
"""

import json
import pathlib
import subprocess
import time

import ruling
from ruling import LINKS, Case, devices


class Events(Case):
    """Events that happen once, at a time after a program has opened the device."""

    def start(self, role):
        """Starts a program that has opened the device and waits for its peer's address."""
        environment = dict(self.device.environment, VERBENA_ROLE=role)
        program = subprocess.Popen(self.device.wrap([ruling.STEPS, "server"]), env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        self.assertTrue(program.stdout.readline().startswith("address "))
        return program

    def state_of(self, program):
        return pathlib.Path(f"/proc/{program.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]

    def test_a_program_is_killed(self):
        self.inject("kill program=victim after=20ms", "kill program=nobody")
        survivor, victim = self.start("survivor"), self.start("victim")
        self.assertEqual(victim.wait(devices.LIMIT), -9)
        self.until(lambda: self.fired() == [1, 0], "it is not counted")
        self.assertIsNone(survivor.poll())
        self.assertRegex(self.device.control("status").stdout, r"rule kill .*victim.*: matched 1 processes, fired 1 times")

    def test_a_program_is_stopped_and_goes_on(self):
        program = self.start("one")
        done = self.device.control("fault", "--inject", "stop program=one")
        # The program may stop before it can say that the rule is in force.
        self.assertEqual(done.returncode, 0, done.stderr)
        if done.stderr:
            self.assertIn("1 process(es) have not answered", done.stderr)
        self.until(lambda: self.state_of(program) == "T", "it does not stop")
        self.device.control("fault", "--clear")
        self.device.control("fault", "--inject", "cont program=steps")
        self.until(lambda: self.state_of(program) != "T", "it does not go on")

    def test_a_port_goes_down_and_up(self):
        file = self.device.folder / "events.toml"
        file.write_text('[[event]]\nat = "10ms"\ndo = "port-down"\n[[event]]\nat = "40ms"\ndo = "port-up"\ndevice = "verbena0"\n',
                        encoding="utf-8")
        self.fault("--scenario", str(file))
        self.assertEqual(self.rules(), {"port-down after=10ms": (0, 0), "port-up device=verbena0 after=40ms": (0, 0)})
        self.start("one")
        self.until(lambda: self.fired() == [1, 1], "it does not happen")
        self.assertEqual(self.status()["devices"][0]["ports"][0]["state"], "ACTIVE")
        downed = self.device.run(["cat", "/sys/class/infiniband/verbena0/ports/1/counters/link_downed"])
        self.assertEqual(downed.stdout, "1\n", downed.stderr)

    def test_a_queue_pair_fails(self):
        """The queue pair fails as soon as it can send."""
        for link in LINKS:
            self.inject("raise=qp-fatal qp=client:1")
            ends = self.exchange(link, "-w", "c", "send", 2, 64)
            client = ends["client"]
            self.assertEqual((client["statuses"], client["events"], client["state"]), (["WR_FLUSH_ERR"] * 2, ["QP_FATAL"], "ERR"))
            self.assertEqual((ends["server"]["state"], self.fired()), ("RTS", [1]))
            self.inject("raise=qp-fatal qp=server:1 after=10ms")
            ends = self.exchange(link, "-w", "s", "-t", 8, "-r", 1, "send", 2, 64)
            self.assertEqual(ends["client"]["statuses"], ["RETRY_EXC_ERR", "WR_FLUSH_ERR"])
            self.assertEqual((ends["server"]["events"], ends["server"]["state"], self.fired()), (["QP_FATAL"], "ERR", [1]))

    def test_events_that_change_nothing(self):
        file = self.device.folder / "events.toml"
        for words, event in (('do = "raise=path-mig-err"\nqp = "client:1"', "PATH_MIG_ERR"),
                             ('do = "raise=client-reregister"\nprogram = "client"', "CLIENT_REREGISTER"),
                             ('do = "raise=wq-fatal"\ndevice = "verbena0"\nat = "20ms"', "WQ_FATAL")):
            with self.subTest(event=event):
                self.fault("--clear")
                file.write_text(f"[[event]]\n{words}\n", encoding="utf-8")
                self.fault("--scenario", str(file))
                ends = self.exchange("auto", "-w", "c", "send", 2, 64)
                client = ends["client"]
                self.assertEqual((client["statuses"], client["events"], client["state"]), (["SUCCESS"] * 2, [event], "RTS"))
                self.assertEqual(self.fired(), [1])

    def test_a_queue_pair_of_a_later_opening(self):
        """The rule waits beyond a program that opens the device and closes it. It is told once, when it acts."""
        self.inject("raise=qp-fatal qp=client:1")
        self.device.environment["VERBENA_ROLE"] = "client"
        self.assertEqual(self.device.run(["ibv_devinfo"]).returncode, 0)
        del self.device.environment["VERBENA_ROLE"]
        time.sleep(0.2)
        client = self.exchange("auto", "-w", "c", "send", 2, 64)["client"]
        self.assertEqual((client["events"], self.fired()), (["QP_FATAL"], [1]))
        events = map(json.loads, self.device.control("events", "--json").stdout.splitlines())
        self.assertEqual([event["matched"] for event in events if event["kind"] == "rule"], [1])

    def test_a_queue_pair_that_never_comes(self):
        self.inject("raise=qp-fatal qp=client:2")
        self.all_is_well(self.exchange("auto", "send", 2, 64), 2)
        self.assertEqual(self.fired(), [0])

    def test_the_emulator_is_killed(self):
        """A run's own emulator is killed: programs get the event, their work is flushed, and nothing is left."""
        private = pathlib.Path(self.device.environment["VERBENA_RUNTIME_DIR"])
        before = sorted(private.iterdir())
        for more, code in (((), 0), (("--require-fired",), 0), (("--require-fired", "--inject", "drop nth=1"), 3)):
            with self.subTest(more=more):
                done = self.device.control("run", "--private", "--inject", "kill program=verbenad after=100ms", *more, "--",
                                           ruling.EXCHANGE, "-w", "c", "send", "2", "64")
                self.assertEqual(done.returncode, code, done.stderr)
                client = self.ends_of(done)["client"]
                self.assertEqual((client["events"], client["state"]), (["DEVICE_FATAL"], "ERR"))
                self.assertIn("the emulator was killed, as a rule asked", done.stderr)
                self.assertEqual(sorted(private.iterdir()), before)

    def test_what_would_come_after_the_end(self):
        done = self.device.control("run", "--private", "--timeout", "5", "--inject", "kill program=a after=5s", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("'kill program=a after=5s' can never fire: --timeout ends the run before", done.stderr)

    def test_what_was_taken_away_does_not_happen(self):
        program = self.start("one")
        self.inject("kill program=one after=1s")
        self.fault("--clear")
        self.inject("stop program=one after=2s")
        self.until(lambda: self.state_of(program) == "T", "it does not stop")


if __name__ == "__main__":
    ruling.main()
