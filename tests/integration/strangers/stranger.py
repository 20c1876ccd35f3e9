# SPDX-License-Identifier: BSD-2-Clause
"""What another user of the host can send: any datagram, with any local address as its source.

All of this runs as nobody, in a child of the test.
"""

import os
import socket
import struct
import zlib

NOBODY = 65534
ROCE_PORT = 4791
OWN_ADDRESS = "127.0.0.77"  # the stranger's address, which is in no fabric
IP_PKTINFO, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 8, 10, 3
SO_REUSEPORT, SO_REUSEADDR = 15, 2


def as_nobody(action):
    """Runs the action in a child of another user. Its error becomes an error of the test."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
        except BaseException as error:  # the parent raises any error again
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        said = text.read()
    os.waitpid(child, 0)
    if said:
        raise AssertionError(f"the stranger: {said}")


def icrc(source, destination, source_port, packet):
    """Returns the ICRC of an IPv4 packet with identification 0; `packet` begins with the BTH."""
    udp_length = 8 + len(packet) + 4
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0xff, 20 + udp_length, 0, 0x4000, 0xff, 17, 0xffff,
                     socket.inet_aton(source), socket.inet_aton(destination))
    udp = struct.pack("!HHHH", source_port, ROCE_PORT, udp_length, 0xffff)
    masked = packet[:4] + b"\xff" + packet[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


class Stranger:
    """A socket of the stranger, and the source address of its datagrams. It stays open until the process ends."""

    all_sockets = []

    def __init__(self, bound, source=None, port=0, shares=False):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.all_sockets.append(self.socket)
        if shares:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_REUSEPORT, 1)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        self.socket.bind((bound, port))
        self.source = source or bound
        self.port = self.socket.getsockname()[1]

    def send(self, packet, destination):
        sealed = packet + icrc(self.source, destination, self.port, packet)
        info = struct.pack("i4s4s", 0, socket.inet_aton(self.source), b"\0" * 4)
        self.socket.sendmsg([sealed], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0,
                            (destination, ROCE_PORT))


def all_ways(victim):
    """Yields sockets that send from the stranger's address, from one that is bound to the victim's address, and with
    the victim's address as the source of a socket bound elsewhere. Each has an even and an odd port, which say whether
    there is a GRH. The last one has the port of RoCEv2."""
    for bound, source in ((OWN_ADDRESS, OWN_ADDRESS), (victim, victim), (OWN_ADDRESS, victim)):
        parities = set()
        for _ in range(64):
            way = Stranger(bound, source)
            if way.port % 2 in parities:
                continue
            parities.add(way.port % 2)
            yield way
            if len(parities) == 2:
                break
    yield Stranger(OWN_ADDRESS, victim, ROCE_PORT)


def bth(opcode, qpn, psn, asks=False, pad=0):
    return struct.pack("!BBHII", opcode, 0x40 | pad << 4, 0xffff, qpn, (0x80000000 if asks else 0) | psn & 0xffffff)


def send_only(qpn, psn, payload):
    """Returns an RC SEND of one packet."""
    return bth(0x04, qpn, psn, True) + payload


def acknowledgement(qpn, psn, syndrome=0x1f, msn=1):
    return bth(0x11, qpn, psn) + struct.pack("!I", syndrome << 24 | msn)


def mad(attribute, body, transaction=1, psn=0):
    header = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, transaction, attribute, 0, 0)
    return (bth(0x64, 1, psn) + struct.pack("!II", 0x80010000, 1) + header + body.ljust(232, b"\0"))


def cm_req(guid, qpn, comm_id, service, source, destination):
    """Returns a request for a connection in the name of the queue pair `qpn` of the device `guid`."""
    body = bytearray(232)
    struct.pack_into("!I", body, 0, comm_id)
    struct.pack_into("!QQ", body, 8, service, guid)
    struct.pack_into("!I", body, 32, qpn << 8 | 1)
    struct.pack_into("!I", body, 40, 18 << 3)
    struct.pack_into("!I", body, 44, 0x123400 | 18 << 3 | 7)
    struct.pack_into("!HBB", body, 48, 0xffff, 3 << 4 | 7, 15 << 4)
    struct.pack_into("!HH", body, 52, 1, 1)
    body[140] = 0
    body[141] = 4 << 4
    struct.pack_into("!H", body, 142, 40000)
    body[140 + 16:140 + 20] = socket.inet_aton(source)
    body[140 + 32:140 + 36] = socket.inet_aton(destination)
    return mad(0x0010, bytes(body), comm_id)


def cm_dreq(local_id, remote_id, qpn):
    return mad(0x0015, struct.pack("!III", local_id, remote_id, qpn << 8))


def cm_rej(local_id, remote_id, reason):
    return mad(0x0012, struct.pack("!IIBBH", local_id, remote_id, 0, 0, reason))


def may_bind(address, port, option=None, family=socket.AF_INET):
    """Returns whether the stranger gets a socket at a port."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        if option is not None:
            probe.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
