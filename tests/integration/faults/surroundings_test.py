#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Surroundings that lack something: descriptors, room on the disk, the runtime directory, a daemon of the same version.

    surroundings_test.py PREFIX STEPS [unittest arguments]
"""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from pingpong import Game, Side

PREFIX = PROGRAM = None
HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 60
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def limited(number):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


class Descriptors(unittest.TestCase):
    def test_emulator_with_256(self):
        """A program that comes when no descriptor is left is told so. Connected programs go on, and later ones get in again."""
        game = self.enterContext(Game(PREFIX, PROGRAM))
        self.addCleanup(game.clear)
        game.device.control("down")
        up = subprocess.run([game.device.verbena, "up", "--fabric", game.device.fabric], text=True,
                            env=game.device.environment, capture_output=True, timeout=LIMIT, preexec_fn=limited(256))
        self.assertEqual(up.returncode, 0, up.stderr)
        for _ in range(200):
            side = Side(game.device, [PROGRAM, "-e", "-s", "opened", "server"])
            game.sides.append(side)
            side.go_on()
            if side.step != "opened":
                break
        said = "\n".join(side.said)
        self.assertGreater(len(game.sides), 20)
        self.assertRegex(said, "(?i)verbena: .*(descriptor|too many open files)")
        first, second = game.sides[:2]
        for one in (first, second):
            one.tell()
            one.go_on()
        first.tell(second.address)
        second.tell(first.address)
        # The two programs are servers and would wait for each other. The test only needs their requests to be answered.
        game.clear()
        game.wait_until(lambda: game.device.control("status").returncode == 0, "it does not recover")
        game.wait_until(lambda: not game.contexts(), "a slot is still taken")
        self.assertEqual(game.play(["-e"]), ["ok", "ok"])

    def test_programs_with_256(self):
        with Game(PREFIX, PROGRAM) as game:
            words = ["prlimit", "--nofile=256", PROGRAM, "-e"]
            game.sides = [Side(game.device, [*words, role]) for role in ("server", "client")]
            for side in game.sides:
                side.go_on()
            for side, other in zip(game.sides, reversed(game.sides)):
                side.tell(other.address)
            for side in game.sides:
                side.go_on()
                self.assertEqual(side.end, "ok", side.said)

    def test_programs_with_none_left(self):
        """An open device has all descriptors that it needs to send and to receive."""
        for link in ("auto", "udp"):
            with self.subTest(link), Game(PREFIX, PROGRAM) as game:
                game.device.environment["VERBENA_LINK"] = link
                for side in game.bring_to("connected", ["-e"]):
                    resource.prlimit(side.pid, resource.RLIMIT_NOFILE, (8, 8))
                    side.tell()
                for side in game.sides:
                    side.go_on()
                    self.assertEqual(side.end, "ok", side.said)


class FileSize(unittest.TestCase):
    """With `ulimit -f`, failures are explained, and no process dies of SIGXFSZ."""

    def under(self, size):
        """Returns a game whose emulator may write files of this many bytes."""
        game = self.enterContext(Game(PREFIX, PROGRAM))
        game.device.control("down")
        up = subprocess.run([game.device.verbena, "up", "--fabric", game.device.fabric], text=True,
                            env=game.device.environment, capture_output=True, timeout=LIMIT,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        self.assertEqual(up.returncode, 0, up.stderr)
        return game, game.daemon_pid()

    def test_no_ring(self):
        game, emulator = self.under(64 * 1024)
        sides = game.bring_to("half", ["-e"])
        self.assertEqual([qp["link"] for context in game.contexts() for qp in context["qps"]], ["udp", "udp"])
        for side in sides:
            side.tell()
        for side in sides:
            side.go_on()
            self.assertEqual(side.end, "ok", side.said)
            self.assertRegex("\n".join(side.said), "no shared ring .*ulimit -f.*UDP carries the packets")
        self.assertEqual(game.daemon_pid(), emulator)

    def test_no_counters(self):
        game, emulator = self.under(2048)
        done = game.device.run([PROGRAM, "server"])
        self.assertIn("end refused ibv_open_device", done.stdout)
        self.assertRegex(done.stderr, "verbena: .*ibv_open_device: .*File too large; raise `ulimit -f`")
        self.assertEqual((game.device.control("status").returncode, game.daemon_pid()), (0, emulator))

    def test_no_files_at_all(self):
        with Game(PREFIX, PROGRAM) as game:
            game.device.control("down")
            up = subprocess.run(["prlimit", "--fsize=0", game.device.verbena, "up"], env=game.device.environment, text=True,
                                capture_output=True, timeout=LIMIT, check=False)
            self.assertEqual(up.returncode, 1)
            self.assertRegex(up.stderr, "^verbena: .*File too large")

    def test_capture_longer_than_a_program_may_write(self):
        """A program does not write the capture's file itself, so its own limit ends neither it nor the capture."""
        game = self.enterContext(Game(PREFIX, PROGRAM))
        for link in ("udp", "auto"):
            game.device.environment["VERBENA_LINK"] = link
            path = f"{game.device.folder}/{link}.pcapng"
            capture = subprocess.Popen([game.device.verbena, "capture", path], env=game.device.environment,
                                       stderr=subprocess.PIPE, text=True)
            self.addCleanup(capture.communicate)
            self.addCleanup(capture.terminate)
            self.assertIn("capturing", capture.stderr.readline())
            game.sides = [Side(game.device, ["prlimit", "--fsize=1000", PROGRAM, "-e", role])
                          for role in ("server", "client")]
            for side in game.sides:
                side.go_on()
            for side, other in zip(game.sides, reversed(game.sides)):
                side.tell(other.address)
            for side in game.sides:
                side.go_on()
                self.assertEqual(side.end, "ok", side.said)
            game.clear()
            capture.send_signal(signal.SIGINT)
            self.assertEqual(capture.wait(LIMIT), 0)
            read = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "infiniband.bth.destqp"], text=True,
                                  capture_output=True, timeout=LIMIT, check=False)
            self.assertEqual(read.returncode, 0, read.stderr)
            self.assertGreater(len(read.stdout.splitlines()), 20)


