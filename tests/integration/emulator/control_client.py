# SPDX-License-Identifier: BSD-2-Clause
"""A client of the control protocol in few lines: it tests the daemon against a second implementation of the format
(emulator/control/include/verbena/control/protocol.hpp)."""

import mmap
import os
import socket
import struct

MAGIC = 0x31425256
VERSION = 23
FROM_DAEMON = 0x80000000

REFUSED, ACK = 0x01, 0x02
HELLO, WELCOME = 0x10, 0x11
OPEN_DEVICE, DEVICE_OPENED = 0x20, 0x21
EXTRA_SLOT, SLOT_ADDED = 0x22, 0x23
ATTACH_MULTICAST, DETACH_MULTICAST, RELAYED = 0x24, 0x25, 0x26
STATUS_REQUEST, STATUS_REPORT = 0x30, 0x31
PORT_EVENT, SET_FAULT, SHUTDOWN, SET_CAPTURE = 0x32, 0x33, 0x34, 0x35
HOLD, STATUS_QUERY, STATUS_TEXT, SET_PORT = 0x40, 0x41, 0x42, 0x44
REFRESH_COUNTERS, ANNOUNCE = 0x45, 0x4a
CAPTURE, CAPTURE_SOURCE, CAPTURE_SOURCE_ENDED = 0x49, 0x4d, 0x4f
QUERY_COUNTERS, COUNTERS = 0x4b, 0x4c
RING_REQUEST, RING_INBOUND, RING_OUTBOUND = 0x50, 0x51, 0x53
OPEN_DOMAIN, DOMAIN_OPENED = 0x60, 0x61
OPEN_CM_CHANNEL, CM_COMMAND, CM_REPLY = 0x200, 0x201, 0x202
RECEIVER_CALL, RECEIVER_ANSWER, RECEIVER_DONE = 0x66, 0x67, 0x68
FIND_QUEUE_PAIR, QUEUE_PAIR_FOUND, RAISE_EVENT, FAULTS_IN_FORCE = 0x72, 0x73, 0x74, 0x75
JOURNAL_WRITTEN, JOURNAL_QUERY, JOURNAL_TEXT = 0x76, 0x77, 0x78

STATUS_END = 7  # the last part of a STATUS_TEXT
STATUS_OF_ALL, STATUS_OF_QPS, STATUS_OF_CQS = 0, 1, 2  # in a STATUS_REQUEST

KIND_PROVIDER, KIND_PRELOAD, KIND_COMMAND, KIND_CM = 1, 2, 3, 4


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def text(value):
    raw = value.encode()
    return struct.pack("<I", len(raw)) + raw


def mapped(address):
    """Returns an IPv4 address in the form of the messages."""
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address)


def report_qp(number, error=""):
    """Returns the number of a queue pair and its entry in a STATUS_REPORT."""
    return number, struct.pack("<IBBB", number, 2, 3, 1) + mapped("127.9.9.9") + struct.pack(
        "<9I5Q", 0x8003, 1, 1, 0, 1, 11, 12, 1, 2, 100, 4096, 90, 2048, 3) + text(error)


def report_cq(number):
    """Returns the number of a completion queue without a channel, and its entry in a STATUS_REPORT."""
    return number, struct.pack("<IIIIB??III", number, 63, 2, 5, 0, False, False, 0, 0, 0)


def packet(kind, payload=b"", sequence=1, version=VERSION, magic=MAGIC):
    return struct.pack("<IHHII", magic, version, kind, sequence, len(payload)) + payload


def hello(kind=KIND_PROVIDER, comm="test", version="0.0.0"):
    return struct.pack("<BI", kind, os.getpid()) + text(comm) + text(version)


class Client:
    """A connection to the daemon. It raises Refused for a refusal, and ConnectionResetError when it ends."""

    def __init__(self, runtime_dir, kind=KIND_PROVIDER, greets=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(os.path.join(runtime_dir, "control.sock"))
        self.sequence = 0
        self.unasked = []
        self.fds = []
        self.slot = None
        self.source_port = None
        if greets:
            self.call(HELLO, hello(kind))

    def send(self, kind, payload=b"", sequence=None):
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        self.socket.send(packet(kind, payload, sequence))

    def receive(self):
        """Returns (type, sequence, payload), and keeps descriptors in self.fds."""
        data, fds, _, _ = socket.recv_fds(self.socket, 65536, 8)
        self.fds += fds
        if not data:
            raise ConnectionResetError("the daemon closed the connection")
        magic, version, kind, sequence, length = struct.unpack("<IHHII", data[:16])
        assert magic == MAGIC and version == VERSION and length == len(data) - 16
        return kind, sequence, data[16:]

    def call(self, kind, payload=b""):
        try:
            self.send(kind, payload)
        except BrokenPipeError:
            pass  # the daemon has closed; its last messages can still be read
        while True:
            got, sequence, body = self.receive()
            if got == REFUSED:
                code, length = struct.unpack("<II", body[:8])
                raise Refused(code, body[8:8 + length].decode())
            if sequence & FROM_DAEMON:
                self.unasked.append((got, sequence, body))
                continue
            return got, body

    def open_device(self, name="verbena0", network=None):
        """Opens a device. `network` is the namespace that the client claims to be in, its own by default."""
        network = os.stat("/proc/self/ns/net").st_ino if network is None else network
        got, body = self.call(OPEN_DEVICE, text(name) + struct.pack("<Q?", network, False))
        assert got == DEVICE_OPENED
        self.slot, name_length = struct.unpack("<II", body[:8])
        # After the name come three numbers, the persona, two GUIDs, address, prefix, subnet, and whether there are
        # foreign peers.
        at = 8 + name_length + 3 * 4 + 1 + 2 * 8 + 16 + 1 + 16 + 1
        self.source_port = struct.unpack("<H", body[at:at + 2])[0]
        assert len(self.fds) >= 2, "a receive socket and a stats page"
        return self

    def stats(self):
        """Returns the stats page, writable."""
        return mmap.mmap(self.fds[1], 4096)

    def next_unasked(self, kind):
        for i, message in enumerate(self.unasked):
            if message[0] == kind:
                return self.unasked.pop(i)
        while True:
            message = self.receive()
            if message[0] == kind:
                return message

    def answer_status(self, qps=(), page=128, requests=1 << 20, cqs=()):
        """Answers the requests of one status, all or the first ones, with these objects (report_qp(), report_cq())."""
        kinds = {STATUS_OF_QPS: qps, STATUS_OF_CQS: cqs}
        left = {kind for kind, objects in kinds.items() if objects}
        for _ in range(requests):
            _, sequence, body = self.next_unasked(STATUS_REQUEST)
            after, most, of = struct.unpack("<IIB", body)
            report = struct.pack("<6I", 1, len(cqs), len(qps), 3, 0, 1)
            report += struct.pack("<I", 0)  # no destroy call waits
            for kind, objects in kinds.items():
                told, last = [], True
                if of in (STATUS_OF_ALL, kind):
                    behind = [number for number, _ in objects].index(after) + 1 if after else 0
                    told = objects[behind:behind + min(most, page)]
                    last = behind + len(told) == len(objects)
                    if last:
                        left.discard(kind)
                report += struct.pack("<?I", last, len(told)) + b"".join(raw for _, raw in told)
            self.send(STATUS_REPORT, report + struct.pack("<?I", True, 0), sequence)
            if not left:
                return

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
