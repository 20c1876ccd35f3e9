# SPDX-License-Identifier: BSD-2-Clause
"""What each command prints with --json, when it succeeds and when it fails, agrees with commands.schema.json."""

import json
import os
import signal
import socket
import subprocess

import control_client as cc
import json_schema
from diagnosing import DoctorCase
from emulator_case import EmulatorCase

SCHEMA = json_schema.load("commands")
NONE_RUNS = "no emulator is running; start one with: verbena up"


class Asking(EmulatorCase):
    def checked(self, done, code, command):
        """Returns the one JSON object of a command that has ended."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        answer = json.loads(done.stdout)
        self.assertEqual(json_schema.wrong(answer, SCHEMA), [], answer)
        self.assertEqual(answer.pop("command"), command)
        return answer

    def ask(self, command, *words, code=0):
        return self.checked(self.verbena(command, *words, "--json"), code, command)

    def refused(self, command, *words, code=1, why):
        """Asserts that the command fails as it does without --json, and gives the same reason."""
        plain = self.verbena(command, *words)
        self.assertEqual((plain.returncode, plain.stdout), (code, ""))
        done = self.verbena(command, *words, "--json")
        answer = self.checked(done, code, command)
        self.assertEqual(done.stderr, f"verbena: {answer.pop('error')}\n")
        self.assertEqual((answer, done.stderr), ({"exit_code": code}, plain.stderr))
        self.assertIn(why, done.stderr)


class Answers(Asking):
    def test_up(self):
        answer = self.ask("up", "--fabric", self.fabric)
        device = {"name": "verbena0", "persona": "InfiniBand", "address": self.address, "interface": "lo", "lid": 1}
        self.assertEqual(answer, {"started": True, "pid": self.daemon_pid(), "devices": [device]})
        self.assertEqual(self.ask("up"), answer | {"started": False})
        self.refused("up", "--device", "other", why="an emulator with other devices is running")

    def refused_with_json(self, *words, why):
        answer = self.ask(*words, code=2)
        self.assertIn(why, answer.pop("error"))
        self.assertEqual(answer, {"exit_code": 2})

    def test_up_with_roce(self):
        device = {"name": "rocky", "persona": "RoCE", "address": self.address, "interface": "lo", "lid": 0}
        self.assertEqual(self.ask("up", "--roce", self.address, "--device", "rocky")["devices"], [device])

    def test_up_that_fails(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind((self.address, 4791))
            self.refused("up", "--roce", self.address, why=f"UDP port 4791 of {self.address} is taken")
        self.refused_with_json("up", "--foreground", why="leave out --json")
        self.refused("up", "--private", "a/b", code=2, why="is no name of a private emulator")
        self.until(lambda: self.daemon_pid() is None, "one has started")

    def test_private(self):
        self.assertTrue(self.ask("up", "--private", "mine", "--fabric", self.fabric)["started"])
        self.refused("up", "--private", "mine", code=2, why="is running already")
        self.assertTrue(self.ask("env", "--private", "mine")["running"])
        self.assertEqual(self.ask("port", "verbena0", "down", "--private", "mine")["change"], "down")
        self.assertEqual(self.ask("down", "--private", "mine"), {"ended": True})
        self.refused("fault", "--clear", "--private", "mine", why="no private emulator mine is running")

    def test_down(self):
        self.assertEqual(self.ask("down"), {"ended": False})
        self.up()
        self.assertEqual(self.ask("down"), {"ended": True})
        os.chmod(self.dir, 0o755)
        self.refused("down", why="is open to other users")
        os.chmod(self.dir, 0o700)

    def test_env(self):
        plain = subprocess.run(["sh", "-c", 'eval "$1"; env', "sh", self.verbena("env").stdout], env={}, text=True,
                               capture_output=True, check=True).stdout.splitlines()
        answer = self.ask("env")
        self.assertFalse(answer["running"])
        self.assertLessEqual({f"{name}={value}" for name, value in answer["variables"].items()}, set(plain))
        self.assertEqual(answer["variables"]["VERBENA_RUNTIME_DIR"], self.dir)
        self.up()
        self.assertTrue(self.ask("env")["running"])
        self.refused_with_json("env", "--shell", "fish", why="--shell excludes --json")
        os.remove(self.home + "/lib/libverbena-preload.so")
        self.refused("env", why="libverbena-preload.so")

    def test_port(self):
        self.refused("port", "verbena0", "down", why=NONE_RUNS)
        self.up()
        for change in ("down", "up", "lid-change", "gid-change", "pkey-change", "sm-change"):
            self.assertEqual(self.ask("port", "verbena0", change), {"device": "verbena0", "change": change})
        self.refused("port", "other", "down", why="other")
        self.refused("port", "verbena0", "sideways", code=2, why="sideways")

    def test_event(self):
        self.refused("event", "verbena0", "wq-fatal", why=NONE_RUNS)
        self.up()
        self.refused("event", "verbena0", "wq-fatal", why="no program has verbena0 open")
        with cc.Client(self.dir).open_device():
            for event in ("client-reregister", "wq-fatal"):
                self.assertEqual(self.ask("event", "verbena0", event), {"device": "verbena0", "event": event})
        self.refused("event", "verbena0", "qp-fatal", code=2, why="name it with --qp")
        self.refused("event", "verbena0", "qp-fatal", "--qp", "0x4001", why="0x004001")

    def test_event_of_a_queue_pair_whose_program_is_stopped(self):
        self.up()
        with cc.Client(self.dir).open_device() as stopped:
            qpn = f"{stopped.slot << 14 | 1:#x}"
            self.refused("event", "verbena0", "qp-fatal", "--qp", qpn, why=f"test (pid {os.getpid()}) does not answer")
            self.assertEqual(stopped.receive()[0], cc.RAISE_EVENT)

    def test_fault(self):
        self.refused("fault", "--loss", "1%", why=NONE_RUNS)
        self.up()
        none = {"count": 0, "programs": []}
        seed = self.ask("fault", "--loss", "1%")["seed"]
        self.assertEqual(self.ask("fault", "--delay", "1ms"), {"seed": seed, "silent": none})
        self.assertEqual(self.ask("fault", "--inject", "drop percent=5", "--seed", "7")["seed"], 7)
        self.assertIsNone(self.ask("fault", "--inject", "drop nth=3")["seed"])
        self.assertEqual(self.ask("fault", "--clear"), {"seed": None, "silent": none})
        self.refused("fault", code=2, why="name a fault")
        self.refused("fault", "--inject", "drop colour=red", code=2, why="colour")
        self.refused("fault", "--loss", "1%", "--device", "other", why="other")

    def test_fault_of_which_a_program_does_not_say_that_it_is_in_force(self):
        self.up()
        with cc.Client(self.dir).open_device():
            silent = self.ask("fault", "--loss", "1%")["silent"]
        self.assertEqual(silent["count"], 1)
        self.assertEqual(silent["programs"][0]["pid"], os.getpid())

    def test_capture(self):
        path = self.home + "/packets.pcapng"
        self.refused("capture", path, why=NONE_RUNS)
        self.up()
        with subprocess.Popen([self.home + "/bin/verbena", "capture", path, "--json"], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as capture:
            self.assertIn("capturing", capture.stderr.readline())
            capture.send_signal(signal.SIGINT)
            said, _ = capture.communicate(timeout=60)
        done = subprocess.CompletedProcess([], capture.returncode, said, "")
        self.assertEqual(self.checked(done, 0, "capture"), {"file": path, "packets": 0, "left_out": 0})
        self.refused("capture", "/nowhere/file", why="cannot write /nowhere/file")
        self.refused_with_json("capture", "-", why="would be mixed")

    def test_capture_into_a_full_disk(self):
        self.up()
        answer = self.ask("capture", "/dev/full", code=1)
        self.assertEqual(answer, {"file": "/dev/full", "packets": 0, "left_out": None, "exit_code": 1,
                                  "error": "cannot write /dev/full: No space left on device"})

    def test_status_and_events(self):
        for command in ("status", "events"):
            self.refused(command, why=NONE_RUNS)
            self.refused(command, "--no-such-option", code=2, why="--no-such-option")

    def test_events_of_an_emulator_that_is_killed(self):
        """The last line is an answer with the error."""
        self.up()
        with subprocess.Popen([self.home + "/bin/verbena", "events", "--follow", "--json"], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as events:
            self.assertEqual(json.loads(events.stdout.readline())["kind"], "emulator_up")
            os.kill(self.daemon_pid(), signal.SIGKILL)
            last = events.communicate(timeout=60)[0].splitlines(keepends=True)[-1]
        done = subprocess.CompletedProcess([], events.returncode, last, "")
        self.assertIn("without a word", self.checked(done, 1, "events")["error"])

    def test_version(self):
        for words in (["version"], ["--version"]):
            answer = self.checked(self.verbena(*words, "--json"), 0, "version")
            self.assertEqual(f"verbena {answer['version']}\n", self.verbena(*words).stdout)
        self.refused("version", "--colour", code=2, why="--colour")

    def test_what_is_no_command(self):
        done = self.verbena("dawn", "--json")
        self.assertIn("did you mean down?", self.checked(done, 2, None)["error"])

    def test_words_of_a_program_ask_for_nothing(self):
        done = self.verbena("run", "--fabric", "x", "echo", "--json")
        self.assertEqual((done.returncode, done.stdout), (125, ""))


class Diagnoses(DoctorCase, Asking):
    def test_doctor(self):
        plain = self.doctor()
        self.assertEqual(plain.returncode, 0, plain.stdout)
        answer = self.ask("doctor", "--fabric", self.fabric)
        self.assertEqual(answer["faults"], 0)
        self.assertEqual(self.in_words(answer["findings"]) + ["all in place"], plain.stdout.splitlines())

    def test_doctor_that_finds_a_fault(self):
        os.remove(self.home + "/bin/verbenad")
        plain = self.doctor()
        answer = self.ask("doctor", "--fabric", self.fabric, code=1)
        self.assertEqual(answer["faults"], 1)
        self.assertEqual(self.in_words(answer["findings"]) + ["1 fault(s)"], plain.stdout.splitlines())
        self.refused("doctor", "--colour", code=2, why="--colour")

    def in_words(self, findings):
        lines = []
        for found in findings:
            word = {"ok": "ok", "hint": "hint", "fault": "FAULT"}[found["verdict"]]
            lines.append(f"{word:7}{found['text']}")
            lines += [] if found["remedy"] is None else ["       " + found["remedy"]]
        return lines
