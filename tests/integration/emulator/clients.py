# SPDX-License-Identifier: BSD-2-Clause
"""What clients of the control socket get, both honest ones and others."""

import contextlib
import errno
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import control_client as cc
from emulator_case import EmulatorCase


class Clients(EmulatorCase):
    def test_slots_and_their_return(self):
        self.up()
        first, second = cc.Client(self.dir).open_device(), cc.Client(self.dir).open_device()
        self.assertEqual([first.slot, second.slot], [1, 2])
        extra = struct.unpack("<I", first.call(cc.EXTRA_SLOT)[1])[0]
        self.assertNotIn(extra, (0, 1, 2, 1023))
        with self.assertRaisesRegex(cc.Refused, "has a context already"):
            first.open_device()
        first.close()
        self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "slot not returned")
        again = cc.Client(self.dir).open_device()
        self.assertEqual(again.slot, 1)
        with self.assertRaisesRegex(cc.Refused, 'no device "x"; this emulator has verbena0'):
            cc.Client(self.dir).open_device("x")
        again.close()
        second.close()

    def test_sockets_to_send_from(self):
        """A client in another network namespace gets a socket for each parity of the source port, at the device's
        address."""
        self.up("--roce", "127.0.0.1", "--device", "roce", "--device", "ib")
        for device, parities in (("ib", {0, 1}), ("roce", None)):
            with cc.Client(self.dir).open_device(device) as here, cc.Client(self.dir).open_device(device, network=1) as there:
                self.assertEqual(len(here.fds), 2)
                ports = []
                for fd in there.fds[2:]:
                    with socket.socket(fileno=os.dup(fd)) as sender:
                        address, port = sender.getsockname()
                        self.assertEqual(address, self.address if device == "ib" else "127.0.0.1")
                        ports.append(port)
                self.assertEqual(len(ports), len(parities or {0}))
                self.assertIn({port % 2 for port in ports}, [parities] if parities else [{0}, {1}])

    def test_a_ring_to_nobody(self):
        """The client is told why it has no ring to a peer elsewhere, but not why it has none to a peer that has just
        ended."""
        self.up()
        client = cc.Client(self.dir).open_device()
        elsewhere = "127.1.2.3"
        for address in (self.address, elsewhere):
            client.send(cc.RING_REQUEST, cc.mapped(address) + struct.pack("<I", client.slot + 1) + cc.mapped(self.address))
        body = client.next_unasked(cc.RING_OUTBOUND)[2]
        self.assertEqual(body[12:16], socket.inet_aton(elsewhere))
        self.assertIn(b"no context of this emulator", body)
        self.assertEqual(client.unasked, [])
        client.close()

    def test_steering(self):
        """A datagram arrives at the slot that its destination QPN names."""
        self.up()
        clients = [cc.Client(self.dir).open_device() for _ in range(5)]
        extra = struct.unpack("<I", clients[2].call(cc.EXTRA_SLOT)[1])[0]
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The port is one of the emulator's, because datagrams from others are ignored.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sender.bind((self.address, clients[0].source_port))
        for slot, client in [(c.slot, c) for c in clients] + [(extra, clients[2])]:
            bth = struct.pack(">BBHIII", 4, 0, 0xffff, slot << 14 | 5, 0, slot)
            sender.sendto(bth, (self.address, 4791))
            receiver = socket.socket(fileno=os.dup(client.fds[0]))
            receiver.settimeout(10)
            self.assertEqual(receiver.recv(64), bth)
            receiver.close()
        for client in clients:
            client.close()

    def test_killed_client(self):
        self.up()
        child = subprocess.Popen([sys.executable, "-c", (
            "import sys, time; sys.path.insert(0, %r); import control_client as c\n"
            "x = c.Client(%r).open_device(); print(x.slot, flush=True); time.sleep(100)") % (
                os.path.dirname(os.path.abspath(__file__)), self.dir)], stdout=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"1\n")
        child.kill()
        child.communicate()
        self.until(lambda: not self.status()["devices"][0]["contexts"], "slot not returned")

    def test_two_hundred(self):
        self.up()
        clients = []
        lock = threading.Lock()

        def come():
            client = cc.Client(self.dir).open_device()
            with lock:
                clients.append(client)

        threads = [threading.Thread(target=come) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(c.slot for c in clients), list(range(1, 201)))
        answers = [threading.Thread(target=self.answer_status, args=(c,)) for c in clients]
        for thread in answers:
            thread.start()
        contexts = self.status()["devices"][0]["contexts"]
        for thread in answers:
            thread.join()
        self.assertEqual(len(contexts), 200)
        for client in clients:
            client.close()
        self.until(lambda: not self.status()["devices"][0]["contexts"], "slots not returned")

    def answer_status(self, client):
        client.answer_status([cc.report_qp(client.slot << 14 | 1)])

    def test_status_of_those_who_answer_and_those_who_do_not(self):
        self.up()
        with cc.Client(self.dir).open_device() as mute, cc.Client(self.dir).open_device() as good:
            answer = threading.Thread(target=self.answer_status, args=(good,))
            answer.start()
            begin = time.monotonic()
            contexts = self.status()["devices"][0]["contexts"]
            self.assertLess(time.monotonic() - begin, 5)
            answer.join()
            by_slot = {c["slot"]: c for c in contexts}
            self.assertFalse(by_slot[mute.slot]["responding"])
            self.assertTrue(by_slot[good.slot]["responding"])
            qp = by_slot[good.slot]["qps"][0]
            self.assertEqual(
                [qp[k] for k in ("qpn", "type", "state", "link", "sent_packets")],
                ["0x008001", "RC", "RTS", "udp", 100])
            self.assertEqual(qp["peer"], {"address": "127.9.9.9", "qpn": "0x008003"})
            self.assertEqual(by_slot[good.slot]["pid"], os.getpid())
            answer = threading.Thread(target=self.answer_status, args=(good,))
            answer.start()
            shown = self.verbena("status").stdout
            answer.join()
            self.assertIn("does not answer", shown)
            self.assertIn("QP 0x008001 RC", shown)

    def test_status_asks_a_context_of_few_queue_pairs_once(self):
        """The emulator asks all contexts at the same time: a context that gets no processor delays only its own answer."""
        self.up()
        clients = [cc.Client(self.dir).open_device() for _ in range(5)]

        def answer_once(client):
            client.answer_status([cc.report_qp(client.slot << 14 | n) for n in range(16)], requests=1,
                                 cqs=[cc.report_cq(n) for n in range(1, 17)])

        threads = [threading.Thread(target=answer_once, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        contexts = self.status()["devices"][0]["contexts"]
        for thread in threads:
            thread.join()
        self.assertEqual([(c["complete"], len(c["qps"]), len(c["cqs"])) for c in contexts], [(True, 16, 16)] * 5)
        for client in clients:
            client.close()

    def test_status_asks_for_many_completion_queues_page_by_page(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            cqs = [cc.report_cq(n) for n in range(1, 401)]
            answer = threading.Thread(target=client.answer_status, args=([cc.report_qp(client.slot << 14)],),
                                      kwargs={"cqs": cqs})
            answer.start()
            context = self.status()["devices"][0]["contexts"][0]
            answer.join()
            self.assertIs(context["complete"], True)
            self.assertEqual([cq["cq"] for cq in context["cqs"]], list(range(1, 401)))

    def test_status_of_those_who_fall_silent_or_lie(self):
        self.up()
        clients = [cc.Client(self.dir).open_device() for _ in range(3)]
        good, silent, lying = clients
        qps = {c: [cc.report_qp(c.slot << 14 | n, "e" * 200) for n in range(300)] for c in clients}

        def answer_all(unanswered=0):
            """Answers as all three clients. `unanswered` counts the questions that the silent one left unanswered
            before."""
            threads = [threading.Thread(target=c.answer_status, args=(qps[c],), kwargs=how)
                       for c, how in ((good, {}), (silent, {"requests": 2 + unanswered}), (lying, {"page": 100, "requests": 2}))]
            for thread in threads:
                thread.start()
            return threads

        threads = answer_all(0)
        shown = {c["slot"]: c for c in self.status()["devices"][0]["contexts"]}
        for thread in threads:
            thread.join()
        self.assertEqual([(shown[c.slot]["responding"], shown[c.slot]["complete"], len(shown[c.slot]["qps"]))
                          for c in clients], [(True, True, 300), (True, False, 144), (True, False, 116)])
        self.assertEqual([qp["qpn"] for qp in shown[good.slot]["qps"]], [f"0x{number:06x}" for number, _ in qps[good]])
        threads = answer_all(unanswered=1)
        text = self.verbena("status").stdout
        for thread in threads:
            thread.join()
        self.assertEqual(text.count("and does not answer any more"), 2)
        self.assertEqual(text.count(" RC "), 560)
        for client in clients:
            client.close()

    def test_port_down_and_up(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            port = "infiniband/verbena0/ports/1"
            before = os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns
            self.assertEqual(self.read(port + "/state"), "4: ACTIVE\n")
            self.assertEqual(self.verbena("port", "verbena0", "down").returncode, 0)
            client.next_unasked(cc.PORT_EVENT)
            self.assertEqual(self.read(port + "/state"), "1: DOWN\n")
            self.assertEqual(self.read(port + "/phys_state"), "3: Disabled\n")
            self.assertEqual(self.verbena("port", "verbena0", "up").returncode, 0)
            client.next_unasked(cc.PORT_EVENT)
            self.assertEqual(self.read(port + "/state"), "4: ACTIVE\n")
            self.assertEqual(os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns, before)
            done = self.verbena("port", "nope", "up")
            self.assertEqual(done.returncode, 1)
            self.assertIn('no device "nope"', done.stderr)
            self.assertEqual(self.verbena("port", "verbena0", "sideways").returncode, 2)

    def test_counters_of_the_living_and_the_dead(self):
        self.up()
        port = "infiniband/verbena0/ports/1"
        before = os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns
        living, dying = cc.Client(self.dir).open_device(), cc.Client(self.dir).open_device()
        for client, packets, octets in ((living, 3, 400), (dying, 2, 8000)):
            with client.stats() as page:
                page[64:80] = struct.pack("<QQ", packets, octets)  # what one thread has sent
        with self.assertRaises(OSError):
            os.ftruncate(living.fds[1], 0)  # the file is sealed, so a client cannot take the page from the daemon
        for _ in range(2):
            with cc.Client(self.dir, cc.KIND_PRELOAD) as reader:
                reader.call(cc.REFRESH_COUNTERS, cc.text("verbena0"))
            self.assertEqual(self.read(port + "/counters/port_xmit_packets"), "5\n")
            self.assertEqual(self.read(port + "/counters/port_xmit_data"), "2100\n")
            self.assertEqual(self.read(port + "/hw_counters/port_xmit_bytes"), "8400\n")
            dying.close()
            self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "still there")
        self.assertEqual(os.stat(self.shadow("infiniband/verbena0")).st_mtime_ns, before)
        living.close()

    def test_idle_costs_nothing(self):
        self.up()
        clients = [cc.Client(self.dir).open_device() for _ in range(10)]

        def cost():
            with open(f"/proc/{self.daemon_pid()}/stat") as file:
                ticks = file.read().rsplit(")", 1)[1].split()[11:13]
            with open(f"/proc/{self.daemon_pid()}/status") as file:
                wakes = [line for line in file if "ctxt_switches" in line]
            return ticks, wakes

        self.status()
        seen = []

        def at_rest():
            seen.append(cost())
            time.sleep(0.2)
            return cost() == seen[-1]

        self.until(at_rest, "it never comes to rest")
        time.sleep(2)  # this is the measured time
        self.assertEqual(cost(), seen[-1], "it woke though nobody asked for anything")
        for client in clients:
            client.close()

    def test_runtime_directory_vanishes(self):
        self.up()
        with cc.Client(self.dir).open_device() as client:
            os.rename(self.dir, self.dir + "-away")
            shutil.rmtree(self.dir + "-away")
            self.until(lambda: os.path.exists(self.dir + "/control.sock") and
                       os.path.exists(self.dir + "/shadow"), "not restored")
            client.call(cc.EXTRA_SLOT)  # the old connection still works
            self.assertEqual(len(self.status()["devices"][0]["contexts"]), 1)
        os.remove(self.dir + "/control.sock")
        self.until(lambda: os.path.exists(self.dir + "/control.sock"), "not restored again")
        self.status()


class OtherVersion:
    """Stands between programs and an emulator: each believes that the other speaks a version that it does not know."""

    def __init__(self, real, seeming):
        self.real = real
        os.mkdir(seeming, 0o700)
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(seeming + "/control.sock")
        self.listening.listen()
        self.thread = threading.Thread(target=self.accept)

    def accept(self):
        with contextlib.suppress(OSError):  # ignores that the socket was closed
            while True:
                program = self.listening.accept()[0]
                with program, contextlib.suppress(ConnectionError):
                    self.relay(program)

    def relay(self, program):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as emulator:
            emulator.connect(self.real + "/control.sock")
            while True:
                for source in select.select([program, emulator], [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    version = cc.VERSION + (1 if source is emulator else -1)
                    target = program if source is emulator else emulator
                    target.send(data[:4] + struct.pack("<H", version) + data[6:])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listening.close()


class Strangers(EmulatorCase):
    def test_garbage(self):
        self.up()
        with cc.Client(self.dir).open_device() as good:
            for junk in (b"x", b"\0" * 16, os.urandom(64), os.urandom(60000), b"GET / HTTP/1.1\r\n",
                         cc.packet(cc.HELLO)[:-1], cc.packet(cc.HELLO, magic=1),
                         struct.pack("<IHHII", cc.MAGIC, 1, cc.HELLO, 1, 4096)):
                bad = cc.Client(self.dir, greets=False)
                bad.socket.send(junk)
                with self.assertRaises(ConnectionResetError):
                    bad.receive()
                bad.close()
            for payload in (b"", b"\x01", b"\x01\0\0\0\0\xff\xff\xff\xff", b"\x01" * 100):
                bad = cc.Client(self.dir, greets=False)
                with self.assertRaisesRegex(cc.Refused, "malformed control message Hello"):
                    bad.call(cc.HELLO, payload)
                bad.close()
            with self.assertRaisesRegex(cc.Refused, "takes no message"):
                good.call(0x7777)
            good.call(cc.EXTRA_SLOT)
            self.assertEqual(len(self.status()["devices"][0]["contexts"]), 1)

    def test_hello_comes_first(self):
        self.up()
        with cc.Client(self.dir, greets=False) as client:
            with self.assertRaisesRegex(cc.Refused, "must be Hello"):
                client.call(cc.OPEN_DEVICE, cc.text("verbena0"))

    def test_another_version(self):
        self.up()
        for version in (0, cc.VERSION + 1, 65535):
            for hello, program in ((cc.hello(version="7.8.9"), "this program of verbena 7.8.9"), (b"anything", "this program")):
                with cc.Client(self.dir, greets=False) as client:
                    client.socket.send(cc.packet(cc.HELLO, hello, version=version))
                    kind, _, body = client.receive()
                    self.assertEqual(kind, cc.REFUSED)
                    self.assertIn(f"{program} (protocol {version})", body[8:].decode())

    def test_programs_of_another_version(self):
        """Programs and the emulator say so, and how to go on; `down` still works."""
        self.up()
        pid = self.daemon_pid()
        other = dict(self.env, VERBENA_RUNTIME_DIR=self.home + "/other")
        number = r"\d+\.\d+\.\d+"
        sentence = (rf"^verbena: the emulator is of verbena {number} \(protocol {cc.VERSION}\), this program of verbena {number} "
                    rf"\(protocol {cc.VERSION - 1}\): end the emulator \(verbena down\) and start one of the same version\n$")
        with OtherVersion(self.dir, self.home + "/other"):
            for words, code in ((["status"], 1), (["status", "--json"], 1), (["fault", "--loss", "1%"], 1), (["up"], 1),
                                (["port", "verbena0", "down"], 1), (["event", "verbena0", "client-reregister"], 1),
                                (["capture", self.home + "/x"], 1), (["run", "true"], 125),
                                (["run", "--timeout", "60", "true"], 125)):
                done = self.verbena(*words, env=other)
                said = f"verbena: {json.loads(done.stdout)['error']}\n" if "--json" in words else done.stdout
                self.assertEqual((done.returncode, said), (code, done.stderr if "--json" in words else ""), words)
                self.assertRegex(done.stderr, sentence, words)
            self.assertFalse(os.path.exists(self.home + "/x"))
            self.assertEqual(self.daemon_pid(), pid)
            done = self.verbena("down", env=other)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "emulator down\n", ""))
        self.wait_for_end(pid)

    def test_client_that_does_not_read(self):
        self.up()
        with cc.Client(self.dir).open_device() as deaf:
            deaf.socket.setblocking(False)
            try:
                for _ in range(200000):
                    deaf.send(cc.HELLO, cc.hello(comm="deaf"))
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            self.status()

    def test_commands_where_only_posted_ones_belong(self):
        """Each client names another channel that has such commands waiting as well. The emulator must serve them one
        after the other, not each within the one before."""
        self.up()
        clients = [cc.Client(self.dir, cc.KIND_CM) for _ in range(100)]
        for number, client in enumerate(clients, 1):
            client.call(cc.OPEN_CM_CHANNEL, struct.pack("<Q", number))
        os.kill(self.daemon_pid(), signal.SIGSTOP)
        sent = []
        for number, client in enumerate(clients, 1):
            client.socket.setblocking(False)
            command = cc.packet(cc.CM_COMMAND, struct.pack("<QQII", number, number % len(clients) + 1, 0, 0))
            sent.append(0)
            with contextlib.suppress(BlockingIOError):
                while client.socket.send(command):
                    sent[-1] += 1
            client.socket.settimeout(10)
        self.assertGreater(min(sent), 50)
        os.kill(self.daemon_pid(), signal.SIGCONT)
        self.status()
        for client, count in zip(clients, sent):
            self.assertEqual({client.receive()[0] for _ in range(count)}, {cc.CM_REPLY})
            client.close()

    OPEN, CLOSE = 1, 2

    def share_domain(self, *clients):
        for client in clients:
            _, body = client.call(cc.OPEN_DOMAIN, struct.pack("<QQBB", 7, 7, True, False))
        return struct.unpack("<I", body)[0]

    def call_receiver(self, verb, domain, owner, attributes=b""):
        return struct.pack("<IBIIII", 0, verb, domain, owner.slot << 14 | 5, 0, len(attributes)) + attributes

    @staticmethod
    def answer_calls(owner, count):
        """Lets the owner do what it is asked. Returns the verbs."""
        verbs = []
        for _ in range(count):
            _, _, body = owner.next_unasked(cc.RECEIVER_CALL)
            ticket, verb = struct.unpack("<IB", body[:5])
            verbs.append(verb)
            if ticket:
                owner.send(cc.RECEIVER_ANSWER, struct.pack("<IIII", ticket, 0, 0, 0))
        return verbs

    def test_questions_to_one_who_does_not_answer(self):
        self.up()
        with cc.Client(self.dir).open_device() as mute, cc.Client(self.dir).open_device() as asker:
            domain = self.share_domain(mute, asker)
            question = self.call_receiver(self.OPEN, domain, mute)
            for _ in range(256):
                asker.send(cc.RECEIVER_CALL, question)
            with self.assertRaisesRegex(cc.Refused, "too many questions") as refused:
                asker.call(cc.RECEIVER_CALL, question)
            self.assertEqual(refused.exception.code, errno.EAGAIN)
            self.answer_calls(mute, 256)
            for _ in range(256):
                self.assertEqual(asker.receive()[0], cc.RECEIVER_DONE)
            asker.send(cc.RECEIVER_CALL, question)
            self.assertEqual(self.answer_calls(mute, 1), [self.OPEN])
            self.assertEqual(asker.receive()[0], cc.RECEIVER_DONE)
            with self.assertRaisesRegex(cc.Refused, "too many bytes"):
                asker.call(cc.RECEIVER_CALL, self.call_receiver(self.OPEN, domain, mute, b"x" * 1025))

    def test_a_receiver_is_closed_as_often_as_it_was_opened(self):
        """This holds for a client that asks for it twice, and for one that ends before it has the answer."""
        self.up()
        with cc.Client(self.dir).open_device() as owner, cc.Client(self.dir).open_device() as asker:
            domain = self.share_domain(owner, asker)
            open_it, close_it = (self.call_receiver(verb, domain, owner) for verb in (self.OPEN, self.CLOSE))
            for _ in range(2):
                asker.send(cc.RECEIVER_CALL, open_it)
                self.answer_calls(owner, 1)
                self.assertEqual(asker.receive()[0], cc.RECEIVER_DONE)
            asker.send(cc.RECEIVER_CALL, close_it)
            asker.send(cc.RECEIVER_CALL, close_it)
            with self.assertRaisesRegex(cc.Refused, "has not opened"):
                asker.call(cc.RECEIVER_CALL, close_it)
            self.assertEqual(self.answer_calls(owner, 2), [self.CLOSE] * 2)
            self.assertEqual([asker.receive()[0] for _ in range(2)], [cc.RECEIVER_DONE] * 2)
            asker.send(cc.RECEIVER_CALL, open_it)
            self.answer_calls(owner, 1)
            self.assertEqual(asker.receive()[0], cc.RECEIVER_DONE)
            asker.send(cc.RECEIVER_CALL, close_it)
            owner.next_unasked(cc.RECEIVER_CALL)
            asker.socket.shutdown(socket.SHUT_RDWR)
            self.until(lambda: len(self.status()["devices"][0]["contexts"]) == 1, "still there")
            owner.send(cc.EXTRA_SLOT)
            heard = set()
            while cc.SLOT_ADDED not in heard:
                heard.add(owner.receive()[0])
            self.assertNotIn(cc.RECEIVER_CALL, heard, "it was closed again")

    def test_few_descriptors(self):
        self.env = dict(self.env)
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        done = self.verbena("up", "--fabric", self.fabric, preexec_fn=limit)
        self.assertEqual(done.returncode, 0, done.stderr)
        clients = []
        with self.assertRaisesRegex(cc.Refused, "[Dd]escriptor|Too many open files"):
            for _ in range(64):
                clients.append(cc.Client(self.dir).open_device())
        self.assertGreater(len(clients), 3)
        clients[0].call(cc.EXTRA_SLOT)  # connected clients go on
        for client in clients:
            client.close()
        self.until(lambda: self.verbena("status").returncode == 0, "it does not recover")
        cc.Client(self.dir).open_device().close()
