"""What the pipeline is told, and what was promised: what is wrong is said in a sentence that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.slo import Slo, parse
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"keep_days": 0}, "keep_days must be at least 1, got 0"),
        ({"keep_days": -3}, "keep_days must be at least 1, got -3"),
        ({"compact_after": 0}, "compact_after must be at least 1"),
        ({"max_rows_per_batch": 0}, "max_rows_per_batch must be at least 1"),
        ({"url": "redis://127.0.0.1", "conn_id": "chasqui_default"}, "pass url or conn_id, not both"),
        ({"window_s": 7}, "window must divide a day, got 7 s"),
        ({"queues": ()}, "at least one queue"),
        ({"entities": ("jobs",)}, "entities must be some of events, dead"),
    ],
)
def test_what_makes_no_pipeline_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        PipelineConfig(**{"queues": ("q",), "out": "out", **settings})


def test_a_password_in_the_url_does_not_show() -> None:
    config = PipelineConfig(queues=("q",), out="out", url="redis://u:hunter2@127.0.0.1")
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config)
    assert config.source_options["url"].count("hunter2") == 1


def test_promises_are_read() -> None:
    text = "slos:\n  - {queue: q, success_rate: 0.99, min_finished: 20}\n  - {queue: q, name: send, backlog: 5}\n"
    assert parse(text) == [Slo("q", None, {"success_rate": 0.99}, 20), Slo("q", "send", {"backlog": 5.0})]
    assert parse("slos: []") == []


@pytest.mark.parametrize(
    ("slo", "sentence"),
    [
        ("{queue: q, backlog: 1, min_finished: abc}", "min_finished must be a whole number from 1, got 'abc'"),
        ("{queue: q, backlog: 1, min_finished: null}", "min_finished must be a whole number from 1, got None"),
        ("{queue: q, backlog: 1, min_finished: true}", "min_finished must be a whole number from 1, got True"),
        ("{queue: q, backlog: .nan}", "backlog must be a number from 0, got nan"),
        ("{queue: q, backlog: .inf}", "backlog must be a number from 0, got inf"),
        ("{queue: q, backlog: '5'}", "backlog must be a number from 0, got '5'"),
        ("{queue: q, success_rate: 99}", "success_rate is a share, from 0 to 1, got 99; 99 % is 0.99"),
        ("{queue: q, name: 5, backlog: 1}", "name must be text, got 5; put it in quotes"),
        ("{queue: q}", "SLO 1 .* has no objective; give it one of success_rate, "),
        ("{queue: q, min_finish: 3}", "has no metric 'min_finish'; it may have success_rate, "),
        ("{queue: '{x}', backlog: 1}", "queue must not contain braces"),
        ("{backlog: 1}", "SLO 1 needs a queue"),
        ("[1]", "SLO 1 needs a queue"),
    ],
)
def test_what_is_no_promise_is_refused(slo: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as told:
        parse(f"slos:\n  - {slo}\n")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", ["slos: {queue: q}", "- a", "slos: [", "just text"])
def test_what_is_no_list_of_promises_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="the SLO file") as told:
        parse(text)
    assert "\n" not in str(told.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_bytes(b"slos: \xff\xfe")
    config = PipelineConfig(queues=("q",), out="out", slo_file=str(tmp_path / "slo.yaml"))
    with pytest.raises(ConfigError, match="must be UTF-8: invalid start byte at 6"):
        config.slos()
