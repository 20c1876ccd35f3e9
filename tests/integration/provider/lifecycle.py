#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What happens to a context, its events and its peers when processes fork, end, sleep or lose their daemon.

    lifecycle.py PREFIX CLIENT [GROUP]
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import device as devices

PREFIX = CLIENT = None
LIMIT = 60.0


class ProviderCase(unittest.TestCase):
    def setUp(self):
        self.device = devices.Emulator(PREFIX)
        self.device.__enter__()
        self.addCleanup(self.device.__exit__)
        self.children = []
        self.addCleanup(self.end_children)

    def end_children(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            if not child.stdout.closed:
                child.communicate()

    def run_case(self, name):
        done = self.device.run([CLIENT, name])
        self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")
        return done.stderr

    def start(self, name):
        child = self.device.start([CLIENT, name], stdin=subprocess.PIPE)
        self.children.append(child)
        return child

    def expect_line(self, child, word):
        line = child.stdout.readline().strip()
        self.assertTrue(line.startswith(word), f"expected '{word}', got: {line}{self.rest(child, line)}")
        return line

    def rest(self, child, line):
        return child.communicate(timeout=LIMIT)[0] if not line else ""

    def tell(self, child, text):
        child.stdin.write(text + "\n")
        child.stdin.flush()

    def connect(self, one, other):
        addresses = [child.stdout.readline() for child in (one, other)]
        self.assertTrue(all(addresses), "a side did not start")
        self.tell(one, addresses[1])
        self.tell(other, addresses[0])
        for child in (one, other):
            self.expect_line(child, "connected")

    def until(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def peak_memory(self, pid):
        """Returns the process's peak memory in KiB."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    def contexts(self):
        done = self.device.control("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.count('"slot"')


class Events(ProviderCase):
    def test_a_channel_tells_once_for_each_arming(self):
        self.run_case("channel_events")

    def test_solicited_arming_sleeps_through_ordinary_messages(self):
        self.run_case("solicited_events")

    def test_unread_events_go_with_their_queue(self):
        self.run_case("unread_events")

    def test_destroying_waits_for_acknowledgements(self):
        self.run_case("unacknowledged_events")

    def test_what_is_in_use_is_busy(self):
        self.run_case("busy_objects")


class Ends(ProviderCase):
    def test_a_process_that_ends_after_its_last_completion_has_acknowledged_it(self):
        for _ in range(5):
            receiver, sender = self.start("receive_one_and_exit"), self.start("send_one")
            self.connect(receiver, sender)
            self.tell(receiver, "1")
            self.tell(sender, "1")
            self.expect_line(sender, "status 0")
            self.assertEqual(receiver.wait(LIMIT), 0)

    def test_a_killed_peer_ends_in_the_retry_limit(self):
        receiver, sender = self.start("wait_connected"), self.start("send_one")
        self.connect(receiver, sender)
        receiver.kill()
        receiver.wait()
        self.tell(sender, "1")
        line = sender.stdout.readline()
        while line.startswith("verbena:"):
            line = sender.stdout.readline()
        self.assertEqual(line.strip(), "status 12")

    def test_the_daemon_killed_is_a_fatal_event_and_nothing_hangs(self):
        client = self.start("lose_daemon")
        self.expect_line(client, "ready")
        lock = pathlib.Path(self.device.environment["VERBENA_RUNTIME_DIR"], "daemon.lock")
        os.kill(int(lock.read_text()), signal.SIGKILL)
        text, _ = client.communicate(timeout=LIMIT)
        self.assertEqual(client.returncode, 0, text)
        self.assertIn("IBV_EVENT_DEVICE_FATAL", text)

    def test_an_emulator_comes_back_while_a_dead_device_is_open(self):
        client = self.start("outlive_daemon")
        self.expect_line(client, "ready")
        lock = pathlib.Path(self.device.environment["VERBENA_RUNTIME_DIR"], "daemon.lock")
        os.kill(int(lock.read_text()), signal.SIGKILL)
        line = client.stdout.readline()
        while line.startswith("verbena:"):
            line = client.stdout.readline()
        self.assertEqual(line, "lost\n")
        up = self.device.control("up", "--fabric", self.device.fabric)
        self.assertEqual(up.returncode, 0, up.stderr)
        self.tell(client, "1")
        text, _ = client.communicate(timeout=LIMIT)
        self.assertEqual((client.returncode, text), (0, "works\n"))

    def test_another_emulators_device_is_not_taken_for_the_last_ones(self):
        client = self.start("list_again")
        self.expect_line(client, "verbena0")
        self.device.control("down")
        up = self.device.control("up", "--fabric", self.device.fabric, "--device", "other")
        self.assertEqual(up.returncode, 0, up.stderr)
        self.tell(client, "")
        self.expect_line(client, "other")

    def test_a_forked_child_harms_nobody(self):
        said = self.run_case("fork_and_go_on")
        self.assertIn("ibv_alloc_pd: the parent of this process has opened the device", said)
        self.assertNotIn("the emulator is gone", said)

    def test_a_child_closes_its_copy_beside_the_parents_busy_threads(self):
        self.run_case("fork_beside_busy_threads")

    def test_a_child_closes_its_copy_beside_an_exchange(self):
        self.assertNotIn("was dropped", self.run_case("fork_beside_an_exchange"))

    def test_a_child_closes_its_copy_beside_a_blocked_reader(self):
        self.run_case("fork_beside_a_blocked_reader")

    def test_a_program_ends_with_its_last_thread(self):
        done = self.device.run([CLIENT, "leave_main_thread"])
        self.assertEqual((done.returncode, done.stdout), (0, "worked\nexit, SIGTERM blocked: 0\n"), done.stderr)

    def test_a_thread_is_cancelled_while_it_closes_a_device(self):
        self.run_case("cancel_a_close")

    def test_a_child_that_becomes_another_program_has_the_device_too(self):
        self.run_case("fork_and_exec")
        self.until(lambda: self.contexts() == 0, "a slot is still taken")

    def test_a_child_that_stays_does_not_hold_its_parents_slot(self):
        parent = self.start("leave_a_child")
        self.expect_line(parent, "ready")
        self.until(lambda: self.contexts() == 1, "the context is not there")
        parent.kill()
        parent.wait()
        self.until(lambda: self.contexts() == 0, "the dead parent's slot is still taken")
        parent.stdin.close()  # this ends the child
        parent.stdin = None


class Changes(ProviderCase):
    """A program that changes its own surroundings keeps its devices, as with an adapter."""

    def test_the_environment_cleared_before_the_first_verb(self):
        self.run_case("clear_environment_first")

    def test_the_environment_cleared_with_a_device_open(self):
        self.run_case("clear_environment_later")

    def test_another_network(self):
        for link in ("shm", "udp"):
            self.run_changed("change_network", link)

    def test_another_root(self):
        for link in ("shm", "udp"):
            self.expect_explained(self.run_changed("change_root", link))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become somebody else")
    def test_another_user(self):
        for link in ("shm", "udp"):
            self.expect_explained(self.run_changed("change_user", link))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become somebody else")
    def test_another_root_and_another_user(self):
        self.expect_explained(self.run_changed("change_root_and_user"))

    def run_changed(self, case, link="shm"):
        prefix = [] if os.geteuid() == 0 else ["unshare", "-Ur"]
        if subprocess.run([*prefix, "unshare", "-n", "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("this container may not make a user namespace")
        done = self.device.run([*prefix, "env", f"VERBENA_LINK={link}", CLIENT, case])
        self.assertEqual(done.returncode, 0, f"{case}, {link}: {done.stdout}{done.stderr}")
        return done.stderr

    def expect_explained(self, said):
        """One line says why no other device can be opened."""
        self.assertEqual(len(re.findall("uverbs[0-9]+ cannot be opened: .*changed its user or its root", said)), 1, said)


class Interposed(ProviderCase):
    """Libraries that stand in for functions of the C library are for the program, not for the plugin."""

    def test_the_plugin_makes_its_sockets_by_itself(self):
        for link in ("auto", "udp"):
            with self.subTest(link):
                self.device.environment["VERBENA_LINK"] = link
                self.run_case("make_sockets_unseen")


class Imports(ProviderCase):
    def test_another_process_works_with_the_memory_that_it_imported(self):
        self.run_case("give_away")
        self.until(lambda: self.contexts() == 0, "a slot is still taken")

    def test_another_process_gets_the_events_of_its_own_objects(self):
        self.run_case("give_a_device")

    def test_imported_memory_ends_with_its_process(self):
        for link in ("auto", "udp"):
            self.device.environment["VERBENA_LINK"] = link
            self.run_case("orphaned_import")

    def test_imported_memory_ends_with_the_context_that_it_was_of(self):
        self.run_case("import_of_a_closed_context")

    def test_imported_memory_ends_with_its_region(self):
        for link in ("auto", "udp"):
            self.device.environment["VERBENA_LINK"] = link
            said = self.run_case("import_of_a_deregistered_region")
            self.assertRegex(said, r"memory of the region \(0x[0-9a-f]+ to 0x[0-9a-f]+\) was taken away by ibv_dereg_mr "
                             "in the process that owns it")

    def test_imported_memory_is_what_its_owner_makes_of_the_region(self):
        self.run_case("import_of_a_changed_region")

    def test_an_importer_that_is_stopped_holds_its_owner_up_once(self):
        """A wait of three seconds for each region would exceed the time limit of this test."""
        said = self.run_case("import_by_the_stopped")
        self.assertRegex(said, r"ibv_dereg_mr: key 0x[0-9a-f]+: 1 process\(es\) that have imported this region have not "
                         r"answered and may still reach what was its memory when they go on: \d+ \(provider_client\)")

    def test_imported_memory_is_not_that_of_the_next_process_with_the_number(self):
        """The emulator and the programs run in a PID namespace, where the test can choose the next process id."""
        prefix = ["unshare", "-pf", "--mount-proc"] if os.geteuid() == 0 else ["unshare", "-Urpf", "--mount-proc"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container may not make a namespace of process numbers")
        self.device.control("down")
        for link in ("auto", "udp"):
            environment = dict(self.device.environment, VERBENA_LINK=link)
            done = subprocess.run([*prefix, self.device.verbena, "run", "--fabric", self.device.fabric, "--", CLIENT,
                                   "import_of_a_number_used_again"], env=environment, text=True, capture_output=True,
                                  timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Many(ProviderCase):
    def test_twenty_thousand_queue_pairs(self):
        self.run_case("many_queue_pairs")

    def test_status_of_a_hundred_thousand_queue_pairs(self):
        """Neither emulator, program nor command holds all queue pairs in memory at once, and others go on meanwhile."""
        client = self.start("hundred_thousand_queue_pairs")
        self.expect_line(client, "ready")
        lock = pathlib.Path(self.device.environment["VERBENA_RUNTIME_DIR"], "daemon.lock")
        pids = [int(lock.read_text()), client.pid]
        before = [self.peak_memory(pid) for pid in pids]
        # The limit is on data. AddressSanitizer needs more itself and does not return freed memory, so there is no
        # limit then.
        memory_tells = "LD_PRELOAD" not in self.device.environment
        limit = ["prlimit", f"--data={24 << 20}"] if memory_tells else []
        for words in (["status"], ["status", "--json"]):
            command = subprocess.Popen([*limit, self.device.verbena, *words], env=self.device.environment, text=True,
                                       stdout=subprocess.PIPE)
            first = command.stdout.readline()
            # The command asks for the rest as it is read, so this command comes in between.
            self.assertEqual(self.device.control("fault", "--clear").returncode, 0)
            text = first + command.stdout.read()
            command.stdout.close()
            self.assertEqual(command.wait(LIMIT), 0, words)
            if words[1:]:
                context = json.loads(text)["devices"][0]["contexts"][0]
                self.assertTrue(context["complete"])
                self.assertEqual(len({qp["qpn"] for qp in context["qps"]}), 100_000)
            else:
                self.assertEqual(text.count(" UD "), 100_000)
                self.assertIn("100000 QP", text)
        for pid, peak in zip(pids, before):
            if memory_tells:
                self.assertLess(self.peak_memory(pid) - peak, 8 * 1024)
        self.tell(client, "1")
        text, _ = client.communicate(timeout=LIMIT)
        self.assertEqual(client.returncode, 0, text)

    def test_queue_pairs_beyond_a_slot_after_each_slot_was_a_context(self):
        """Sockets of contexts stay for ever, but their numbers can be used again."""
        code = ("import sys; sys.path.insert(0, %r); import control_client as cc\n"
                "all = []\n"
                "try:\n"
                "    while True: all.append(cc.Client(%r).open_device())\n"
                "except cc.Refused: print(len(all), flush=True)\n"
                "sys.stdin.read()") % (str(pathlib.Path(__file__).resolve().parents[1] / "emulator"),
                                       self.device.environment["VERBENA_RUNTIME_DIR"])
        others, taken = [], 0
        while taken < 1022:
            others.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           text=True))
            taken += int(others[-1].stdout.readline())
        for other in others:
            other.communicate()
        self.until(lambda: self.contexts() == 0, "a slot is still taken")
        for link in ("auto", "udp"):
            self.device.environment["VERBENA_LINK"] = link
            self.run_case("many_queue_pairs")

    def test_two_hundred_processes_at_once(self):
        children = [self.start("stay_idle") for _ in range(200)]
        for child in children:
            self.expect_line(child, "ready")
        self.assertEqual(self.contexts(), 200)
        for child in children:
            self.tell(child, "1")
        for child in children:
            text, _ = child.communicate(timeout=LIMIT)
            self.assertEqual(child.returncode, 0, text)
        self.until(lambda: self.contexts() == 0, "a slot is still taken")

    def test_no_descriptor_left_is_an_error_and_no_more(self):
        # UBSan opens a pipe to look at an object. Without a descriptor it takes the object for invalid.
        self.device.environment["UBSAN_OPTIONS"] = "halt_on_error=0"
        self.run_case("few_descriptors")

    def test_a_program_that_closes_all_descriptors_goes_on(self):
        self.run_case("close_descriptors")

    def test_files_with_the_numbers_of_closed_descriptors_are_left_alone(self):
        self.run_case("use_closed_descriptors_again")


class Idle(ProviderCase):
    def wake_ups(self, pid):
        """Returns how often the context's thread has gone to sleep, or None until it runs, for the thread names itself."""
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "verbena":
                status = (task / "status").read_text()
                return int(status.split("voluntary_ctxt_switches:")[1].split()[0])
        return None

    def test_an_idle_context_does_not_wake(self):
        client = self.start("stay_idle")
        self.expect_line(client, "ready")
        # A program that polls may have finished before its thread runs for the first time.
        self.until(lambda: self.wake_ups(client.pid) is not None, "no progress thread")
        before = self.when_quiet(client)
        time.sleep(2.0)
        self.assertEqual(self.wake_ups(client.pid), before)
        self.tell(client, "1")
        self.assertEqual(client.wait(LIMIT), 0)

    def when_quiet(self, client):
        """Waits until no deadline of earlier packets runs out any more. Returns the number of wake-ups."""
        end = time.monotonic() + LIMIT
        previous = None
        while (now := self.wake_ups(client.pid)) != previous:
            self.assertLess(time.monotonic(), end, "the thread never comes to rest")
            previous = now
            time.sleep(1.0)
        return now


if __name__ == "__main__":
    PREFIX, CLIENT = sys.argv[1], sys.argv[2]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
