# SPDX-License-Identifier: BSD-2-Clause
"""What `verbena status` shows of rdma_cm IDs: their states, and their unread events.

    status_test.py BIN LIBRARY [FIRST]     FIRST: what must be loaded before (a sanitizer's runtime)
"""

import ipaddress
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "emulator"))
import json_schema  # noqa: E402

from rdma_cm_case import RdmaCmCase, binary, run
from rdma_cm_channel import *


class Status(RdmaCmCase):
    def verbena(self, *words):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        done = subprocess.run([binary("verbena"), "status", *words], env=env, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def ids(self):
        status = json.loads(self.verbena("--json"))
        self.assertEqual(json_schema.wrong(status, json_schema.load("status")), [])
        return status["cm_ids"]

    def shown(self, *fields):
        """Returns these fields of all IDs, in the order in which the IDs were made."""
        return [tuple(id_[field] for field in fields) for id_ in self.ids()]

    def states(self):
        return [id_["state"] for id_ in self.ids()]

    def test_an_id_that_listens(self):
        server = self.channel()
        id_ = server.create(1)
        server.bind(id_, "0.0.0.0", 7174)
        server.listen(id_, 5)
        program = pathlib.Path("/proc/self/comm").read_text(encoding="utf-8").strip()
        self.assertEqual(self.ids(), [{
            "id": id_, "pid": os.getpid(), "program": program, "state": "LISTEN", "port_space": "TCP",
            "source": "0.0.0.0:7174", "destination": None, "device": None, "qpn": None, "backlog": 5,
            "unread_events": 0}])

    def test_the_way_to_a_connection(self):
        channel = self.channel()
        self.assertEqual(self.ids(), [])
        id_ = channel.create(1)
        self.assertEqual(self.states(), ["IDLE"])
        channel.bind(id_, "0.0.0.0", 0)
        self.assertEqual(self.states(), ["BOUND"])
        channel.resolve_addr(id_, "127.0.0.1", 7174)
        channel.expect(ADDR_RESOLVED)
        self.assertEqual(self.states(), ["ADDR_RESOLVED"])
        channel.resolve_route(id_)
        channel.expect(ROUTE_RESOLVED)
        self.assertEqual(self.shown("state", "destination", "device"), [("ROUTE_RESOLVED", "127.0.0.1:7174", "verbena0")])

    def test_a_connection(self):
        """The server first has read no event of the connection, then all."""
        server, client = self.channel(), self.channel()
        server.listener()
        active = client.start_connecting(10, 0x4001)
        fields = ("state", "qpn", "unread_events")
        self.until(lambda: self.shown(*fields) == [
            ("LISTEN", None, 1), ("CONNECT", "0x004001", 0), ("REQUEST", None, 1)])
        passive = server.expect(CONNECT_REQUEST).id
        self.assertEqual(self.shown(*fields)[2], ("REQUEST", None, 0))
        server.accept(passive, 20, 0x8001)
        client.expect(CONNECT_RESPONSE)
        client.confirm(active)
        self.until(lambda: self.shown(*fields) == [
            ("LISTEN", None, 1), ("CONNECTED", "0x004001", 0), ("CONNECTED", "0x008001", 1)])
        server.expect(ESTABLISHED)
        client.disconnect(active)
        server.expect(DISCONNECTED)
        self.assertEqual(self.states(), ["LISTEN", "DISCONNECT", "DISCONNECTED"])
        server.disconnect(passive)
        client.expect(DISCONNECTED)
        self.assertEqual(self.states(), ["LISTEN", "DISCONNECTED", "DISCONNECTED"])
        server.destroy(passive)
        client.destroy(active)
        self.assertEqual(self.states(), ["LISTEN"])

    def test_a_request_that_is_rejected(self):
        server, client = self.channel(), self.channel()
        server.listener()
        client.start_connecting(10, 0x4001)
        passive = server.expect(CONNECT_REQUEST).id
        self.assertEqual(self.states(), ["LISTEN", "CONNECT", "REQUEST"])
        server.reject(passive)
        client.expect(REJECTED)
        self.assertEqual(self.states(), ["LISTEN", "FAILED", "REJECTED"])

    def test_port_spaces(self):
        channel = self.channel()
        for space in (PS_TCP, PS_UDP, PS_IPOIB):
            channel.create(1, space)
        channel.create(1, PS_IB, qp_type=2)
        self.assertEqual(self.shown("port_space"), [("TCP",), ("UDP",), ("IPOIB",), ("IB",)])

    def test_addresses_of_ipv6(self):
        def whole(address):
            """Returns the address in the form in which `verbena status` writes IPv6 addresses and GIDs."""
            return f"[{ipaddress.IPv6Address(address).exploded}]"

        channel = self.channel()
        listener, active = channel.create(1), channel.create(2)
        channel.bind_to(listener, sockaddr_in6("::", 7174))
        channel.listen(listener)
        channel.resolve(active, sockaddr_in6("::1", 7174))
        channel.expect(ADDR_RESOLVED)
        port = self.ids()[1]["source"].rsplit(":", 1)[1]
        self.assertEqual(self.shown("source", "destination", "device"), [
            (f"{whole('::')}:7174", None, None), (f"{whole('::1')}:{port}", f"{whole('::1')}:7174", "verbena0")])

    def test_addresses_of_infiniband(self):
        """Addresses are GIDs and service IDs; a service ID contains the port."""
        gid = json.loads(self.verbena("--json"))["devices"][0]["ports"][0]["gids"][0]
        channel = self.channel()
        listener, active = channel.create(1, PS_IB, qp_type=2), channel.create(2, PS_IB, qp_type=2)
        channel.bind_to(listener, sockaddr_ib(gid, PS_IB, 7174))
        channel.listen(listener)
        channel.resolve(active, sockaddr_ib(gid, PS_IB, 7174))
        channel.expect(ADDR_RESOLVED)
        port = self.ids()[1]["source"].rsplit(":", 1)[1]
        self.assertEqual(self.shown("source", "destination", "device", "port_space"), [
            (f"[{gid}]:7174", None, "verbena0", "IB"), (f"[{gid}]:{port}", f"[{gid}]:7174", "verbena0", "IB")])

    def test_many(self):
        """So many IDs take more than one page of the answer."""
        channel = self.channel()
        made = [channel.create(n) for n in range(1, 301)]
        self.assertEqual([number for number, in self.shown("id")], made)

    def test_in_words(self):
        server, client = self.channel(), self.channel()
        server.listener()
        client.start_connecting(10, 0x4001)
        self.until(lambda: "REQUEST" in self.states())
        text = self.verbena()
        of = rf"^rdma_cm ID of pid {os.getpid()} \(\S+\): "
        for line in (r"LISTEN TCP 0\.0\.0\.0:7174, backlog \d+; events of its channel not read: 1$",
                     r"CONNECT TCP 127\.\S+ -> 127\.0\.0\.1:7174 on verbena0, QP 0x004001$"):
            self.assertRegex(text, "(?m)" + of + line)


if __name__ == "__main__":
    run()
