# SPDX-License-Identifier: BSD-2-Clause
"""pytest --verbena-in-process: each test has an RDMA device of its own, in pytest's process."""

import pytest
from pyverbs import enums as e

from connected import connected

MESSAGES = 100


def exchange(client, server, messages=MESSAGES):
    for number in range(messages):
        text = f"message {number}".encode()
        server.receive()
        client.send(text)
        assert client.completion() == server.completion() == e.IBV_WC_SUCCESS
        assert bytes(server.mr.read(len(text), 0)) == text


def test_messages_arrive(verbena):
    with connected() as (client, server):
        exchange(client, server)
    assert verbena.counters["sent_sends"] == MESSAGES
    assert verbena.counters["rdma_recvs"] == MESSAGES
    assert "injected_fault" not in verbena.drops


@pytest.mark.parametrize("seed", range(1, 4))
def test_messages_arrive_on_a_bad_line(verbena, seed):
    verbena.fault(loss="5%", duplicate="5%", seed=seed)
    with connected() as (client, server):
        exchange(client, server)
    assert verbena.counters["retransmitted_packets"] > 0
    assert verbena.drops["injected_fault"] > 0


def test_a_peer_that_nothing_reaches(verbena):
    with connected(retries=1) as (client, server), verbena.fault(loss="100%"):
        server.receive()
        client.send(b"hello")
        assert client.completion() == e.IBV_WC_RETRY_EXC_ERR
    assert verbena.counters["retry_exceeded_err"] == 1


@pytest.mark.verbena("--device", "mlx5_0")
def test_the_device_has_the_name_that_the_program_expects(verbena):
    with connected("mlx5_0") as (client, server):
        exchange(client, server, 1)
    assert "mlx5_0" in verbena.run("ibv_devices").stdout
