# SPDX-License-Identifier: BSD-2-Clause
"""Speaks the user ABI of rdma_cm by hand: a channel is an open /dev/infiniband/rdma_cm. It runs with the preload
library loaded. <rdma/rdma_user_cm.h> has the layouts."""

import ctypes
import os
import socket
import struct

(ADDR_RESOLVED, _, ROUTE_RESOLVED, _, CONNECT_REQUEST, CONNECT_RESPONSE, CONNECT_ERROR, UNREACHABLE, REJECTED,
 ESTABLISHED, DISCONNECTED, DEVICE_REMOVAL, MULTICAST_JOIN, MULTICAST_ERROR) = range(14)
TIMEWAIT_EXIT = 15
(CREATE_ID, DESTROY_ID, _, _, RESOLVE_ROUTE, _, CONNECT, LISTEN, ACCEPT, REJECT, DISCONNECT,
 INIT_QP_ATTR, GET_EVENT, _, SET_OPTION, _, _, LEAVE_MCAST, MIGRATE_ID, QUERY, BIND,
 RESOLVE_ADDR, JOIN_MCAST) = range(23)
PS_IPOIB = 0x0002
PS_TCP = 0x0106
PS_UDP = 0x0111
PS_IB = 0x013f
AF_IB = 27


def sockaddr(ip, port):
    return struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(ip) + bytes(8)


def sockaddr_in6(ip, port):
    return struct.pack("<H", socket.AF_INET6) + struct.pack(">HI", port, 0) + socket.inet_pton(socket.AF_INET6, ip) + bytes(4)


def sockaddr_ib(gid, space, port):
    raw = socket.inet_pton(socket.AF_INET6, gid)
    return struct.pack("<H", AF_IB) + struct.pack(">HI", 0xffff, 0) + raw + struct.pack(">QQQ", space << 16 | port, 2**64 - 1, 0)


class Event:
    def __init__(self, raw):
        self.uid, self.id, self.type, self.status = struct.unpack("<QIIi", raw[:20])
        self.qpn = struct.unpack("<I", raw[20:24])[0]


class Channel:
    def __init__(self, flags=0):
        self.fd = os.open("/dev/infiniband/rdma_cm", os.O_RDWR | os.O_CLOEXEC | flags)

    def close(self):
        os.close(self.fd)

    def command(self, number, body, room=0):
        packet = struct.pack("<IHH", number, len(body), room) + body
        if os.write(self.fd, packet) != len(packet):
            raise AssertionError("a short write")

    def ask(self, number, body_of, size):
        """Sends a command and returns its answer. `body_of` gets the address for the answer and returns the body."""
        answer = ctypes.create_string_buffer(size)
        self.command(number, body_of(ctypes.addressof(answer)), size)
        return answer.raw

    def create(self, uid, space=PS_TCP, qp_type=0):
        raw = self.ask(CREATE_ID, lambda at: struct.pack("<QQHB5x", uid, at, space, qp_type), 4)
        return struct.unpack("<I", raw)[0]

    def destroy(self, id_):
        raw = self.ask(DESTROY_ID, lambda at: struct.pack("<QII", at, id_, 0), 4)
        return struct.unpack("<I", raw)[0]

    def bind(self, id_, ip, port):
        self.bind_to(id_, sockaddr(ip, port))

    def bind_to(self, id_, address):
        self.command(BIND, struct.pack("<IHH", id_, len(address), 0) + address.ljust(128, b"\0"))

    def listen(self, id_, backlog=0):
        self.command(LISTEN, struct.pack("<Ii", id_, backlog))

    def resolve_addr(self, id_, ip, port):
        self.resolve(id_, sockaddr(ip, port))

    def resolve(self, id_, address):
        self.command(RESOLVE_ADDR, struct.pack("<IIHHI", id_, 2000, 0, len(address), 0) + bytes(128) +
                     address.ljust(128, b"\0"))

    def resolve_route(self, id_):
        self.command(RESOLVE_ROUTE, struct.pack("<II", id_, 2000))

    @staticmethod
    def _param(qpn):
        return struct.pack("<II", qpn, 0) + b"hello".ljust(256, b"\0") + bytes([5, 0, 1, 1, 0, 7, 7, 1])

    def connect(self, id_, qpn):
        self.command(CONNECT, self._param(qpn) + struct.pack("<IIII", id_, 0, 0, 0))

    def accept(self, id_, uid, qpn):
        self.command(ACCEPT, struct.pack("<Q", uid) + self._param(qpn) +
                     struct.pack("<IIII", id_, 0, 0, 0))

    def reject(self, id_):
        self.command(REJECT, struct.pack("<IBB2x", id_, 0, 28) + bytes(256))

    def confirm(self, id_):
        self.command(ACCEPT, bytes(8 + 272) + struct.pack("<IIII", id_, 0, 0, 0))

    def disconnect(self, id_):
        self.command(DISCONNECT, struct.pack("<I", id_))

    def migrate(self, id_, old):
        raw = self.ask(MIGRATE_ID, lambda at: struct.pack("<QII", at, id_, old.fd), 4)
        return struct.unpack("<I", raw)[0]

    def join(self, id_, uid, ip):
        raw = self.ask(JOIN_MCAST, lambda at: struct.pack("<QQIHH", at, uid, id_, 16, 0) +
                       sockaddr(ip, 0).ljust(128, b"\0"), 4)
        return struct.unpack("<I", raw)[0]

    def leave(self, membership):
        raw = self.ask(LEAVE_MCAST, lambda at: struct.pack("<QII", at, membership, 0), 4)
        return struct.unpack("<I", raw)[0]

    def event(self):
        return Event(self.ask(GET_EVENT, lambda at: struct.pack("<Q", at), 336))

    # --- what programs usually do -------------------------------------------------------------

    def listener(self, port=7174, uid=1):
        id_ = self.create(uid)
        self.bind(id_, "0.0.0.0", port)
        self.listen(id_)
        return id_

    def start_connecting(self, uid, qpn, port=7174, ip="127.0.0.1"):
        id_ = self.create(uid)
        self.resolve_addr(id_, ip, port)
        self.expect(ADDR_RESOLVED)
        self.resolve_route(id_)
        self.expect(ROUTE_RESOLVED)
        self.connect(id_, qpn)
        return id_

    def expect(self, type_):
        event = self.event()
        while event.type == TIMEWAIT_EXIT and type_ != TIMEWAIT_EXIT:
            event = self.event()
        if event.type != type_:
            raise AssertionError("event %d (status %d) instead of %d" % (
                event.type, event.status, type_))
        return event
