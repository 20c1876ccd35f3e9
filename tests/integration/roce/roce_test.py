#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""RoCE ports behave like those of adapters: the GID table of an interface, and its addresses as they come and go.

    roce_test.py PREFIX [GROUP]
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import hosts
from hosts import Host, HostCase, full, has_passed, ip

class Table(HostCase):
    """Each GID has its row, and all ways to query the table agree."""

    def test_rows_are_those_of_mlx5(self):
        self.host.up()
        gids = self.host.gids()
        self.assertEqual([gids[i][1] for i in range(8)], ["RoCE v1", "RoCE v2"] * 4)
        self.assertEqual(gids[0][0], "fe80:0000:0000:0000:0256:5202:0a09:0001")
        self.assertEqual(gids[3], (full(self.host.v4), "RoCE v2"))
        further = {full(self.host.v6), full(self.host.link_local)}
        self.assertEqual({gids[5][0], gids[7][0]}, further)
        self.assertEqual(sorted(gids), list(range(8)))

    def test_tools_show_them(self):
        self.host.up()
        text = self.host.run("ibv_devinfo", "-v").stdout
        for index, (gid, kind) in self.host.gids().items():
            if kind == "RoCE v1":
                continue  # ibv_devinfo writes these rows in two ways
            place = f"GID[{index:3}]:"
            self.assertTrue(any(place in line and line.endswith("RoCE v2") for line in text.splitlines()), text)
        root = "/sys/class/infiniband/verbena0/ports/1"
        for index, (gid, kind) in self.host.gids().items():
            script = f"cat {root}/gids/{index} {root}/gid_attrs/types/{index} {root}/gid_attrs/ndevs/{index}"
            lines = self.host.run("sh", "-c", script).stdout.splitlines()
            self.assertEqual(lines, [gid, kind if kind == "RoCE v2" else "IB/RoCE v1", "eth0"])
        self.assertNotEqual(self.host.run("cat", f"{root}/gid_attrs/ndevs/8").returncode, 0)

    def test_a_port_of_an_ipv6_address(self):
        self.host.up("--roce", self.host.v6)
        gids = self.host.gids()
        self.assertEqual(gids[1], (full(self.host.link_local), "RoCE v2"))
        self.assertEqual(gids[3], (full(self.host.v6), "RoCE v2"))
        self.assertEqual(gids[5], (full(self.host.v4), "RoCE v2"))
        for row in (0, 1, 3, 5):
            self.pingpong(self.host, self.host, "-g", str(row))

    def test_an_address_is_of_one_device(self):
        self.host.ip("address", "add", "10.9.0.100/24", "dev", "eth0")
        self.host.up("--roce", self.host.v4, "--roce", "10.9.0.100")
        first, second = ({row["gid"] for row in self.host.device(i)["ports"][0]["gid_table"]} for i in (0, 1))
        self.assertIn(full(self.host.link_local), first)
        self.assertNotIn(full("10.9.0.100"), first)
        self.assertEqual(second, {"fe80:0000:0000:0000:0256:5202:0a09:0064", full("10.9.0.100")})

    def test_a_row_that_another_emulator_uses_is_refused_and_the_others_work(self):
        self.host.up()
        other = Host(1)
        self.addCleanup(other.close)
        self.host.ip("address", "add", "10.9.0.100/24", "dev", "eth0")
        other.up("--roce", "10.9.0.100")
        row = str(self.host.row_of(self.host.link_local))
        listener = self.host.start("ibv_rc_pingpong", "-p", "20000", "-g", row)
        self.until(lambda: self.host.listens(20000), "the server does not listen")
        client = self.host.run("ibv_rc_pingpong", "-p", "20000", "-g", row, self.host.v4)
        self.assertEqual(client.returncode, 0, client.stdout)
        self.assertEqual(listener.wait(hosts.LIMIT), 0)
        row = str(other.row_of(self.host.link_local))
        listener = other.start("ibv_rc_pingpong", "-p", "20001", "-g", row)
        self.until(lambda: other.listens(20001), "the server does not listen")
        client = other.run("ibv_rc_pingpong", "-p", "20001", "-g", row, self.host.v4)
        self.assertNotEqual(client.returncode, 0)
        listener.kill()
        # Either program may be the first to fail.
        self.assertIn("is taken by", client.stdout + listener.communicate()[0])
        self.pingpong(other, other, "-g", "3")


