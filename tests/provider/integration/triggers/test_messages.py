"""Jobs that wake DAGs: the trigger itself, and its way where Airflow has no shared streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from chasqui_engine import Queue
from chasqui_provider.queues.chasqui import ChasquiMessageQueueProvider
from chasqui_provider.triggers import message
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger
from tests.provider.integration.queue_state import State
from tests.support.waiting import until


class TestWithoutSharedStreams:
    async def test_acks_a_while_after(self, queue: Queue, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(message, "_STORED_AFTER_S", 4.0)
        await queue.add("o", None, job_id="a")
        events = ChasquiMessageTrigger(queue.name).run()
        first: Any = await asyncio.wait_for(anext(events), 20)
        assert first.payload["jobs"][0]["id"] == "a"
        more = asyncio.create_task(anext(events))  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        assert await state.pending() == 1
        await until(state.empty, "the ack")
        more.cancel()
        await asyncio.gather(more, return_exceptions=True)

    async def test_hands_back_what_is_too_young(self, queue: Queue, state: State) -> None:
        await queue.add("o", None, job_id="a")
        events: Any = ChasquiMessageTrigger(queue.name).run()
        await asyncio.wait_for(anext(events), 20)
        await events.aclose()
        again: Any = ChasquiMessageTrigger(queue.name).run()
        event = await asyncio.wait_for(anext(again), 20)
        await again.aclose()
        assert [(job["id"], job["attempt"]) for job in event.payload["jobs"]] == [("a", 1)]
        assert await state.dead() == []


def test_survives_serialization() -> None:
    trigger = ChasquiMessageTrigger("q", "c", job_names=["a"], batch_size=5, linger=0.5, max_in_flight=9)
    path, kwargs = trigger.serialize()
    assert path == "chasqui_provider.triggers.chasqui.ChasquiMessageTrigger"
    again = ChasquiMessageTrigger(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)
    assert again.shared_stream_key() == trigger.shared_stream_key()
    assert again.shared_stream_key() != ChasquiMessageTrigger("q", "c").shared_stream_key()


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"max_in_flight": 0}, {"linger": -1}, {"batch_size": 101}])
def test_options_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ChasquiMessageTrigger("q", **wrong)


def test_message_queue_provider() -> None:
    provider = ChasquiMessageQueueProvider()
    assert provider.scheme_matches("chasqui")
    assert not provider.scheme_matches("kafka")
    assert provider.trigger_class() is ChasquiMessageTrigger
