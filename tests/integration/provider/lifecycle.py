#!/usr/bin/env python3
"""What becomes of a context, its events and its peers while processes fork, end, sleep or lose their daemon.

lifecycle.py PREFIX CLIENT [GROUP]
"""

import os
import pathlib
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

    def test_a_forked_child_harms_nobody(self):
        self.run_case("fork_and_go_on")

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
        parent.stdin.close()  # which ends the child
        parent.stdin = None


class Imports(ProviderCase):
    def test_another_process_works_with_the_memory_that_it_imported(self):
        self.run_case("give_away")
        self.until(lambda: self.contexts() == 0, "a slot is still taken")

    def test_imported_memory_ends_with_its_process(self):
        self.run_case("orphaned_import")


class Many(ProviderCase):
    def test_twenty_thousand_queue_pairs(self):
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
        self.run_case("few_descriptors")


class Idle(ProviderCase):
    def wake_ups(self, pid):
        """How often the context's thread has gone to sleep; None until it runs, for it names itself."""
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "verbena":
                status = (task / "status").read_text()
                return int(status.split("voluntary_ctxt_switches:")[1].split()[0])
        return None

    def test_an_idle_context_does_not_wake(self):
        client = self.start("stay_idle")
        self.expect_line(client, "ready")
        # A program that polls may have done everything before its thread ran for the first time.
        self.until(lambda: self.wake_ups(client.pid) is not None, "no progress thread")
        before = self.when_quiet(client)
        time.sleep(2.0)
        self.assertEqual(self.wake_ups(client.pid), before)
        self.tell(client, "1")
        self.assertEqual(client.wait(LIMIT), 0)

    def when_quiet(self, client):
        """Deadlines of what was just sent may still run out."""
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
