# SPDX-License-Identifier: BSD-2-Clause
"""What rules let happen once, at a time after a program has opened the device.

    rule_events_test.py BUILD EXCHANGE MESSAGES STEPS [CASE ...]
"""

import pathlib
import subprocess

import ruling
from ruling import Case, devices


class Events(Case):
    """What happens once, at a time after a program has opened the device."""

    def start(self, role):
        """A program that waits for its peer's address, with the device open."""
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

    def test_a_program_is_stopped_and_goes_on(self):
        program = self.start("one")
        done = self.device.control("fault", "--inject", "stop program=one")
        # It may stop before it can say that the rule is in force.
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

    def test_what_was_taken_away_does_not_happen(self):
        program = self.start("one")
        self.inject("kill program=one after=1s")
        self.fault("--clear")
        self.inject("stop program=one after=2s")
        self.until(lambda: self.state_of(program) == "T", "it does not stop")


if __name__ == "__main__":
    ruling.main()
