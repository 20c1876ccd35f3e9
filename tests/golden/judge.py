#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Asks tshark and scapy what they see in the golden packets, and compares with what was meant.

    judge.py WITNESS WORK_DIRECTORY

WITNESS writes a capture and, line by line, what each packet was meant to be. tshark must decode
every opcode, header field, payload and ICRC position to those values. scapy must compute the same
ICRC for every IPv4 packet. A plain computation below must do so for IPv6 as well, for which scapy
2.5 cannot compute it. A missing program is a failure, not a skip.

tshark 4.0 knows the names of the XRC opcodes but not their headers, and neither name nor headers of
CNP (0x81), FLUSH and ATOMIC WRITE. It still judges BTH and length of these packets themselves. It
judges their other headers in a translation: the header that it does not know is compared here byte
for byte and cut out, and the opcode is replaced by the RC opcode that fits the rest.
"""

import json
import os
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib

PCAP_HEADER = 24
RECORD_HEADER = 16
BTH = 12
ICRC = 4

UNNAMED = {0x81: "CNP", 0x1C: "FLUSH", 0x1D: "ATOMIC WRITE", 0xBC: "FLUSH", 0xBD: "ATOMIC WRITE"}
SERVICES = {
    "RC": "Reliable Connection (RC)",
    "UC": "Unreliable Connection (UC)",
    "UD": "Unreliable Datagram (UD)",
    "XRC": "Extended Reliable Connection (XRC)",
}

# Maps what was meant to the field in which tshark shows it.
TSHARK_BTH = {
    "opcode": "infiniband.bth.opcode",
    "solicited": "infiniband.bth.se",
    "migreq": "infiniband.bth.m",
    "pad": "infiniband.bth.padcnt",
    "version": "infiniband.bth.tver",
    "pkey": "infiniband.bth.p_key",
    "dest_qp": "infiniband.bth.destqp",
    "ack_request": "infiniband.bth.a",
    "psn": "infiniband.bth.psn",
}
TSHARK_EXTENSIONS = {
    "qkey": "infiniband.deth.q_key",
    "source_qp": "infiniband.deth.srcqp",
    "reth_va": "infiniband.reth.va",
    "reth_rkey": "infiniband.reth.r_key",
    "reth_length": "infiniband.reth.dmalen",
    "atomic_va": "infiniband.reth.va",
    "atomic_rkey": "infiniband.reth.r_key",
    "swap_or_add": "infiniband.atomiceth.swapdt",
    "compare": "infiniband.atomiceth.cmpdt",
    "syndrome": "infiniband.aeth.syndrome",
    "msn": "infiniband.aeth.msn",
    "original": "infiniband.atomicacketh.origremdt",
}

failures = []


def check(packet, what, seen, meant):
    if seen != meant:
        failures.append(f"{packet}: {what} is seen as {seen!r}, meant was {meant!r}")


def read_pcap(path):
    with open(path, "rb") as file:
        data = file.read()
    at = PCAP_HEADER
    while at < len(data):
        length = struct.unpack_from("=I", data, at + 8)[0]
        yield data[at + RECORD_HEADER : at + RECORD_HEADER + length]
        at += RECORD_HEADER + length


def write_pcap(path, datagrams):
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for index, datagram in enumerate(datagrams):
            file.write(struct.pack("=IIII", 1700000000, index, len(datagram), len(datagram)))
            file.write(datagram)


def tshark(path):
    """Returns a dictionary per packet: field name -> first (show, showname, raw hex)."""
    run = subprocess.run(
        ["tshark", "-r", path, "-T", "pdml"], check=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL)
    packets = []
    for packet in ElementTree.fromstring(run.stdout).iter("packet"):
        fields = {}
        for field in packet.iter("field"):
            seen = (field.get("show", ""), field.get("showname", ""), field.get("value", ""))
            fields.setdefault(field.get("name"), seen)
        packets.append(fields)
    return packets


def number(fields, name):
    text = fields.get(name, ("absent",))[0]
    try:
        return int(text, 0)
    except ValueError:
        return text


def ip_header_length(datagram):
    return 20 if datagram[0] >> 4 == 4 else 40


def roce(datagram):
    """Returns the bytes from BTH to ICRC."""
    return datagram[ip_header_length(datagram) + 8 :]


def judge_bth(label, fields, meant):
    for key, name in TSHARK_BTH.items():
        check(label, name, number(fields, name), meant[key])
    congestion = meant["fecn"] << 7 | meant["becn"] << 6
    reserved = fields.get("infiniband.reserved", ("", "", ""))[2]
    check(label, "FECN and BECN", reserved, f"{congestion:02x}")


def judge_name(label, fields, meant):
    showname = fields["infiniband.bth.opcode"][1]
    if meant["opcode"] in UNNAMED:
        # A later tshark may know the opcode. Then its name must be right.
        if "Unknown" not in showname and "Reserved" not in showname:
            check(label, "name", UNNAMED[meant["opcode"]] in showname.upper(), True)
        return
    service, operation = meant["opcode_name"].split(" ", 1)
    wanted = f"Opcode: {SERVICES[service]} - {operation} ({meant['opcode']})"
    check(label, "name", showname.lower(), wanted.lower())


def judge_extensions(label, fields, meant):
    for key, name in TSHARK_EXTENSIONS.items():
        if key in meant:
            check(label, name, number(fields, name), meant[key])
    for header, keys in {
        "infiniband.deth": ("qkey",), "infiniband.reth": ("reth_va",),
        "infiniband.atomiceth": ("atomic_va",), "infiniband.aeth": ("syndrome",),
        "infiniband.atomicacketh": ("original",), "infiniband.immdt": ("immediate",),
        "infiniband.ieth": ("invalidate_rkey",),
    }.items():
        check(label, f"presence of {header}", header in fields, any(k in meant for k in keys))
    if "immediate" in meant:
        check(label, "immediate", fields["infiniband.immdt"][0].replace(":", ""),
              meant["immediate"])
    if "invalidate_rkey" in meant:
        check(label, "invalidate", fields["infiniband.ieth"][0].replace(":", ""),
              f"{meant['invalidate_rkey']:08x}")
    data = fields.get("data.data", ("", "", ""))[2]
    check(label, "payload", data, meant["payload"] + "00" * meant["pad"])
    check(label, "ICRC's place", fields.get("infiniband.invariant.crc", ("", "", ""))[2],
          meant["icrc"])


def translate(datagram, meant):
    """Returns the packet without what tshark does not know, or None if there is no such thing."""
    packet = roce(datagram)
    opcode, at, label = meant["opcode"], BTH, meant["name"]
    if opcode == 0x81:
        check(label, "reserved bytes", packet[BTH:-ICRC], bytes(16))
        return None
    if opcode >> 5 == 5:
        opcode &= 0x1F
        if "srqn" in meant:
            check(label, "XRCETH", packet[at : at + 4], struct.pack("!I", meant["srqn"]))
            at += 4
    if opcode == 0x1C:
        feth = meant["selectivity"] << 4 | meant["placement_type"]
        check(label, "FETH", packet[at : at + 4], struct.pack("!I", feth))
        at += 4
        opcode = 0x0C
    if opcode == 0x1D:
        opcode = 0x0A
    if opcode == meant["opcode"]:
        return None
    rest = bytes([opcode]) + packet[1:BTH] + packet[at:]
    ip = bytearray(datagram[: ip_header_length(datagram)])
    if len(ip) == 20:
        struct.pack_into("!H", ip, 2, 28 + len(rest))
    else:
        struct.pack_into("!H", ip, 4, 8 + len(rest))
    ports = datagram[len(ip) : len(ip) + 4]
    return bytes(ip) + ports + struct.pack("!HH", 8 + len(rest), 0) + rest


def plain_icrc(datagram):
    """Computes the ICRC by the rule, over the whole datagram without its last four bytes."""
    masked = bytearray(datagram[:-ICRC])
    ip = ip_header_length(datagram)
    if ip == 20:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    else:
        masked[0] |= 0x0F
        masked[1] = masked[2] = masked[3] = masked[7] = 0xFF
    masked[ip + 6] = masked[ip + 7] = 0xFF
    masked[ip + 8 + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def judge_icrc(datagrams, meant):
    from scapy.all import IP, raw
    from scapy.contrib.roce import BTH as ScapyBth

    judged = 0
    for datagram, m in zip(datagrams, meant):
        check(m["name"], "ICRC (plain)", plain_icrc(datagram).hex(), m["icrc"])
        if datagram[0] >> 4 != 4:
            continue
        packet = IP(datagram)
        del packet[ScapyBth].icrc
        check(m["name"], "ICRC (scapy)", raw(packet)[-ICRC:].hex(), m["icrc"])
        check(m["name"], "opcode (scapy)", packet[ScapyBth].opcode, m["opcode"])
        if m["opcode"] == 0x81:
            name = packet[ScapyBth].get_field("opcode").i2s.get(0x81)
            check(m["name"], "name (scapy)", name, "CNP")
        judged += 1
    return judged


def main():
    witness, directory = sys.argv[1:3]
    os.makedirs(directory, exist_ok=True)
    capture = os.path.join(directory, "golden.pcap")
    lines = os.path.join(directory, "golden.jsonl")
    subprocess.run([witness, capture, lines], check=True)
    with open(lines, encoding="utf-8") as file:
        meant = [json.loads(line) for line in file]
    datagrams = list(read_pcap(capture))
    seen = tshark(capture)
    check("capture", "packets", (len(seen), len(datagrams)), (len(meant), len(meant)))

    translated, translated_meant = [], []
    for fields, datagram, m in zip(seen, datagrams, meant):
        judge_bth(m["name"], fields, m)
        judge_name(m["name"], fields, m)
        other = translate(datagram, m)
        if other is not None:
            translated.append(other)
            translated_meant.append(m)
        elif m["opcode"] != 0x81:
            judge_extensions(m["name"], fields, m)

    translation = os.path.join(directory, "translated.pcap")
    write_pcap(translation, translated)
    seen_translated = tshark(translation)
    check("translation", "packets", len(seen_translated), len(translated_meant))
    for fields, m in zip(seen_translated, translated_meant):
        judge_extensions(m["name"] + " (translated)", fields, m)

    by_scapy = judge_icrc(datagrams, meant)
    for failure in failures:
        print(failure)
    opcodes = len({m["opcode"] for m in meant})
    print(f"{len(meant)} packets, {opcodes} opcodes: tshark judged {len(seen)}, "
          f"{len(translated)} of them in translation; scapy computed {by_scapy} ICRCs; "
          f"{len(failures)} disagreements")
    return 1 if failures or by_scapy == 0 or opcodes == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
