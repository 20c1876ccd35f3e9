# SPDX-License-Identifier: BSD-2-Clause
"""Makes RoCEv2 packets, with a checksum that is computed from the specification alone (IBTA Vol 1, annex A17)."""

import socket
import struct
import zlib

PORT = 4791
# With PMTUDISC_PROBE for IP_MTU_DISCOVER the kernel numbers no packets: their IP identification is 0.
PMTUDISC_PROBE = 3
IP_MTU_DISCOVER = 10

RC_SEND_ONLY, RC_WRITE_FIRST, RC_WRITE_LAST, RC_WRITE_ONLY, RC_ACK = 0x04, 0x06, 0x08, 0x0a, 0x11
UC_SEND_ONLY, UD_SEND_ONLY, CNP = 0x24, 0x64, 0x81


def bth(opcode, qpn, psn=100, pkey=0xffff, pad=0, version=0, ask=False):
    return struct.pack(">BBHII", opcode, pad << 4 | version, pkey, qpn, ask << 31 | psn)


def deth(qkey, qpn=1):
    return struct.pack(">II", qkey, qpn)


def reth(address, key, length):
    return struct.pack(">QII", address, key, length)


def aeth(syndrome, msn=0):
    return struct.pack(">I", syndrome << 24 | msn)


def icrc(source, destination, source_port, packet):
    """Returns the ICRC: over eight bytes of ones for a link header, then the packet, with ones for what changes on the
    way."""
    udp_length = 8 + len(packet) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xff, 20 + udp_length, 0, 0x4000, 0xff, socket.IPPROTO_UDP, 0xffff,
                     socket.inet_aton(source), socket.inet_aton(destination))
    udp = struct.pack(">HHHH", source_port, PORT, udp_length, 0xffff)
    masked = packet[:4] + b"\xff" + packet[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


class Forger:
    """Sends packets from one address of this host to another. The port is one of the emulator's: other ports are
    ignored."""

    def __init__(self, source, destination, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.socket.bind((source, port))
        self.source, self.destination = source, destination

    def send(self, packet):
        check = icrc(self.source, self.destination, self.socket.getsockname()[1], packet)
        self.send_raw(packet + check)

    def send_raw(self, datagram):
        self.socket.sendto(datagram, (self.destination, PORT))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
