"""Label values: clean, short, and limited in number."""

from __future__ import annotations

import threading

import pytest

from chasqui_engine.metrics.labels import OTHER, NameLabels, clean_label
from chasqui_engine.values.errors import ConfigError


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("send-email", "send-email"),
        ("", ""),
        ("Grüße 📨 مرحبا", "Grüße 📨 مرحبا"),
        ('quote " and \\ stay', 'quote " and \\ stay'),
        ("a\nb\r\tc\x00d", "a_b__c_d"),
        ("\x7f\x85\x9f\xa0", "___\xa0"),
        ("line\u2028and\u2029paragraph", "line_and_paragraph"),
        ("half\ud83d", "half_"),
    ],
)
def test_unfit_characters_are_replaced(raw: str, clean: str) -> None:
    assert clean_label(raw) == clean
    clean_label(raw).encode()


def test_long_values_are_cut() -> None:
    assert clean_label("x" * 128) == "x" * 128
    assert clean_label("x" * 129) == "x" * 128


def test_names_past_the_limit_are_lumped_together() -> None:
    names = NameLabels(2)
    assert [names.label(name) for name in ["a", "b", "c", "a", "d", "b"]] == ["a", "b", OTHER, "a", OTHER, "b"]


def test_the_empty_name_is_kept_and_not_counted() -> None:
    names = NameLabels(1)
    assert [names.label(name) for name in ["", "a", "b", ""]] == ["", "a", OTHER, ""]


def test_a_limit_of_zero_lumps_all_names_together() -> None:
    names = NameLabels(0)
    assert [names.label(name) for name in ["", "a"]] == ["", OTHER]


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_names"):
        NameLabels(-1)


def test_names_are_cleaned_and_cut() -> None:
    names = NameLabels(10)
    assert names.label("a\nb") == "a_b"
    assert names.label("x" * 500) == "x" * 128
    assert names.label("x" * 128 + "y") == "x" * 128


def test_names_alike_once_cut_take_one_place() -> None:
    names = NameLabels(1)
    assert names.label("x" * 128 + "a") == "x" * 128
    assert names.label("x" * 128 + "b") == "x" * 128


def test_threads_together_keep_the_limit() -> None:
    names = NameLabels(50)
    seen: list[set[str]] = []
    start = threading.Barrier(8)

    def work(first: int) -> None:
        start.wait()
        seen.append({names.label(f"job-{(first + step) % 200}") for step in range(200)})

    threads = [threading.Thread(target=work, args=(number * 25,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = set().union(*seen)
    assert len(seen) == 8
    assert len(labels) == 51
    assert OTHER in labels
