# SPDX-License-Identifier: BSD-2-Clause
"""Tests events and answers in shared memory between real processes: one reader gets each event, a process that has not
mapped the memory asks instead, answers are as new as if they had been asked for, and a program that scribbles over its
memory harms only itself.

    shared_events_test.py BIN LIBRARY [FIRST]
"""

import ctypes
import errno
import os
import random
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from rdma_cm_case import LIMIT, RdmaCmCase, binary, run
from rdma_cm_channel import *

QUERY_ADDR = 0
MANY = 100  # more than the shared memory has room for
ROUNDS = 100


class SharedEventsTest(RdmaCmCase):
    def resolving(self, channel, uids):
        """Returns {uid: ID} of new IDs, each with one unread event."""
        ids = {}
        for uid in uids:
            ids[uid] = channel.create(uid)
            channel.resolve_addr(ids[uid], "127.0.0.1", 1)
        # When the emulator answers this command, it has announced the last event.
        channel.destroy(channel.create(0))
        return ids

    def read_all(self, channel):
        """Returns the uids of the unread events of a channel that does not block."""
        seen = []
        while True:
            try:
                seen.append(channel.event().uid)
            except BlockingIOError:
                return seen

    def source_port(self, channel, id_):
        """Returns the source port that QUERY tells."""
        raw = channel.ask(QUERY, lambda at: struct.pack("<QII", at, id_, QUERY_ADDR), 272)
        return struct.unpack(">H", raw[18:20])[0]

    @staticmethod
    def memories():
        """Returns the address ranges where the channels' memories are mapped."""
        with open("/proc/self/maps") as maps:
            found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*verbena-events", maps.read(), re.MULTILINE)
        return [tuple(int(at, 16) for at in ends) for ends in found]

    def in_child(self, work):
        """Forks. Returns a function that waits for the child and asserts its success."""
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)
            try:
                work()
                os._exit(0)
            except BaseException as error:
                print("in the child: %r" % error, file=sys.stderr)
                os._exit(1)
        return lambda: self.assertEqual(os.waitpid(child, 0)[1], 0)

    def port(self, event):
        """An event of the port, which the emulator reports to all IDs that it concerns at once."""
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run([binary("verbena"), "port", "verbena0", event], check=True, env=env, capture_output=True, timeout=LIMIT)

    def bound(self, channel):
        """Returns {uid: ID} of three new IDs, in the order in which the emulator reports events to them. One event for each
        lies unread, and the last is announced."""
        ids = {}
        for uid in (1, 2, 3):
            ids[uid] = channel.create(uid)
            channel.bind(ids[uid], "127.0.0.1", 0)
        self.port("gid-change")
        ids = {event.uid: event.id for event in (channel.event() for _ in ids)}
        self.port("gid-change")
        self.assertTrue(select.select([channel.fd], [], [], LIMIT)[0])
        return ids

    # --- who has an event --------------------------------------------------------------------

    def test_who_has_no_room_for_the_memory_asks_for_each_event(self):
        before = self.memories()
        with open("/proc/self/statm") as sizes:
            mapped = int(sizes.read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (mapped + 16384, limits[1]))
        try:
            channel = self.channel(os.O_NONBLOCK)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        self.assertEqual(self.memories(), before)
        ids = self.resolving(channel, range(1, MANY + 1))
        self.assertEqual([channel.event().uid for _ in range(60)], list(range(1, 61)))
        self.assertNotEqual(self.source_port(channel, ids[60]), 0)
        for uid in range(61, 81):
            self.assertEqual(channel.destroy(ids.pop(uid)), 0)
        self.assertEqual(self.read_all(channel), list(range(81, MANY + 1)))
        self.assertEqual({channel.destroy(id_) for id_ in ids.values()}, {1})
        self.assertFalse(self.is_readable(channel))

    def test_a_fork_shares_the_events_out(self):
        channel = self.channel(os.O_NONBLOCK)
        ids = self.resolving(channel, range(1, MANY + 1))
        reader, writer = os.pipe()
        succeeds = self.in_child(lambda: os.write(writer, struct.pack("<%dI" % MANY, *(self.read_all(channel) + [0] * MANY)[:MANY])))
        mine = self.read_all(channel)
        succeeds()
        theirs = [uid for uid in struct.unpack("<%dI" % MANY, os.read(reader, 4 * MANY)) if uid]
        os.close(reader)
        os.close(writer)
        self.assertEqual(sorted(mine + theirs), list(range(1, MANY + 1)))
        self.assertEqual(mine, sorted(mine))
        self.assertEqual(theirs, sorted(theirs))
        self.assertEqual({channel.destroy(id_) for id_ in ids.values()}, {1})

    def test_an_event_is_read_or_withdrawn_and_never_both(self):
        channel = self.channel(os.O_NONBLOCK)
        seen, stop = [], threading.Event()

        def read():
            while not stop.is_set():
                seen.extend(self.read_all(channel))

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        reported = {}
        for uid in range(1, 400):
            ids = self.resolving(channel, [uid])
            reported[uid] = channel.destroy(ids[uid])
        stop.set()
        for reader in readers:
            reader.join(LIMIT)
        self.assertEqual(sorted(seen), [uid for uid, count in reported.items() if count])
        self.assertLessEqual(set(reported.values()), {0, 1})
        self.assertFalse(self.is_readable(channel))

    def test_a_duplicate_is_the_channel(self):
        channel = self.channel()
        ids = self.resolving(channel, [1, 2, 3])
        copy = os.dup(channel.fd)
        self.assertEqual(channel.event().uid, 1)
        channel.close()
        channel.fd = copy
        self.assertEqual(channel.event().uid, 2)
        # The duplicate replaces another channel, which closes that one.
        other = self.channel()
        self.resolving(other, [9])
        os.dup2(channel.fd, other.fd)
        self.assertEqual(other.event().uid, 3)
        self.assertFalse(self.is_readable(channel))
        self.assertEqual([other.destroy(id_) for id_ in ids.values()], [1, 1, 1])

    def test_descriptor_numbers_that_are_used_again(self):
        for round_ in range(30):
            channel = Channel()
            self.resolving(channel, [100 + round_])
            self.assertEqual(channel.event().uid, 100 + round_)
            channel.close()

    # --- readiness ---------------------------------------------------------------------------

    def test_readiness_is_exact_event_by_event(self):
        channel = self.channel(os.O_NONBLOCK)
        epoll, poll = select.epoll(), select.poll()
        epoll.register(channel.fd, select.EPOLLIN)
        poll.register(channel.fd, select.POLLIN)

        def ready():
            answers = {self.is_readable(channel), bool(epoll.poll(0)), bool(poll.poll(0))}
            self.assertEqual(len(answers), 1)
            return answers.pop()

        for count in (1, 2, 31, 32, 33, MANY):
            ids = self.resolving(channel, range(1, count + 1))
            for uid in range(1, count + 1):
                self.assertTrue(ready())
                self.assertEqual(channel.event().uid, uid)
            self.assertFalse(ready())
            with self.assertRaises(BlockingIOError):
                channel.event()
            for id_ in ids.values():
                self.assertEqual(channel.destroy(id_), 1)
            # Every other ID is destroyed, so events vanish from the middle of the queue.
            ids = self.resolving(channel, range(1, count + 1))
            for uid in range(1, count + 1, 2):
                self.assertEqual(channel.destroy(ids.pop(uid)), 0)
            self.assertEqual(self.read_all(channel), list(ids))
            self.assertFalse(ready())
            for id_ in ids.values():
                self.assertEqual(channel.destroy(id_), 1)
        epoll.close()

    def test_migration_takes_an_ids_events_and_leaves_the_others(self):
        old, new = self.channel(os.O_NONBLOCK), self.channel(os.O_NONBLOCK)
        moved, stays = (old.create(uid, PS_UDP) for uid in (1, 2))
        for id_ in (moved, stays):
            old.bind(id_, "127.0.0.1", 0)
        for number in range(20):
            old.join(moved, 100 + number, "239.1.1.%d" % number)
            old.join(stays, 200 + number, "239.1.2.%d" % number)
        self.assertEqual([old.event().uid for _ in range(3)], [100, 200, 101])
        self.assertEqual(new.migrate(moved, old), 2)
        self.assertEqual(self.read_all(old), list(range(201, 220)))
        self.assertEqual(self.read_all(new), list(range(102, 120)))
        self.assertFalse(self.is_readable(old))
        self.assertFalse(self.is_readable(new))
        self.assertEqual(new.destroy(moved), 20)
        self.assertEqual(old.destroy(stays), 20)

    def test_nothing_is_announced_for_an_event_that_was_withdrawn(self):
        """A message stands for all events that come together, and belongs to the last of them. Here that one is withdrawn."""
        for flags in (os.O_NONBLOCK, 0):
            channel = self.channel(flags)
            for _ in range(ROUNDS):
                ids = self.bound(channel)
                first, second, last = ids
                self.assertEqual(channel.destroy(ids[last]), 1)
                self.assertEqual([channel.event().uid for _ in range(2)], [first, second])
                self.assertFalse(self.is_readable(channel))
                self.assertEqual([channel.destroy(ids[uid]) for uid in (first, second)], [2, 2])

    def test_nothing_is_announced_for_a_membership_that_was_left(self):
        channel = self.channel()
        id_ = channel.create(1, PS_UDP)
        channel.bind(id_, "127.0.0.1", 0)
        for round_ in range(ROUNDS):
            memberships = {uid: channel.join(id_, uid, "239.1.1.%d" % uid) for uid in (1, 2, 3)}
            self.assertEqual([channel.event().type for _ in memberships], [MULTICAST_JOIN] * 3)
            self.port("down")
            self.assertTrue(self.is_readable(channel))
            # The events come in no order, so that now and then this is the last one.
            self.assertEqual(channel.leave(memberships.pop(round_ % 3 + 1)), 1)
            self.assertEqual({channel.event().uid for _ in range(2)}, set(memberships))
            self.assertFalse(self.is_readable(channel))
            self.port("up")
            self.assertEqual([channel.leave(membership) for membership in memberships.values()], [2, 2])

    def test_nothing_is_announced_for_an_event_that_moved_to_another_channel(self):
        old, new = self.channel(os.O_NONBLOCK), self.channel(os.O_NONBLOCK)
        for _ in range(ROUNDS):
            ids = self.bound(old)
            first, second, last = ids
            self.assertEqual(new.migrate(ids[last], old), 1)
            self.assertEqual(new.event().uid, last)
            self.assertFalse(self.is_readable(new))
            self.assertEqual([old.event().uid for _ in range(2)], [first, second])
            self.assertFalse(self.is_readable(old))
            self.assertEqual(new.destroy(ids[last]), 2)
            self.assertEqual([old.destroy(ids[uid]) for uid in (first, second)], [2, 2])

    def test_an_event_behind_one_that_moved_to_another_channel(self):
        """It lies ready again, so the program needs no emulator to read it."""
        old, new = self.channel(os.O_NONBLOCK), self.channel(os.O_NONBLOCK)
        first, second, last = ids = self.bound(old)
        self.assertEqual(new.migrate(ids[first], old), 1)
        self.daemon.send_signal(signal.SIGSTOP)
        try:
            for channel, uids in ((old, [second, last]), (new, [first])):
                self.assertTrue(self.is_readable(channel))
                self.assertEqual([channel.event().uid for _ in uids], uids)
                self.assertFalse(self.is_readable(channel))
        finally:
            self.daemon.send_signal(signal.SIGCONT)
        self.assertEqual([(new if uid == first else old).destroy(id_) for uid, id_ in ids.items()], [2, 2, 2])

    # --- answers -----------------------------------------------------------------------------

    def test_an_answer_changes_with_its_id(self):
        channel = self.channel()
        id_ = self.resolving(channel, [1])[1]
        channel.expect(ADDR_RESOLVED)
        port = self.source_port(channel, id_)
        self.assertNotEqual(port, 0)
        self.assertEqual(self.source_port(channel, id_), port)
        channel.destroy(id_)
        with self.assertRaises(OSError):
            self.source_port(channel, id_)

    def test_another_process_changes_an_id(self):
        channel = self.channel()
        id_ = self.resolving(channel, [1])[1]
        channel.expect(ADDR_RESOLVED)
        self.source_port(channel, id_)
        self.in_child(lambda: channel.destroy(id_))()
        with self.assertRaises(OSError):
            self.source_port(channel, id_)

    def test_a_migrated_id_is_asked_for_on_its_new_channel_only(self):
        old, new = self.channel(), self.channel()
        id_ = self.resolving(old, [1])[1]
        old.expect(ADDR_RESOLVED)
        port = self.source_port(old, id_)
        self.assertEqual(new.migrate(id_, old), 1)
        self.assertEqual(self.source_port(new, id_), port)
        with self.assertRaises(OSError):
            self.source_port(old, id_)

    def test_a_wrong_pointer_is_refused(self):
        channel = self.channel()
        id_ = self.resolving(channel, [1])[1]
        channel.expect(ADDR_RESOLVED)
        for address in (0, 8, 1 << 47, (1 << 64) - 4096):
            with self.assertRaises(OSError) as refused:
                channel.command(QUERY, struct.pack("<QII", address, id_, QUERY_ADDR), 272)
            self.assertEqual(refused.exception.errno, errno.EFAULT)
        self.source_port(channel, id_)

    def uses_it(self, how, descriptor, number):
        """A program that was given a channel makes an ID on it, and this process knows the ID as well."""
        channel = self.channel()
        code = ("import socket, sys; from rdma_cm_channel import *\n"
                f"channel = object.__new__(Channel); channel.fd = {how}\n"
                "print(channel.create(7))")
        here, there = socket.socketpair()
        given = descriptor(channel, there)
        os.set_inheritable(given, True)
        env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
        child = subprocess.Popen([sys.executable, "-B", "-c", code, str(given)], pass_fds=[given], env=env, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        socket.send_fds(here, [b"x"], [channel.fd] * number)
        said, _ = child.communicate()
        here.close()
        there.close()
        self.assertRegex(said, r"^\d+\n$")
        channel.destroy(int(said))

    def test_a_channel_that_came_by_execve(self):
        self.uses_it("int(sys.argv[1])", lambda channel, _: channel.fd, 1)

    def test_a_channel_that_came_in_a_message(self):
        self.uses_it("socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 1, 3)[1][-1]",
                     lambda _, there: there.fileno(), 3)

    def test_answers_on_every_kind_of_stack(self):
        limits = resource.getrlimit(resource.RLIMIT_STACK)
        for limit in (limits[0], limits[1]):  # usually the second one is unlimited
            done = subprocess.run([binary("cm_stack_program")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (limit, limits[1])), check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "good\n"))

    # --- programs that misbehave --------------------------------------------------------------

    def test_a_program_that_never_reads_holds_up_nobody(self):
        silent, server, client = self.channel(), self.channel(), self.channel()
        self.resolving(silent, range(1, 500))
        server.listener()
        for qpn in range(0x4001, 0x4021):
            self.connected(server, client, qpn)

    def scribble(self, seed):
        """Uses a channel while a thread fills the channel's shared memory with random words."""
        dice = random.Random(seed)
        inherited = self.memories()
        channel = Channel(os.O_NONBLOCK)
        (first, last), = set(self.memories()).difference(inherited)
        stop = threading.Event()

        def write():
            near = (8 + 32 * 8) // 8  # the part that readers look at, with the tickets
            while not stop.is_set():
                if dice.random() < 0.2:
                    at = first + 8 * dice.randrange((last - first) // 8)
                else:
                    at = first + 8 * dice.randrange(near)
                word = ctypes.c_uint64.from_address(at)
                word.value = dice.choice((0, dice.getrandbits(64), word.value ^ dice.randrange(4), word.value + (1 << 16)))
                time.sleep(0)

        writer = threading.Thread(target=write)
        writer.start()
        for round_ in range(100):
            ids = self.resolving(channel, range(1, 9))
            self.read_all(channel)
            for id_ in ids.values():
                try:
                    self.source_port(channel, id_)
                except OSError:
                    pass
                channel.destroy(id_)
        stop.set()
        writer.join()

    def test_a_program_that_scribbles_over_its_memory_harms_nobody_else(self):
        server, client = self.channel(), self.channel()
        listener = server.listener()
        waits = [self.in_child(lambda seed=seed: self.scribble(seed)) for seed in (1, 2)]
        for i in range(100):
            active, passive = self.connected(server, client, 0x4000 + i)
            client.disconnect(active)
            server.expect(DISCONNECTED)
            self.assertEqual(server.destroy(passive), 2)
            client.expect(DISCONNECTED)
            self.assertGreaterEqual(client.destroy(active), 4)
        for succeeds in waits:
            succeeds()
        self.assertEqual(server.destroy(listener), 100)
        self.assertIsNone(self.daemon.poll())

    def test_what_lies_ready_outlives_the_emulator_and_then_nothing_does(self):
        channel = self.channel(os.O_NONBLOCK)
        id_ = self.resolving(channel, [1])[1]
        self.assertTrue(select.select([channel.fd], [], [], LIMIT)[0])
        self.daemon.kill()
        self.daemon.wait()
        self.assertEqual(channel.event().uid, 1)
        begun = time.monotonic()
        for _ in range(10):
            self.assertTrue(self.is_readable(channel), "its end is to be noticed")
            with self.assertRaises(OSError) as ended:
                channel.event()
            self.assertEqual(ended.exception.errno, errno.EIO)
        self.assertGreaterEqual(time.monotonic() - begun, 0.2, "a program that ignores the error is to rest")
        self.assertEqual(channel.destroy(id_), 0)


if __name__ == "__main__":
    run()