class Rows(HostCase):
    """Every row leads to the host itself, by rings and by UDP."""

    def test_pingpongs(self):
        self.host.up()
        for link in ("auto", "udp"):
            for row in self.host.gids():
                self.pingpong(self.host, self.host, "-g", str(row), link=link)
            for row in (0, 3, self.host.row_of(self.host.link_local)):
                for program in ("ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
                    self.pingpong(self.host, self.host, "-g", str(row), program=program, link=link)

    def test_events_wake_who_sleeps(self):
        self.host.up()
        for link in ("auto", "udp"):
            row = str(self.host.row_of(self.host.v6))
            self.pingpong(self.host, self.host, "-g", row, "-e", link=link)

    def test_the_link_is_a_ring_where_there_can_be_one(self):
        self.host.up()
        row = str(self.host.row_of(self.host.v6))
        before = self.host.device()["ports"][0]["counters"]["shared_ring_packets"]

        def came_by_ring():
            # UDP carries the packets until the ring exists. On a busy machine it may carry all of them.
            self.pingpong(self.host, self.host, "-g", row)
            return self.host.device()["ports"][0]["counters"]["shared_ring_packets"] > before

        self.until(came_by_ring, "no packet went by a ring")

    def test_scripts_that_say_3(self):
        self.host.up()
        for program in ("ib_send_lat", "ib_write_lat", "ib_read_lat"):
            common = [program, "-p", str(hosts.PORT), "-F", "-n", "100", "-x", "3"]
            self.pair(self.host, self.host, common, [*common, self.host.v4])
        # perftest chooses a row by itself.
        common = ["ib_send_lat", "-p", str(hosts.PORT), "-F", "-n", "100"]
        self.pair(self.host, self.host, common, [*common, self.host.v4])

    def test_two_families_do_not_meet(self):
        self.host.up()
        listener = self.host.start("ibv_rc_pingpong", "-p", str(hosts.PORT), "-g", "3")
        self.until(lambda: self.host.listens(hosts.PORT), "the server does not listen")
        row = str(self.host.row_of(self.host.v6))
        client = self.host.run("ibv_rc_pingpong", "-p", str(hosts.PORT), "-g", row, self.host.v4)
        self.assertNotEqual(client.returncode, 0)
        said = client.stdout + listener.communicate(timeout=hosts.LIMIT)[0]
        self.assertIn("addresses of different IP families", said)


class Changes(HostCase):
    """Addresses and MTUs that change while programs run."""

    def test_addresses_come_and_go(self):
        self.host.up()
        watch = self.host.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "verbena0")
        self.until(lambda: self.host.device()["contexts"], "ibv_asyncwatch does not open the device")
        self.host.ip("address", "add", "10.9.0.77/24", "dev", "eth0")
        self.until(lambda: self.host.row_of("10.9.0.77") == 9, lambda: str(self.host.gids()))
        self.assertEqual(self.host.row_of("10.9.0.77", "RoCE v1"), 8)
        self.pingpong(self.host, self.host, "-g", "9")
        row = self.host.row_of(self.host.v6)
        self.host.ip("address", "delete", self.host.v6 + "/64", "dev", "eth0")
        self.until(lambda: row not in self.host.gids(), lambda: str(self.host.gids()))
        self.assertEqual(self.host.row_of("10.9.0.77"), 9)
        # The next address gets the free rows.
        self.host.ip("address", "add", "10.9.0.78/24", "dev", "eth0")
        self.until(lambda: self.host.row_of("10.9.0.78") == row, lambda: str(self.host.gids()))
        watch.terminate()
        text, _ = watch.communicate(timeout=hosts.LIMIT)
        self.assertGreaterEqual(len(re.findall("GID table change|IBV_EVENT_GID_CHANGE", text)), 3, text)

    def test_the_devices_own_address_keeps_its_rows(self):
        self.host.up()
        before = self.host.gids()
        self.host.ip("address", "delete", self.host.v4 + "/24", "dev", "eth0")
        self.until(lambda: not {0, 1, 2, 3} & set(self.host.gids()), lambda: str(self.host.gids()))
        self.host.ip("address", "add", "10.9.0.79/24", "dev", "eth0")
        self.until(lambda: self.host.row_of("10.9.0.79"), lambda: str(self.host.gids()))
        self.host.ip("address", "add", self.host.v4 + "/24", "dev", "eth0")
        self.until(lambda: {i: self.host.gids().get(i) for i in range(8)} == before, lambda: str(self.host.gids()))
        self.pingpong(self.host, self.host, "-g", "3", link="udp")

    def test_a_free_row_is_refused(self):
        self.host.up()
        listener = self.host.start("ibv_ud_pingpong", "-p", str(hosts.PORT), "-g", "12")
        self.until(lambda: self.host.listens(hosts.PORT), "the server does not listen")
        client = self.host.run("ibv_ud_pingpong", "-p", str(hosts.PORT), "-g", "3", self.host.v4)
        self.assertNotEqual(client.returncode, 0)
        said = client.stdout + listener.communicate(timeout=hosts.LIMIT)[0]
        self.assertIn("that row of the port's GID table is free", said)

    def test_the_active_mtu_follows_the_interface(self):
        self.host.up()
        for mtu, active in ((9000, "4096"), (1500, "1024"), (2500, "2048")):
            self.host.ip("link", "set", "eth0", "mtu", str(mtu))
            self.until(lambda a=active: f"active_mtu:\t\t{a}" in self.host.run("ibv_devinfo").stdout,
                       lambda: self.host.run("ibv_devinfo").stdout)

    def test_datagrams_have_the_ports_mtu(self):
        """Also when it changes while a program has the queue pair."""
        self.host.up()
        script = str(pathlib.Path(__file__).resolve().parent / "datagrams.py")
        program = subprocess.Popen([*self.host.enter, f"{hosts.PREFIX}/bin/verbena", "run", "--", "/usr/bin/python3", script],
                                   env=self.host.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.host.started.append(program)

        def takes(size):
            program.stdin.write(f"{size}\n")
            program.stdin.flush()
            return program.stdout.readline() == "posted\n"
        self.assertTrue(takes(1024))
        self.assertFalse(takes(1025))
        self.host.ip("link", "set", "eth0", "mtu", "2500")
        self.until(lambda: takes(1025), "the old MTU stays")
        self.assertTrue(takes(2048))
        self.assertFalse(takes(2049))
        program.stdin.close()
        self.assertIn("the port's active_mtu = 1024; ", program.stderr.read())
        program.stdout.close()
        program.stderr.close()

    def test_a_program_that_runs_sees_the_new_mtu(self):
        """A program asks for the MTU when it connects, after it has opened the device."""
        self.host.up()
        script = ("import pyverbs.device as d, sys\n"
                  "c = d.Context(name='verbena0')\n"
                  "for line in sys.stdin: print(c.query_port(1).active_mtu, flush=True)\n")
        program = subprocess.Popen([*self.host.enter, f"{hosts.PREFIX}/bin/verbena", "run", "--", "/usr/bin/python3", "-c", script],
                                   env=self.host.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.host.started.append(program)

        def active():
            program.stdin.write("?\n")
            program.stdin.flush()
            return program.stdout.readline().strip()

        self.assertEqual(active(), "3")
        self.host.ip("link", "set", "eth0", "mtu", "9000")
        self.until(lambda: active() == "5", "the old MTU stays")


def captured(case, program):
    """Captures all that happens on the host while `program` runs. Returns (source, direction) of each packet."""
    path = str(case.host.folder / "packets.pcapng")
    words = [*case.host.enter, f"{hosts.PREFIX}/bin/verbena", "capture", path]
    with subprocess.Popen(words, env=case.host.environment, stderr=subprocess.PIPE, text=True) as capture:
        case.addCleanup(capture.kill)
        case.assertIn("capturing", capture.stderr.readline())
        program()
        capture.send_signal(signal.SIGINT)
        case.assertEqual(capture.wait(hosts.LIMIT), 0)
    done = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "ip.src", "-e", "frame.packet_flags_direction"],
                          capture_output=True, text=True, timeout=hosts.LIMIT * 4, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return [(source, {1: "in", 2: "out"}[int(flags, 16) & 3]) for source, flags in lines]


class Captures(HostCase):
    """A capture has each packet once, while addresses come and go."""

    def test_an_address_that_comes_meanwhile(self):
        """Programs that run, programs that start later, and the emulator learn of the address."""
        self.host.up()
        server = self.host.start("rping", "-s", "-P", "-a", "::")

        def ping(address):
            client = ["rping", "-c", "-a", address, "-C", "5", "-v", "-V"]
            self.until(lambda: has_passed(client, self.host.run(*client)), "no answer")

        def program():
            ping(self.host.v4)
            self.host.ip("address", "add", "10.9.0.77/24", "dev", "eth0")
            self.until(lambda: self.host.row_of("10.9.0.77"), lambda: str(self.host.gids()))
            ping("10.9.0.77")
            self.pingpong(self.host, self.host, "-g", str(self.host.row_of("10.9.0.77")), link="udp")

        packets = captured(self, program)
        server.kill()
        self.assertEqual({direction for _, direction in packets}, {"out"})
        self.assertGreater(sum(source == "10.9.0.77" for source, _ in packets), 200)


class Connections(HostCase):
    """Connects with rdma_cm by each address."""

    def test_rping_by_each_address(self):
        self.host.up()
        for address in (self.host.v4, self.host.v6):
            server = ["rping", "-s", "-a", address, "-C", "5", "-v"]
            client = ["rping", "-c", "-a", address, "-C", "5", "-v", "-V"]
            text = self.cm(self.host, self.host, server, client)
            self.assertEqual(text.count("server ping data"), 5, text)

    def test_who_listens_anywhere_hears_each(self):
        self.host.up()
        for address in (self.host.v4, self.host.v6):
            self.cm(self.host, self.host, ["rping", "-s", "-a", "::", "-C", "5"],
                    ["rping", "-c", "-a", address, "-C", "5", "-v", "-V"])

    def test_udaddy(self):
        self.host.up()
        for address in (self.host.v4, self.host.v6):
            self.cm(self.host, self.host, ["udaddy", "-b", address], ["udaddy", "-s", address])


class Hosts(HostCase):
    """Two hosts, each with an emulator, talk by RoCE v2 over IPv4 or IPv6."""

    def setUp(self):
        super().setUp()
        sleeper = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        own = os.readlink("/proc/self/ns/net")
        self.until(lambda: os.readlink(f"/proc/{sleeper.pid}/ns/net") != own, "no second namespace")
        ip("link", "set", "other", "netns", str(sleeper.pid))
        self.far = Host(2, ["nsenter", "-t", str(sleeper.pid), "-n"])
        self.addCleanup(self.far.close)
        self.far.take("other")
        self.host.up()
        self.far.up()

    def test_pingpongs_by_each_row(self):
        for row in self.host.gids():
            self.pingpong(self.host, self.far, "-g", str(row))
        for row in (0, 3, self.host.row_of(self.host.link_local), self.host.row_of(self.host.v6)):
            self.pingpong(self.host, self.far, "-g", str(row), program="ibv_ud_pingpong")

    def test_an_address_that_moves_while_a_capture_runs(self):
        """Packets from the moved address are recorded where they arrive, because the address is another host's now."""
        self.host.ip("address", "add", "10.9.0.77/24", "dev", "eth0")
        self.until(lambda: self.host.row_of("10.9.0.77"), lambda: str(self.host.gids()))

        def program():
            self.pingpong(self.host, self.host, "-g", str(self.host.row_of("10.9.0.77")), link="udp")
            row = self.host.row_of("10.9.0.77")
            self.host.ip("address", "delete", "10.9.0.77/24", "dev", "eth0")
            self.until(lambda: row not in self.host.gids(), lambda: str(self.host.gids()))
            self.far.ip("address", "add", "10.9.0.77/24", "dev", "eth0")
            self.until(lambda: self.far.row_of("10.9.0.77"), lambda: str(self.far.gids()))
            options = ["ibv_rc_pingpong", "-p", str(hosts.PORT), "-n", "100", "-g"]
            self.pair(self.host, self.far, [*options, "3"],
                      [*options, str(self.far.row_of("10.9.0.77")), self.host.v4])

        packets = captured(self, program)
        for direction in ("in", "out"):
            self.assertGreater(packets.count(("10.9.0.77", direction)), 99)

    def test_rping_by_ipv6(self):
        for address in (self.host.v6, self.host.v4):
            self.cm(self.host, self.far, ["rping", "-s", "-a", address, "-C", "5"],
                    ["rping", "-c", "-a", address, "-C", "5", "-v", "-V"])


class Kinds(HostCase):
    """An InfiniBand and a RoCE device of one emulator."""

    def test_they_do_not_talk(self):
        self.host.up("--roce", self.host.v4, "--device", "roce", "--device", "ib")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kinds.py")
        done = self.host.run("/usr/bin/python3", script)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("is of an InfiniBand port; this one is a RoCE port", done.stdout)
        self.assertIn("it is of no InfiniBand port", done.stdout)

    def test_one_subnet_manager_for_a_fabric(self):
        self.host.up("--device", "a", "--device", "b")
        for name in ("a", "b"):
            text = self.host.run("cat", f"/sys/class/infiniband/{name}/ports/1/sm_lid").stdout
            self.assertEqual(text, "0x1\n")


class Ucx(HostCase):
    """UCX recognises the IPv4 header before a datagram, as on mlx5."""

    def perftest(self, transport, **variables):
        environment = {"UCX_TLS": transport + ",self", "UCX_NET_DEVICES": "verbena0:1", **variables}
        server = self.host.start("ucx_perftest", "-p", str(hosts.PORT), **environment)
        self.until(lambda: self.host.listens(hosts.PORT) or server.poll() is not None, "the server does not listen")
        done = self.host.run("ucx_perftest", self.host.v4, "-p", str(hosts.PORT), "-t", "tag_lat", "-n", "200", "-w", "10",
                             **environment)
        server.kill()
        text, _ = server.communicate()
        self.assertEqual(done.returncode, 0, done.stdout + text)
        self.assertIn("Final:", done.stdout)
        self.assertNotIn("UCX  ERROR", done.stdout + text)

    def test_each_transport_and_row(self):
        self.host.up()
        for transport in ("ud_v", "rc_v"):
            self.perftest(transport)
            self.perftest(transport, UCX_IB_GID_INDEX="3")
            self.perftest(transport, UCX_IB_GID_INDEX=str(self.host.row_of(self.host.v6)))
        self.perftest("ud_v", UCX_IB_GID_INDEX="3", link="udp")


def enter_namespace():
    """Runs the program again in a network namespace. Ends it if it may not make one, because there is nothing to test."""
    if os.environ.get("VERBENA_ROCE_TEST") == "inside":
        return
    words = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        sys.exit("this container may not make a network namespace")
    os.environ["VERBENA_ROCE_TEST"] = "inside"
    os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv])


if __name__ == "__main__":
    enter_namespace()
    ip("link", "set", "lo", "up")
    hosts.PREFIX = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
