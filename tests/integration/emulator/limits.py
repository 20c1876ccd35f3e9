# SPDX-License-Identifier: BSD-2-Clause
"""A process that takes all that it can get of the emulator is told where its share ends, and other processes go on."""

import contextlib
import os
import resource
import socket
import struct
import subprocess
import sys
import threading

import control_client as cc
from emulator_case import EmulatorCase

HERE = os.path.dirname(os.path.abspath(__file__))

# Prints one line with its findings, and runs until its input ends.
PRELUDE = """
import os, socket, struct, sys
sys.path.insert(0, {here!r})
import control_client as cc
DIR = {dir!r}

def until_refused(take):
    taken = []
    while True:
        try:
            taken.append(take(len(taken)))
        except cc.Refused as refused:
            return taken, refused

def say(*words):
    print(*words, flush=True)

"""


class Limits(EmulatorCase):
    def setUp(self):
        super().setUp()
        self.others = []

    def tearDown(self):
        for other in self.others:
            self.end(other)
        super().tearDown()

    def other(self, code):
        """Starts another process that runs this code and then holds what it has."""
        words = [sys.executable, "-c", PRELUDE.format(here=HERE, dir=self.dir) + code + "\nsys.stdin.read()\n"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.others.append(process)
        return process

    def line(self, process):
        line = process.stdout.readline().strip()
        self.assertTrue(line, f"it ended with {process.poll()}")
        return line

    @staticmethod
    def end(process):
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(60)
        process.stdout.close()

    def up_with(self, descriptors, *words):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        done = self.verbena("up", "--fabric", self.fabric, *words, preexec_fn=limit)
        self.assertEqual(done.returncode, 0, done.stderr)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon_pid()}/fd"))

    def expect_service(self):
        """Asserts that an honest program still gets what it needs."""
        with cc.Client(self.dir).open_device() as client:
            client.call(cc.EXTRA_SLOT)
            client.call(cc.ATTACH_MULTICAST, self.membership(60000, client.slot))
        self.assertEqual(len(self.status()["devices"]), 1)

    @staticmethod
    def membership(group, slot, index=2):
        return bytes.fromhex("ff12401b") + bytes(10) + struct.pack(">H", group) + struct.pack("<HI", 0, slot << 14 | index)

    def test_connections(self):
        self.up_with(256)
        greedy = self.other("all, why = until_refused(lambda _: cc.Client(DIR))\nsay(len(all), why)")
        count, why = self.line(greedy).split(" ", 1)
        self.assertIn(f"process {greedy.pid} has {count} descriptors of this emulator", why)
        self.assertIn("are left for all others: no process may have more than that", why)
        self.assertIn(int(count), range(60, 128))
        self.expect_service()

    def test_holds(self):
        """Each process gets one hold, however often it asks."""
        self.up_with(256)
        self.expect_service()
        before = self.descriptors()
        greedy = self.other("""
connections = [cc.Client(DIR) for _ in range(10)]
for i in range(2000):
    connections[i % 10].call(cc.HOLD)
say('held')""")
        self.assertEqual(self.line(greedy), "held")
        self.assertLess(self.descriptors(), before + 10 + 5)
        self.expect_service()
        self.end(greedy)
        self.until(lambda: self.descriptors() <= before, "a hold is left")

    EXTRA_SLOTS = """
client = cc.Client(DIR).open_device()
extra, why = until_refused(lambda _: client.call(cc.EXTRA_SLOT))
say(1 + len(extra), why)"""

    def test_slots(self):
        self.up()
        first = self.other(self.EXTRA_SLOTS)
        count, why = self.line(first).split(" ", 1)
        self.assertEqual(count, "511")
        self.assertEqual(why, f"process {first.pid} has 511 slots of verbena0, and 511 are left for all others: no process "
                         "may have more than that")
        self.assertIn("255 slots", self.line(self.other(self.EXTRA_SLOTS)))
        with cc.Client(self.dir).open_device() as honest:
            slots = [struct.unpack("<I", honest.call(cc.EXTRA_SLOT)[1])[0] for _ in range(100)]
            self.assertEqual(len(set(slots)), 100)
        self.end(first)
        self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "it is still there")
        with cc.Client(self.dir).open_device() as honest:
            for _ in range(300):
                honest.call(cc.EXTRA_SLOT)

    def test_slots_after_each_was_a_context(self):
        """The sockets of slots stay for ever, but the numbers of unused slots are given out as extra slots."""
        self.up()
        greedy = []
        while sum(count for _, count in greedy) < 1022:
            process = self.other("""
all, why = until_refused(lambda _: cc.Client(DIR).open_device())
say(len(all))""")
            greedy.append((process, int(self.line(process))))
        self.assertGreater(len(greedy), 8)
        for process, _ in greedy:
            self.end(process)
        self.until(lambda: not self.status()["devices"][0]["contexts"], "slots not returned")
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with cc.Client(self.dir).open_device() as client, cc.Client(self.dir).open_device() as other:
            # The port is one of the emulator's, because datagrams from others are ignored.
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sender.bind((self.address, client.source_port))
            for owner in (client, other) * 5:
                slot = struct.unpack("<I", owner.call(cc.EXTRA_SLOT)[1])[0]
                receiver = socket.socket(fileno=os.dup(owner.fds[0]))
                receiver.settimeout(10)
                for number in (slot, owner.slot):
                    bth = struct.pack(">BBHIII", 4, 0, 0xffff, number << 14 | 5, 0, number)
                    sender.sendto(bth, (self.address, 4791))
                    self.assertEqual(receiver.recv(64), bth)
                receiver.close()
        sender.close()

    def test_multicast_groups(self):
        """Each group costs sockets of the emulator."""
        self.up_with(256)
        greedy = self.other("""
client = cc.Client(DIR).open_device()
def join(group):
    mgid = bytes.fromhex("ff12401b") + bytes(10) + struct.pack(">H", group + 1)
    client.call(cc.ATTACH_MULTICAST, mgid + struct.pack("<HI", 0, client.slot << 14 | 2))
all, why = until_refused(join)
say(len(all), why)""")
        count, why = self.line(greedy).split(" ", 1)
        self.assertGreater(int(count), 10)
        self.assertIn(f"process {greedy.pid} has its share of the emulator's descriptors", why)
        self.expect_service()
        # The client joins a group that the greedy process has opened. When that process ends, the group stays and
        # counts for the client's share.
        with cc.Client(self.dir).open_device() as client:
            client.call(cc.ATTACH_MULTICAST, self.membership(1, client.slot))
            self.end(greedy)
            self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "it is still there")
            client.call(cc.DETACH_MULTICAST, self.membership(1, client.slot))

    def test_multicast_memberships(self):
        self.up()
        greedy = self.other("""
mgid = bytes.fromhex("ff12401b") + bytes(10) + struct.pack(">H", 7)
def join_all(_):
    client = cc.Client(DIR).open_device()
    def join(index):
        client.call(cc.ATTACH_MULTICAST, mgid + struct.pack("<HI", 0, client.slot << 14 | index))
        return client
    all, why = until_refused(join)
    say(len(all), why)
    return client
clients = [join_all(0) for _ in range(3)]""")
        for expected, words in ((4096, "a context may hold 4096"), (4096, "a context may hold 4096"),
                                (0, f"process {greedy.pid} has 8192 multicast memberships of verbena0")):
            count, why = self.line(greedy).split(" ", 1)
            self.assertEqual(int(count), expected)
            self.assertIn(words, why)
        self.expect_service()

    def test_unread_answers(self):
        """If a process asks on many connections and reads no answers, the emulator keeps no more of them than its share."""
        self.up(*[word for i in range(64) for word in ("--device", f"verbena{i}")])  # so many devices make answers long
        greedy = self.other("""
import select
connections = [cc.Client(DIR) for _ in range(30)]
for c in connections:
    c.socket.setblocking(False)
ended = 0
while connections:
    select.select([], [c.socket for c in connections], [])
    for c in list(connections):
        try:
            for _ in range(20):
                c.send(cc.HELLO, cc.hello(comm="deaf"))
        except BlockingIOError:
            pass
        except OSError:
            connections.remove(c)
            ended += 1
say(ended)""")
        self.assertEqual(self.line(greedy), "30")
        self.assert_took_less(self.daemon_pid(), 80 << 10)
        with cc.Client(self.dir).open_device() as client:
            client.call(cc.EXTRA_SLOT)

    def test_news_for_one_who_stands_still(self):
        """However often the port changes, a stopped program is not cut off for that. It gets the last change."""
        self.up()
        with cc.Client(self.dir).open_device() as stopped, cc.Client(self.dir) as busy:
            for i in range(20001):
                busy.call(cc.SET_PORT, cc.text("verbena0") + struct.pack("<?", i % 2))
            self.assertEqual(self.verbena("fault", "--loss", "1%").returncode, 0)
            stopped.send(cc.EXTRA_SLOT)
            events, faults = [], 0
            while (message := stopped.receive())[0] != cc.SLOT_ADDED:
                if message[0] == cc.PORT_EVENT:
                    events.append(message[2])
                faults += message[0] == cc.SET_FAULT
            self.assertIn(len(events), range(1, 5000))
            self.assertEqual(struct.unpack("<I", events[-1][:4])[0], 1)
            self.assertEqual(events[-1], events[0], "down")
            self.assertEqual(faults, 1)

    def test_rings_to_one_who_does_not_answer(self):
        """Each offer of a ring costs descriptors, which count for the process that asked."""
        self.up_with(512)
        with cc.Client(self.dir).open_device() as mute:
            greedy = self.other(f"""
own = cc.mapped({self.address!r})
mute = own + struct.pack("<I", {mute.slot}) + own
all = [cc.Client(DIR).open_device() for _ in range(40)]
for client in all * 3:
    client.send(cc.RING_REQUEST, mute)
for client in all:
    client.call(cc.EXTRA_SLOT)
refused = [body for c in all for kind, _, body in c.unasked if kind == cc.RING_OUTBOUND]
length = struct.unpack("<I", refused[0][20:24])[0]
say(len(refused), refused[0][24:24 + length].decode())""")
            count, why = self.line(greedy).split(" ", 1)
            self.assertEqual(why, f"process {greedy.pid} has its share of the emulator's descriptors")
            self.assertGreater(int(count), 10)
            self.expect_service()
            mute.call(cc.EXTRA_SLOT)
            offered = [m for m in mute.unasked if m[0] == cc.RING_INBOUND]
            self.assertIn(len(offered), range(1, 128))

    def test_questions(self):
        """All connections of a process together wait for no more answers than one connection may."""
        self.up()
        with cc.Client(self.dir).open_device() as mute:
            code = f"""
question = struct.pack("<IBIIII", 0, 1, DOMAIN, {mute.slot} << 14 | 5, 0, 0)
def asker(_):
    client = cc.Client(DIR).open_device()
    client.call(cc.OPEN_DOMAIN, struct.pack("<QQBB", 7, 7, True, False))
    for _ in range(100):
        client.send(cc.RECEIVER_CALL, question)
    client.call(cc.EXTRA_SLOT)
    return client
all, why = until_refused(asker)
say(len(all), why)"""
            domain = struct.unpack("<I", mute.call(cc.OPEN_DOMAIN, struct.pack("<QQBB", 7, 7, True, False))[1])[0]
            for _ in range(2):
                count, why = self.line(self.other(code.replace("DOMAIN", str(domain), 1))).split(" ", 1)
                self.assertEqual(count, "2")
                self.assertIn("too many questions", why)

    def test_status_twice(self):
        """A client that asks again before it has the answer gets only that one answer, and does not delay other clients."""
        self.up()
        with cc.Client(self.dir).open_device() as mute, cc.Client(self.dir) as asker:
            asker.send(cc.STATUS_QUERY, b"\0")
            with self.assertRaisesRegex(cc.Refused, "is being answered"):
                asker.call(cc.STATUS_QUERY, b"\0")
            self.assertFalse(self.status()["devices"][0]["contexts"][0]["responding"])
            while asker.receive()[2][0] != cc.STATUS_END:
                pass
            asker.send(cc.STATUS_QUERY, b"\0")
            self.assertEqual(asker.receive()[0], cc.STATUS_TEXT)
            self.assertEqual(len([m for m in mute.unasked if m[0] != cc.STATUS_REQUEST]), 0)

    def test_capture_twice(self):
        self.up()
        with cc.Client(self.dir) as first, cc.Client(self.dir) as second:
            for client in (first, second):
                client.send(cc.CAPTURE, cc.text("") + b"\0")
            while first.receive()[0] != cc.ACK:  # the commands that it may read from come first
                pass
            kind, _, body = second.receive()
            self.assertEqual(kind, cc.REFUSED)
            self.assertIn(b"a capture runs already", body)
            self.expect_service()

    def test_domains(self):
        self.up()
        greedy = self.other("""
client = cc.Client(DIR).open_device()
all, why = until_refused(lambda i: client.call(cc.OPEN_DOMAIN, struct.pack("<QQBB", 7, i + 10, True, False)))
say(len(all), why)""")
        count, why = self.line(greedy).split(" ", 1)
        self.assertEqual(count, "32768")
        self.assertIn("its share of the open XRC domains", why)
        with cc.Client(self.dir).open_device() as honest:
            honest.call(cc.OPEN_DOMAIN, struct.pack("<QQBB", 7, 7, True, False))

    # Each rdma_cm command is a number, sizes, then the structure. 0 is CREATE_ID, 2 is BIND_IP.
    CM = """
client = cc.Client(DIR, cc.KIND_CM)
client.call(cc.OPEN_CM_CHANNEL, struct.pack("<Q", os.getpid()))
def command(number, body, out=0):
    raw = struct.pack("<IHH", number, len(body), out) + body
    return struct.pack("<QQI", os.getpid(), 0, len(raw)) + raw + struct.pack("<I", 0)
def create(uid):
    return command(0, struct.pack("<QQHBB4x", uid, 0, 0x106, 2, 0), 8)
def bind(number):
    address = struct.pack("<HHI20x", 10, 0, 0)  # any, an ephemeral port
    return command(2, struct.pack("<Q", 0) + address + struct.pack("<I", number))
"""

    def test_rdma_cm_identifiers(self):
        self.up()
        greedy = self.other(self.CM + """
taken = 0
client.socket.setblocking(False)
import select
refusal = None
sent = 0
while refusal is None:
    readable, writable, _ = select.select([client.socket], [client.socket], [])
    try:
        for _ in range(100):
            if writable and sent < taken + 1000:
                client.send(cc.CM_COMMAND, create(sent + 1))
                sent += 1
    except BlockingIOError:
        pass
    try:
        while refusal is None:
            kind, _, body = client.receive()
            if kind == cc.REFUSED:
                refusal = body
            else:
                taken += 1
    except BlockingIOError:
        pass
say(taken, struct.unpack("<I", refusal[:4])[0], refusal[8:].decode())""")
        count, code, why = self.line(greedy).split(" ", 2)
        self.assertEqual((count, code), ("131072", "12"))
        self.assertIn(f"process {greedy.pid} has 131072 rdma_cm identifiers", why)
        self.cm_goes_on()

    def test_rdma_cm_ports(self):
        self.up()
        greedy = self.other(self.CM + """
def identifier_with_port(i):
    _, body = client.call(cc.CM_COMMAND, create(i + 1))
    number = struct.unpack("<I", body[16:20])[0]
    _, body = client.call(cc.CM_COMMAND, bind(number))
    assert body[:4] == bytes(4), body
all, why = until_refused(identifier_with_port)
say(len(all), why.code, why)""")
        count, code, why = self.line(greedy).split(" ", 2)
        self.assertEqual((count, code), ("14116", "99"))
        self.assertIn("ports of rdma_cm", why)
        self.cm_goes_on()

    def cm_goes_on(self):
        other = self.other(self.CM + """
_, body = client.call(cc.CM_COMMAND, create(1))
_, body = client.call(cc.CM_COMMAND, bind(struct.unpack("<I", body[16:20])[0]))
say(body[:4].hex())""")
        self.assertEqual(self.line(other), "00000000")

    def test_log(self):
        """The log keeps the latest lines, and does not fill the disk."""
        self.up()
        with cc.Client(self.dir).open_device() as many, cc.Client(self.dir) as client:
            with self.assertRaises(cc.Refused):
                while True:
                    many.call(cc.EXTRA_SLOT)
            client.socket.settimeout(None)
            thread = threading.Thread(target=self.read_refusals, args=(client, 60000))
            thread.start()
            for _ in range(60000):
                client.send(cc.OPEN_DEVICE, cc.text("verbena0"))
            thread.join()
        with cc.Client(self.dir).open_device() as last:
            sizes = [os.path.getsize(self.dir + "/" + name) for name in os.listdir(self.dir) if name.endswith(".log")]
            self.assertLess(sum(sizes), 9 << 20)
            with open(self.dir + "/daemon.log") as file:
                self.assertIn(f"slot {last.slot} to pid {os.getpid()}", file.read())

    @staticmethod
    def read_refusals(client, count):
        for _ in range(count):
            client.receive()