class LoopbackMtu(unittest.TestCase):
    """Runs in a network namespace, where a packet cannot hold all that could be sent at once."""

    def test_messages_arrive(self):
        prefix = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container may not make a network namespace")
        for mtu in (65535, 20000, 9000, 1500):
            folder = self.enterContext(tempfile.TemporaryDirectory())
            environment = {"PATH": os.environ["PATH"], "PREFIX": str(PREFIX), "VERBENA_RUNTIME_DIR": folder,
                           "VERBENA_LINK": "udp", "MTU": str(mtu)}
            script = ('ip link set lo mtu $MTU up || exit 99\n'
                      'pingpong() { "$PREFIX/bin/verbena" run -- ibv_rc_pingpong -c -s 65536 -m 1024 -n 100 "$@"; }\n'
                      '"$PREFIX/bin/verbena" up && pingpong & server=$!\n'
                      'for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; pingpong 127.0.0.1 && break; done || exit 1\n'
                      'wait $server && "$PREFIX/bin/verbena" down')
            done = subprocess.run([*prefix, "sh", "-c", script], env=environment, text=True, capture_output=True,
                                  timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("100 iters in"), 2, done.stdout)


class FullDisk(unittest.TestCase):
    """Runs in a mount namespace, with a small file system."""

    def in_small_folder(self, script):
        prefix = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container may not make a mount namespace")
        folder = self.enterContext(tempfile.TemporaryDirectory())
        environment = {"PATH": os.environ["PATH"], "PREFIX": str(PREFIX), "STEPS": PROGRAM, "D": folder,
                       "VERBENA_RUNTIME_DIR": folder + "/run"}
        head = ('mount -t tmpfs -o size=512k,mode=755 none "$D" || exit 99\n'
                'fill() { dd if=/dev/zero of="$D/fill" bs=1k 2>/dev/null; :; }\n'
                'verbena() { "$PREFIX/bin/verbena" "$@"; }\n'
                'fabric="--fabric 127.$((60 + $$ % 190)).$(($$ / 190 % 250)).0/24"\n')
        return subprocess.run([*prefix, "sh", "-c", head + script], env=environment, text=True, capture_output=True,
                              timeout=LIMIT, check=False)

    def test_start(self):
        done = self.in_small_folder('fill; verbena up $fabric && exit 1; verbena run $fabric -- true; code=$?\n'
                                    'rm "$D/fill"; verbena up $fabric && verbena down >/dev/null; exit $code')
        self.assertEqual(done.returncode, 125, done.stderr)
        complaints = done.stderr.strip().splitlines()
        self.assertEqual(len(complaints), 2, done.stderr)
        for line in complaints:
            self.assertRegex(line, "^verbena: .*No space left on device.*VERBENA_RUNTIME_DIR")
        self.assertIn("emulator up", done.stdout)

    def test_run(self):
        """A running emulator needs no more room."""
        done = self.in_small_folder(
            'verbena up $fabric >/dev/null || exit 1; fill\n'
            'verbena run -- sh -c \'set -e; cat /sys/class/infiniband/verbena0/ports/1/state\n'
            '  ibv_rc_pingpong -n 50 >/dev/null & until ibv_rc_pingpong -n 50 localhost >/dev/null 2>&1; do :; done\n'
            '  wait\' || exit 2\n'
            'verbena port verbena0 down || exit 3; verbena port verbena0 up || exit 4\n'
            'verbena status >/dev/null || exit 5\n'
            'sent=$(verbena run -- cat /sys/class/infiniband/verbena0/ports/1/counters/port_xmit_packets)\n'
            'test "$sent" -ge 100 || exit 6; verbena down >/dev/null')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "4: ACTIVE\n")


