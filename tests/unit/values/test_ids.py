"""Minted ids: ULIDs that sort by time and are nobody else's, whatever thread or process asks."""

from __future__ import annotations

import os
import re
import threading
import uuid

import pytest

from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.ids import UlidMint, mint_id, mint_ids, unique_name

CROCKFORD = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def time_of(ulid: str) -> int:
    value = 0
    for char in ulid[:10]:
        value = value * 32 + ALPHABET.index(char)
    return value


def test_twenty_six_characters_of_crockfords_alphabet() -> None:
    assert all(CROCKFORD.fullmatch(ulid) for ulid in mint_ids(5000))


def test_the_first_ten_tell_the_time() -> None:
    before = now_ms()
    assert before <= time_of(mint_id()) <= now_ms()
    assert time_of(mint_id(1_794_796_241_499)) == 1_794_796_241_499
    assert mint_id(0).startswith("0" * 10)
    assert mint_id(2**48 - 1).startswith("7ZZZZZZZZZ")


def test_later_ids_sort_after_earlier_ones() -> None:
    ids = [mint_id() for _ in range(1000)] + mint_ids(1000)
    assert ids == sorted(ids)
    assert mint_id(1000) < mint_id(1001) < mint_id(2**40)


def test_a_counter_that_runs_out_keeps_the_order() -> None:
    mint = UlidMint()
    many = 2**20 - 10
    mint.mint_many(many, 1)
    ids = [*mint.mint_many(15, 1), *mint.mint_many(15, 1), mint.mint(1)]
    assert ids == sorted(set(ids))
    assert ids[9][:22] != ids[10][:22]  # the counter did run out within the first lot


def test_none_for_nothing() -> None:
    assert mint_ids(0) == []


def test_two_mints_do_not_meet() -> None:
    first, second = UlidMint().mint_many(1000, 1), UlidMint().mint_many(1000, 1)
    assert not set(first) & set(second)


def test_threads_do_not_meet() -> None:
    minted: list[str] = []
    start = threading.Barrier(8)

    def mint() -> None:
        start.wait()
        for _ in range(200):
            minted.extend([mint_id(1), *mint_ids(3, 1)])

    threads = [threading.Thread(target=mint) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(minted)) == len(minted) == 8 * 200 * 4


def forked(count: int) -> list[str]:
    """Ids that a forked child mints."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, " ".join(mint_ids(count, 1)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        ids = pipe.read().split()
    os.waitpid(child, 0)
    return ids


# Python warns of forks where there are threads; how such a child fares is what is tested here.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_children_do_not_meet() -> None:
    first, second, ours = forked(100), forked(100), mint_ids(100, 1)
    assert len({*first, *second, *ours}) == 300


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_while_another_thread_mints() -> None:
    """The lock that the thread may hold at that moment is one the child must not wait for."""
    stop = threading.Event()

    def mint() -> None:
        while not stop.is_set():
            mint_ids(2000)

    thread = threading.Thread(target=mint)
    thread.start()
    try:
        assert all(len(forked(5)) == 5 for _ in range(20))
    finally:
        stop.set()
        thread.join()


def test_a_unique_name_is_a_prefix_and_a_uuid() -> None:
    prefix, _, rest = unique_name("c").partition("-")
    assert prefix == "c"
    assert uuid.UUID(rest).version == 4
    assert unique_name("c") != unique_name("c")
