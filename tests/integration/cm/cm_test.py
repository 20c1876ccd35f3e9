# SPDX-License-Identifier: BSD-2-Clause
"""Tests /dev/infiniband/rdma_cm on a real emulator: blocking, polling, signals, threads, fork, many processes, kill -9
of either side at every step and of the emulator. No test opens a device: queue pair numbers are only numbers here.

    cm_test.py BIN LIBRARY [FIRST]     FIRST: what must be loaded before (a sanitizer's runtime)
"""

import errno
import fcntl
import os
import random
import select
import signal
import subprocess
import termios
import threading
import time
import unittest

from rdma_cm_case import LIMIT, RdmaCmCase, binary, run
from rdma_cm_channel import *


# The numbers of the system calls that receive and that sleep, on x86-64 and arm64.
RECEIVE = ("45", "207")
NANOSLEEP = ("35", "230", "101", "115")


class CmTest(RdmaCmCase):
    def test_a_channel_is_a_character_device(self):
        import stat
        self.assertTrue(stat.S_ISCHR(os.fstat(self.channel().fd).st_mode))

    def test_there_is_nothing_to_read(self):
        channel = self.channel(os.O_NONBLOCK)
        channel.resolve_addr(channel.create(1), "127.0.0.1", 1)
        select.select([channel.fd], [], [], LIMIT)
        with self.assertRaisesRegex(OSError, "Invalid argument"):
            os.read(channel.fd, 16)
        self.assertEqual(channel.expect(ADDR_RESOLVED).uid, 1)

    def test_three_hundred_connections_count_their_events(self):
        server, client = self.channel(), self.channel()
        listener = server.listener()
        for i in range(300):
            active, passive = self.connected(server, client, 0x4000 + i)
            client.disconnect(active)
            server.expect(DISCONNECTED)
            server.disconnect(passive)
            client.expect(DISCONNECTED)
            self.assertEqual(server.destroy(passive), 2)
            self.assertGreaterEqual(client.destroy(active), 4)
        self.assertEqual(server.destroy(listener), 300)
        self.assertFalse(self.is_readable(server))
        self.assertFalse(self.is_readable(client))

    def test_a_blocked_reader_is_woken(self):
        server, client = self.channel(), self.channel()
        server.listener()
        seen = []
        reader = threading.Thread(target=lambda: seen.append(server.expect(CONNECT_REQUEST)))
        reader.start()
        client.start_connecting(1, 0x4001)
        reader.join(LIMIT)
        self.assertEqual(len(seen), 1)

    def test_four_blocked_readers_get_one_event_each(self):
        server = self.channel()
        seen = []
        readers = [threading.Thread(target=lambda: seen.append(server.event().uid))
                   for _ in range(4)]
        for reader in readers:
            reader.start()
        for uid in (1, 2, 3, 4):
            server.resolve_addr(server.create(uid), "127.0.0.1", 1)
        for reader in readers:
            reader.join(LIMIT)
        self.assertEqual(sorted(seen), [1, 2, 3, 4])

    def test_nonblocking_and_poll(self):
        channel = self.channel(os.O_NONBLOCK)
        with self.assertRaises(BlockingIOError):
            channel.event()
        id_ = channel.create(1)
        poller = select.epoll()
        poller.register(channel.fd, select.EPOLLIN)
        self.assertEqual(poller.poll(0), [])
        channel.resolve_addr(id_, "127.0.0.1", 1)
        self.assertEqual(poller.poll(LIMIT), [(channel.fd, select.EPOLLIN)])
        self.assertEqual(poller.poll(LIMIT), [(channel.fd, select.EPOLLIN)], "level-triggered")
        self.assertEqual(channel.event().type, ADDR_RESOLVED)
        self.assertEqual(poller.poll(0), [])
        poller.close()

    def test_an_unread_event_goes_with_its_id(self):
        channel = self.channel()
        id_ = channel.create(1)
        channel.resolve_addr(id_, "127.0.0.1", 1)
        select.select([channel.fd], [], [], LIMIT)
        self.assertEqual(channel.destroy(id_), 0)
        self.assertFalse(self.is_readable(channel))

    def test_a_signal_ends_the_wait(self):
        channel = self.channel()
        signal.alarm(1)
        with self.assertRaisesRegex(TimeoutError, "in vain"):
            channel.event()
        signal.alarm(LIMIT)

    def test_a_channel_closed_under_its_reader(self):
        # A reader that sleeps in a closed channel sleeps on, as in any system call, also when the event that woke it
        # is gone.
        outcomes = []

        def read(channel):
            try:
                outcomes.append(channel.event().type)
            except OSError as error:
                outcomes.append(error.errno)

        readers = []
        for uid in range(1, 51):
            channel = Channel()
            reader = threading.Thread(target=read, args=(channel,), daemon=True)
            reader.start()
            while not self.is_in(reader, RECEIVE):
                time.sleep(0.001)
            id_ = channel.create(uid)
            channel.resolve_addr(id_, "127.0.0.1", 1)
            if uid % 2 == 0:
                channel.destroy(id_)
            channel.close()
            readers.append(reader)
        for reader in readers[0::2]:
            reader.join(LIMIT)
        self.assertEqual(set(outcomes), {ADDR_RESOLVED})

    def test_a_program_ends_before_its_reader_is_back(self):
        # The child has closed the channel already when the reader asks for the next event. The file that is_in()
        # opens gets a lower number than the channel had.
        spare = os.open(os.devnull, os.O_RDONLY)
        channel = self.channel()
        child = os.fork()
        if child == 0:
            os.close(spare)
            channel.close()

            def read():
                try:
                    channel.event()
                finally:
                    os._exit(1)

            reader = threading.Thread(target=read, daemon=True)
            reader.start()
            while not self.is_in(reader, NANOSLEEP):
                time.sleep(0.001)
            os._exit(0)
        os.close(spare)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_who_reads_a_closed_channel_is_told(self):
        channel = Channel()
        channel.close()
        for read in (channel.event, lambda: channel.create(1)):
            with self.assertRaises(OSError) as refusal:
                read()
            self.assertEqual(refusal.exception.errno, errno.EBADF)

    @staticmethod
    def is_in(thread, system_call):
        """Returns whether the thread sleeps in one of these system calls."""
        with open("/proc/self/task/%d/syscall" % thread.native_id) as call:
            return call.read().split()[0] in system_call

    def test_five_hundred_unread_events(self):
        channel = self.channel()
        for uid in range(1, 501):
            channel.resolve_addr(channel.create(uid), "127.0.0.1", 1)
        self.assertEqual([channel.event().uid for _ in range(500)], list(range(1, 501)))
        self.assertFalse(self.is_readable(channel))

    def test_migration_moves_events_and_their_announcement(self):
        old, new = self.channel(), self.channel()
        id_ = old.create(5)
        old.resolve_addr(id_, "127.0.0.1", 1)
        select.select([old.fd], [], [], LIMIT)
        self.assertEqual(new.migrate(id_, old), 0)
        self.assertFalse(self.is_readable(old))
        self.assertEqual(new.event().uid, 5)
        with self.assertRaisesRegex(OSError, "Invalid argument"):
            old.resolve_route(id_)

    def test_a_forked_child_shares_the_channel(self):
        channel = self.channel()
        id_ = channel.create(1)
        child = os.fork()
        if child == 0:
            try:
                channel.resolve_addr(id_, "127.0.0.1", 1)
                os._exit(0 if channel.create(2) != id_ else 2)
            except BaseException:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(channel.expect(ADDR_RESOLVED).uid, 1)
        channel.resolve_route(id_)
        channel.expect(ROUTE_RESOLVED)

    def test_forty_processes_connect_at_once(self):
        server = self.channel()
        server.listener()
        children = []
        for i in range(40):
            child = os.fork()
            if child == 0:
                try:
                    own = Channel()
                    id_ = own.start_connecting(1, 0x8000 + i)
                    own.expect(CONNECT_RESPONSE)
                    own.confirm(id_)
                    own.expect(DISCONNECTED)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            children.append(child)
        established = 0
        while established < 40:
            event = server.event()
            if event.type == CONNECT_REQUEST:
                server.accept(event.id, 1000 + event.id, event.qpn + 0x4000)
            elif event.type == ESTABLISHED:
                established += 1
                server.disconnect(event.id)
        # At its end each child answers with DREP, or sends a DREQ itself.
        self.assertEqual([os.waitpid(c, 0)[1] for c in children], [0] * 40)

    def in_child(self, work):
        """Runs `work(step)` in a process that stops after each step; a pipe tells how far it is."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                work(lambda: os.write(writer, b"."))
                time.sleep(LIMIT)
            finally:
                os._exit(1)
        os.close(writer)
        self.addCleanup(os.close, reader)
        return child, reader

    def kill(self, child):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def test_a_client_is_killed_at_every_step(self):
        server = self.channel()
        server.listener()

        def client(step, steps):
            own = Channel()
            id_ = own.start_connecting(1, 0x4001)
            step()
            if steps > 1:
                own.expect(CONNECT_RESPONSE)
                step()
            if steps > 2:
                own.confirm(id_)
                step()
            if steps > 3:
                own.disconnect(id_)
                step()

        for steps in (1, 2, 3, 4):
            child, progress = self.in_child(lambda step: client(step, steps))
            request = server.expect(CONNECT_REQUEST)
            if steps > 1:
                server.accept(request.id, 7, 0x8001)
            for _ in range(steps):
                self.assertEqual(os.read(progress, 1), b".")
            if steps > 2:
                server.expect(ESTABLISHED)
            self.kill(child)
            if steps > 1:
                end = server.event()
                self.assertIn(end.type, (REJECTED, DISCONNECTED), steps)
                self.assertEqual(end.uid, 7)
            else:
                # The program has not accepted yet, so its accept will fail.
                deadline = time.monotonic() + LIMIT
                while time.monotonic() < deadline:
                    try:
                        server.accept(request.id, 7, 0x8001)
                    except OSError as error:
                        self.assertEqual(error.errno, errno.EINVAL)
                        break
                    self.assertEqual(server.event().type, REJECTED)
                    break
            server.destroy(request.id)

    def test_a_server_is_killed_at_every_step(self):
        client = self.channel()

        def serve(step, steps):
            own = Channel()
            own.listener()
            step()
            request = own.expect(CONNECT_REQUEST)
            step()
            if steps > 2:
                own.accept(request.id, 1, 0x8001)
                step()
            if steps > 3:
                own.expect(ESTABLISHED)
                step()

        for steps in (1, 2, 3, 4):
            child, progress = self.in_child(lambda step: serve(step, steps))
            self.assertEqual(os.read(progress, 1), b".")
            if steps == 1:
                self.kill(child)
            id_ = client.start_connecting(1, 0x4001)
            for _ in range(steps - 1):
                if steps == 4 and _ == 2:
                    client.expect(CONNECT_RESPONSE)
                    client.confirm(id_)
                self.assertEqual(os.read(progress, 1), b".")
            if steps > 1:
                self.kill(child)
            if steps == 3:
                client.expect(CONNECT_RESPONSE)
            self.assertIn(client.event().type, (REJECTED, DISCONNECTED), steps)
            client.destroy(id_)

    def test_the_end_of_the_emulator_removes_the_device(self):
        server, client, idle = self.channel(), self.channel(), self.channel()
        listener = server.listener()
        active, passive = self.connected(server, client)
        self.daemon.terminate()
        for channel, id_ in ((server, passive), (client, active)):
            event = channel.event()
            self.assertEqual((event.type, event.id), (DEVICE_REMOVAL, id_))
        # The daemon ends at once: it does not wait for channels that have nothing on the device.
        self.assertEqual(self.daemon.wait(LIMIT), 0)
        with self.assertRaisesRegex(OSError, "Input/output error"):
            idle.event()
        # IDs can be destroyed as after the removal of an adapter. What they stood for is gone.
        self.assertEqual(server.destroy(listener), 0)
        with self.assertRaises(OSError):
            server.listener()

    def test_the_removal_of_more_ids_than_lie_ready_is_fetched_one_by_one(self):
        channel = self.channel()
        ids = set()
        for uid in range(1, 401):
            id_ = channel.create(uid)
            channel.bind(id_, "127.0.0.1", 0)
            ids.add(id_)
        self.daemon.terminate()
        seen = [channel.event() for _ in ids]
        self.assertEqual({event.type for event in seen}, {DEVICE_REMOVAL})
        self.assertEqual({event.id for event in seen}, ids)
        self.assertEqual(self.daemon.wait(LIMIT), 0)

    def test_a_program_that_does_not_read_does_not_hold_up_the_end(self):
        channel = self.channel()
        channel.bind(channel.create(1), "127.0.0.1", 7174)
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(LIMIT), 0)

    def test_a_port_that_goes_down_ends_multicast_memberships(self):
        channel = self.channel()
        id_ = channel.create(1, PS_UDP)
        channel.bind(id_, "127.0.0.1", 0)
        membership = channel.join(id_, 9, "239.1.2.3")
        self.assertEqual(channel.expect(MULTICAST_JOIN).id, membership)
        subprocess.run([binary("verbena"), "port", "verbena0", "down"], check=True)
        event = channel.expect(MULTICAST_ERROR)
        self.assertEqual((event.id, event.uid, event.status), (membership, 9, -errno.ENETRESET))

    def test_requests_that_every_file_answers(self):
        channel = self.channel()
        os.set_blocking(channel.fd, False)  # an ioctl
        self.assertFalse(os.get_blocking(channel.fd))
        with self.assertRaises(BlockingIOError):
            channel.event()
        for request, is_inheritable in ((termios.FIONCLEX, True), (termios.FIOCLEX, False)):
            fcntl.ioctl(channel.fd, request)
            self.assertEqual(os.get_inheritable(channel.fd), is_inheritable)
        with self.assertRaisesRegex(OSError, "Inappropriate ioctl"):
            fcntl.ioctl(channel.fd, termios.TIOCGWINSZ)

    def test_the_emulator_is_killed(self):
        channel = self.channel()
        id_ = channel.create(1)
        failed = []

        def wait():
            try:
                channel.event()
            except OSError as error:
                failed.append(error.errno)

        reader = threading.Thread(target=wait)
        reader.start()
        self.daemon.kill()
        self.daemon.wait()
        reader.join(LIMIT)
        self.assertEqual(failed, [errno.EIO])
        with self.assertRaises(OSError):
            channel.resolve_addr(id_, "127.0.0.1", 1)
        with self.assertRaises(OSError):
            Channel()

    def test_garbage_is_refused_and_harms_nobody(self):
        channel, other = self.channel(os.O_NONBLOCK), self.channel()
        dice = random.Random(1)
        for _ in range(2000):
            size = dice.randrange(400)
            bytes_ = bytearray(dice.getrandbits(8) for _ in range(size))
            if size >= 8:
                # The buffer is a likely command. Its answer address is 0, so the answer goes nowhere.
                bytes_[0:4] = struct.pack("<I", dice.randrange(30))
                bytes_[4:6] = struct.pack("<H", size - 8)
                bytes_[8:24] = bytes(16)[: size - 8]
            try:
                os.write(channel.fd, bytes(bytes_))
            except OSError as error:
                self.assertIn(error.errno, (errno.EINVAL, errno.ENOENT, errno.ENOSYS, errno.ENOSPC,
                                            errno.EAGAIN, errno.EFAULT))
        id_ = other.create(9)
        other.resolve_addr(id_, "127.0.0.1", 1)
        self.assertEqual(other.expect(ADDR_RESOLVED).uid, 9)


if __name__ == "__main__":
    run()