class Loss(unittest.TestCase):
    def test_runtime_directory_vanishes_under_a_pingpong(self):
        with Game(PREFIX, PROGRAM) as game:
            sides = game.bring_to("half", ["-e"])
            runtime = pathlib.Path(game.device.environment["VERBENA_RUNTIME_DIR"])
            away = runtime.rename(runtime.with_name("away"))
            for side in sides:
                side.tell()
            for side in sides:
                side.go_on()
                self.assertEqual(side.end, "ok", side.said)
            shutil.rmtree(away)
            game.wait_until((runtime / "control.sock").exists, "the directory is not made again")
            self.assertEqual(game.play(["-e"]), ["ok", "ok"])


class AnotherVersion(unittest.TestCase):
    """A daemon that speaks another version of the protocol, like one that still runs after an upgrade."""

    REFUSED, MAGIC = 1, 0x31425256

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.words = "the program uses protocol 1, this emulator 2: end it with `verbena down`"
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.server.close)
        self.server.bind(self.folder + "/control.sock")
        self.server.listen(16)
        thread = threading.Thread(target=self.refuse_all, daemon=True)
        thread.start()

    def refuse_all(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            with client:
                asked = client.recv(4096)
                sequence = struct.unpack("<I", asked[8:12])[0] if len(asked) >= 12 else 0
                text = self.words.encode()
                body = struct.pack("<iI", 71, len(text)) + text  # EPROTO
                with contextlib.suppress(OSError):  # a program may connect only to see whether a daemon is there
                    client.send(struct.pack("<IHHII", self.MAGIC, 2, self.REFUSED, sequence, len(body)) + body)

    def verbena(self, *words):
        environment = {"PATH": os.environ["PATH"], "VERBENA_RUNTIME_DIR": self.folder}
        return subprocess.run([f"{PREFIX}/bin/verbena", *words], env=environment, text=True, capture_output=True,
                              timeout=LIMIT, check=False)

    def test_commands(self):
        for words, code in ((["status"], 1), (["up"], 1), (["run", "--", "true"], 125), (["down"], 1)):
            done = self.verbena(*words)
            self.assertEqual(done.returncode, code, words)
            self.assertEqual(done.stderr, f"verbena: {self.words}\n")
        self.assertIn(self.words, self.verbena("doctor").stdout)

    def test_programs(self):
        """Programs find no device, and do not wait long."""
        environment = dict(os.environ, VERBENA_RUNTIME_DIR=self.folder, VERBENA_LOG="explain",
                           LD_PRELOAD=f"{PREFIX}/lib/libverbena-preload.so", RDMAV_DRIVERS=f"{PREFIX}/lib/libverbena")
        done = subprocess.run(["ibv_devices"], env=environment, text=True, capture_output=True, timeout=LIMIT,
                              check=False)
        self.assertNotIn("verbena0", done.stdout)
        self.assertIn(self.words, done.stderr)


class LinkedInto(unittest.TestCase):
    """A program that the plugin cannot reach ends as on a machine without an adapter: soon, and with ENODEV."""

    def build(self, *options):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = folder + "/steps"
        subprocess.run(["cc", "-O1", "-o", program, HERE / "steps.c", HERE / "steps_setup.c", *options], check=True,
                       capture_output=True)
        return program

    def test_a_static_libibverbs_has_no_loader_of_plugins(self):
        program = self.build("-Wl,-Bstatic", "-libverbs", "-Wl,-Bdynamic", "-lnl-route-3", "-lnl-3", "-lpthread")
        with Game(PREFIX, program) as game:
            done = game.device.run([program, "server"])
            self.assertEqual((done.returncode, done.stdout), (0, "end refused ibv_get_device_list 19\n"))


@unittest.skipIf(os.geteuid() != 0, "needs root, to become somebody else")
class Users(unittest.TestCase):
    def test_root_and_nobody_at_once(self):
        """Each user has an emulator, and both use a copy of the product that they can read."""
        shared = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(shared, 0o755)
        for part in ("bin/verbena", "bin/verbenad", *(f"lib/{p.name}" for p in pathlib.Path(PREFIX, "lib").glob("*.so"))):
            place = pathlib.Path(shared, part)
            place.parent.mkdir(exist_ok=True)
            shutil.copy(pathlib.Path(PREFIX, part), place)
        program = shutil.copy(PROGRAM, shared)
        ours = self.enterContext(Game(shared, program))
        theirs = Game(shared, program)
        theirs.device.as_user(NOBODY)
        self.enterContext(theirs)
        self.assertNotEqual(ours.daemon_pid(), theirs.daemon_pid())
        self.assertEqual(pathlib.Path(f"/proc/{theirs.daemon_pid()}").stat().st_uid, 65534)
        held = ours.bring_to("half", ["-e"])
        self.assertEqual(theirs.play(["-e"]), ["ok", "ok"])
        self.assertEqual(len(ours.contexts()), 2)
        self.assertEqual(len(theirs.contexts()), 0)
        for side in held:
            side.tell()
        for side in held:
            side.go_on()
            self.assertEqual(side.end, "ok", side.said)


if __name__ == "__main__":
    PREFIX, PROGRAM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
