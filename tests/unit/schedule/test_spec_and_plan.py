"""Repeatable specs and the plan of their fires. The plans in the tables are those of ChasquiMQ 1.3.0's scheduler."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_engine.schedule.plan import FirePlan, first_fire_ms, plan_fires, upserted_fire_ms
from chasqui_engine.schedule.spec import MissedFiresPolicy, RepeatableMeta, RepeatableSpec, RepeatPattern
from chasqui_engine.values.errors import ConfigError

NOW = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)
SKIP, ONCE = MissedFiresPolicy.skip(), MissedFiresPolicy.fire_once()
ALL_2, ALL_9 = MissedFiresPolicy.fire_all(2), MissedFiresPolicy.fire_all(9)


def every(interval_ms: int, **fields: Any) -> RepeatableSpec:
    return RepeatableSpec("tick", RepeatPattern.every(interval_ms), None, **fields)


def cron(expression: str, tz: str | None = None, **fields: Any) -> RepeatableSpec:
    return RepeatableSpec("tick", RepeatPattern.cron(expression, tz), None, **fields)


class TestPattern:
    def test_cron(self) -> None:
        pattern = RepeatPattern.cron("0 9 * * 1-5", tz="Europe/London")
        assert pattern == RepeatPattern.cron("0 9 * * 1-5", "Europe/London")
        assert pattern.to_dict() == {"kind": "cron", "expression": "0 9 * * 1-5", "tz": "Europe/London"}
        assert pattern.signature() == "cron:0 9 * * 1-5:Europe/London"
        assert RepeatPattern.cron("@daily").to_dict() == {"kind": "cron", "expression": "@daily"}
        assert RepeatPattern.cron("@daily").signature() == "cron:@daily:UTC"
        assert RepeatPattern.cron(" @daily ", tz="").signature() == "cron: @daily :"

    def test_every(self) -> None:
        pattern = RepeatPattern.every(5_000)
        assert (pattern.kind, pattern.expression, pattern.tz, pattern.interval_ms) == ("every", None, None, 5_000)
        assert pattern.to_dict() == {"kind": "every", "interval_ms": 5_000}
        assert pattern.signature() == "every:5000"

    @pytest.mark.parametrize("interval_ms", [0, -1, 2**60, True, 1.5, "5", None])
    def test_an_interval_is_a_positive_int(self, interval_ms: Any) -> None:
        with pytest.raises(ConfigError, match=r"interval_ms must be a whole number from 1 (up|to \d+), got"):
            RepeatPattern.every(interval_ms)

    def test_nonsense_is_refused_where_it_is_written(self) -> None:
        with pytest.raises(ConfigError, match="minute '60'"):
            RepeatPattern.cron("60 * * * *")
        with pytest.raises(ConfigError, match="tz 'Mars/Olympus'"):
            RepeatPattern.cron("* * * * *", tz="Mars/Olympus")
        with pytest.raises(ConfigError, match="kind must be"):
            RepeatPattern(kind="sometimes")
        with pytest.raises(ConfigError, match="takes an expression"):
            RepeatPattern(kind="cron")
        with pytest.raises(ConfigError, match="no interval_ms"):
            RepeatPattern(kind="cron", expression="* * * * *", interval_ms=5)
        with pytest.raises(ConfigError, match="interval_ms only"):
            RepeatPattern(kind="every", expression="* * * * *", interval_ms=5)

    def test_it_knows_what_follows(self) -> None:
        assert RepeatPattern.every(5_000).next_after_ms(NOW) == NOW + 5_000
        assert RepeatPattern.cron("*/5 * * * *").next_after_ms(NOW) == NOW + 300_000
        assert RepeatPattern.cron("0 0 30 2 *").next_after_ms(NOW) is None


class TestPolicy:
    def test_kinds(self) -> None:
        assert SKIP.to_dict() == {"kind": "skip"}
        assert ONCE.to_dict() == {"kind": "fire-once"}
        assert ALL_9.to_dict() == {"kind": "fire-all", "max_catchup": 9}

    @pytest.mark.parametrize("max_catchup", [True, 1.5, "5", None])
    def test_max_catchup_is_an_int(self, max_catchup: Any) -> None:
        with pytest.raises(TypeError, match="max_catchup must be an int, got"):
            MissedFiresPolicy.fire_all(max_catchup)

    @pytest.mark.parametrize("max_catchup", [0, -1, 2**32])
    def test_max_catchup_is_a_positive_u32(self, max_catchup: int) -> None:
        with pytest.raises(ConfigError, match="max_catchup must be a whole number from 1 to 4294967295"):
            MissedFiresPolicy.fire_all(max_catchup)

    def test_no_other_kind(self) -> None:
        with pytest.raises(ConfigError, match="kind must be"):
            MissedFiresPolicy(kind="fire-some")


class TestSpec:
    def test_defaults_and_key(self) -> None:
        spec = RepeatableSpec("report", RepeatPattern.every(1_000), {"a": 1})
        assert (spec.key, spec.limit, spec.start_after_ms, spec.end_before_ms) == ("", None, None, None)
        assert spec.missed_fires == SKIP
        assert spec.resolved_key() == "report::every:1000"
        assert cron("0 9 * * *", "+05:30").resolved_key() == "tick::cron:0 9 * * *:+05:30"
        assert spec.with_key("mine").resolved_key() == "mine"

    def test_changed_copies(self) -> None:
        spec = every(1_000)
        changed = spec.with_key("k").with_limit(3).with_start_after_ms(1).with_end_before_ms(2).with_missed_fires(ONCE)
        assert spec == every(1_000)
        assert changed == every(1_000, key="k", limit=3, start_after_ms=1, end_before_ms=2, missed_fires=ONCE)
        assert pickle.loads(pickle.dumps(changed)) == changed

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"limit": 0}, "limit must be"),
            ({"limit": True}, "limit must be"),
            ({"limit": 1.5}, "limit must be"),
            ({"start_after_ms": -1}, "start_after_ms must be"),
            ({"end_before_ms": "5"}, "end_before_ms must be"),
            ({"start_after_ms": 5, "end_before_ms": 5}, r"end_before_ms \(5\) must be later than start_after_ms \(5\)"),
            ({"key": None}, "key must be a str"),
            ({"missed_fires": None}, "missed_fires must be a MissedFiresPolicy"),
        ],
    )
    def test_what_is_refused(self, fields: dict[str, Any], named: str) -> None:
        with pytest.raises(ConfigError, match=named):
            every(1_000, **fields)

    def test_what_else_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="pattern must be a RepeatPattern"):
            RepeatableSpec("tick", {"kind": "every"}, None)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="job_name must be a str"):
            RepeatableSpec(5, RepeatPattern.every(1), None)  # type: ignore[arg-type]

    def test_meta(self) -> None:
        meta = RepeatableMeta("k", "tick", RepeatPattern.every(1_000), NOW)
        assert (meta.limit, meta.start_after_ms, meta.end_before_ms, meta.missed_fires) == (None, None, None, None)


class TestFirstFire:
    def test_every_waits_one_interval(self) -> None:
        assert first_fire_ms(every(10_000), NOW) == NOW + 10_000
        assert first_fire_ms(every(10_000, start_after_ms=NOW + 5_000), NOW) == NOW + 15_000
        assert first_fire_ms(every(10_000, start_after_ms=NOW - 5_000), NOW) == NOW + 10_000

    def test_cron_comes_after_now_and_after_the_start(self) -> None:
        assert first_fire_ms(cron("* * * * *"), NOW + 1) == NOW + 60_000
        assert first_fire_ms(cron("* * * * *", start_after_ms=NOW + 60_000), NOW) == NOW + 120_000
        assert first_fire_ms(cron("* * * * *", start_after_ms=NOW + 59_999), NOW) == NOW + 60_000

    def test_the_end_may_be_the_first_fire_but_not_before(self) -> None:
        assert first_fire_ms(every(10_000, end_before_ms=NOW + 10_000), NOW) == NOW + 10_000
        with pytest.raises(ConfigError, match=r"end_before_ms .* must not be before the first fire"):
            first_fire_ms(every(10_000, end_before_ms=NOW + 9_999), NOW)

    @pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 0 1 1 * 2020"])
    def test_what_never_comes_is_refused(self, expression: str) -> None:
        with pytest.raises(ConfigError, match="never matches again"):
            first_fire_ms(cron(expression), NOW)

    def test_what_takes_the_place_of_the_same_pattern_fires_when_that_would_have(self) -> None:
        assert upserted_fire_ms(every(10_000), NOW, None) == NOW + 10_000
        assert upserted_fire_ms(every(10_000), NOW, NOW - 50_000) == NOW - 50_000
        assert upserted_fire_ms(every(10_000), NOW, NOW + 3_000) == NOW + 3_000
        assert upserted_fire_ms(cron("* * * * *"), NOW, NOW - 120_000) == NOW - 120_000

    def test_a_time_that_lies_too_far_ahead_is_not_kept(self) -> None:
        assert upserted_fire_ms(every(10_000), NOW, NOW + 3_600_000) == NOW + 10_000

    def test_what_is_kept_counts_against_the_end(self) -> None:
        assert upserted_fire_ms(every(10_000, end_before_ms=NOW + 5_000), NOW, NOW + 3_000) == NOW + 3_000
        with pytest.raises(ConfigError, match="end_before_ms"):
            upserted_fire_ms(every(10_000, end_before_ms=NOW - 2_000), NOW, NOW - 1_000)


GONE = None

# Every 10 s; all times in seconds after the fire that is due: how late it is, what is fired, and what comes next.
PLANS: list[tuple[float, dict[str, Any], list[int], int | None]] = [
    (-1, {}, [], 0),
    (0, {}, [0], 10),
    (1, {}, [0], 10),
    (9.999, {}, [0], 10),
    (10, {}, [], 20),
    (35, {}, [], 40),
    (1, {"missed_fires": ONCE}, [0], 10),
    (35, {"missed_fires": ONCE}, [0], 40),
    (1, {"missed_fires": ALL_2}, [0], 10),
    (29, {"missed_fires": ALL_9}, [0, 10, 20], 30),
    (30, {"missed_fires": ALL_9}, [0, 10, 20, 30], 40),
    (35, {"missed_fires": ALL_2}, [0, 10], 40),
    # The limit counts what is made up for.
    (1, {"limit": 1}, [0], GONE),
    (35, {"limit": 1}, [], 40),
    (35, {"limit": 1, "missed_fires": ONCE}, [0], GONE),
    (35, {"limit": 2, "missed_fires": ALL_9}, [0, 10], GONE),
    (35, {"limit": 4, "missed_fires": ALL_9}, [0, 10, 20, 30], GONE),
    (35, {"limit": 5, "missed_fires": ALL_9}, [0, 10, 20, 30], 40),
    # The end is the last time at which the next fire may be; what is made up for does not ask for it.
    (1, {"end_s": 10}, [0], 10),
    (1, {"end_s": 9.999}, [0], GONE),
    (1, {"end_s": -0.001}, [0], GONE),
    (35, {"end_s": 40}, [], 40),
    (35, {"end_s": 39.999}, [], GONE),
    (35, {"end_s": 15, "missed_fires": ONCE}, [0], GONE),
    (35, {"end_s": 15, "missed_fires": ALL_9}, [0, 10, 20, 30], GONE),
    (35, {"end_s": 15, "limit": 3, "missed_fires": ALL_9}, [0, 10, 20], GONE),
    # A fire from before the start is made, and the row begins anew at the start.
    (1, {"start_s": 20}, [0], 30),
    (35, {"start_s": 20, "missed_fires": ONCE}, [0], 40),
    (35, {"start_s": 22, "missed_fires": ALL_9}, [0, 32], 42),
]


class TestPlan:
    @pytest.mark.parametrize(("late_s", "fields", "fires_s", "next_s"), PLANS)
    def test_every(self, late_s: float, fields: dict[str, Any], fires_s: list[int], next_s: int | None) -> None:
        fields = dict(fields)
        for short, name in ("start_s", "start_after_ms"), ("end_s", "end_before_ms"):
            if short in fields:
                fields[name] = NOW + int(fields.pop(short) * 1000)
        plan = plan_fires(every(10_000, **fields), NOW, 0, NOW + int(late_s * 1000))
        assert plan == FirePlan(
            fires=tuple(NOW + s * 1000 for s in fires_s),
            next_fire_ms=None if next_s is None else NOW + next_s * 1000,
            fired=len(fires_s),
        )

    def test_earlier_fires_count_for_the_limit(self) -> None:
        spec = every(10_000, limit=7, missed_fires=ALL_9)
        assert plan_fires(spec, NOW, 5, NOW + 35_000) == FirePlan((NOW, NOW + 10_000), None, 7)
        assert plan_fires(spec, NOW, 7, NOW + 1_000) == FirePlan((), None, 7)
        assert plan_fires(spec, NOW, 8, NOW + 1_000) == FirePlan((), None, 8)
        assert plan_fires(every(10_000, limit=2), NOW, 2, NOW + 35_000) == FirePlan((), None, 2)

    @pytest.mark.parametrize(("policy", "fires"), [(SKIP, []), (ONCE, [0]), (ALL_2, [0, 10]), (ALL_9, [0, 10, 20, 30])])
    def test_cron(self, policy: MissedFiresPolicy, fires: list[int]) -> None:
        spec = cron("*/10 * * * * *", missed_fires=policy)
        plan = plan_fires(spec, NOW, 0, NOW + 35_000)
        assert plan == FirePlan(tuple(NOW + s * 1000 for s in fires), NOW + 40_000, len(fires))
        assert plan_fires(spec, NOW, 0, NOW + 9_999) == FirePlan((NOW,), NOW + 10_000, 1)

    def test_a_fire_between_two_seconds_as_chasquimq_writes_them(self) -> None:
        spec = cron("*/5 * * * * *", missed_fires=ALL_9)
        assert plan_fires(spec, NOW + 282, 0, NOW + 300) == FirePlan((NOW + 282,), NOW + 5_000, 1)
        assert plan_fires(spec, NOW + 282, 0, NOW + 5_000) == FirePlan((NOW + 282, NOW + 5_000), NOW + 10_000, 2)

    def test_the_last_fire_of_a_cron_is_made(self) -> None:
        # ChasquiMQ removes the spec without it.
        spec = cron("0 0 0 1 1 * 2027")
        assert plan_fires(spec, NOW, 0, NOW + 5) == FirePlan((NOW,), None, 1)

    def test_a_fire_in_a_gap_of_the_clock_is_made_up_for_once(self) -> None:
        spec = cron("30 2 * * *", "America/New_York", missed_fires=ALL_9)
        due, now = (int(datetime(2027, 3, d, 12, tzinfo=UTC).timestamp() * 1000) for d in (13, 15))
        first = RepeatPattern.cron("30 2 * * *", "America/New_York").next_after_ms(due - 86_400_000)
        assert first is not None
        hours = [
            datetime.fromtimestamp(t / 1000, UTC).strftime("%d %H:%M") for t in plan_fires(spec, first, 0, now).fires
        ]
        assert hours == ["13 07:30", "14 07:00", "15 06:30"]

    @pytest.mark.parametrize(("policy", "made"), [(SKIP, 0), (ONCE, 1), (MissedFiresPolicy.fire_all(1_000), 1_000)])
    @pytest.mark.parametrize("pattern", [RepeatPattern.every(1), RepeatPattern.cron("* * * * * *")])
    def test_a_year_of_missed_fires_takes_no_time(
        self, pattern: RepeatPattern, policy: MissedFiresPolicy, made: int
    ) -> None:
        spec = RepeatableSpec("tick", pattern, None, missed_fires=policy)
        now = NOW + 365 * 86_400_000 + 500
        started = time.perf_counter()
        plan = plan_fires(spec, NOW, 0, now)
        assert time.perf_counter() - started < 1
        assert len(plan.fires) == made
        assert plan.next_fire_ms == (now + 1 if pattern.kind == "every" else now + 500)


policies = st.sampled_from([SKIP, ONCE]) | st.integers(1, 20).map(MissedFiresPolicy.fire_all)
patterns = st.integers(1, 9_000).map(RepeatPattern.every) | st.sampled_from(
    [RepeatPattern.cron("*/2 * * * * *"), RepeatPattern.cron("1,5,7,30 * * * * *", "+00:01")]
)


@given(
    pattern=patterns,
    policy=policies,
    late_ms=st.integers(-5_000, 60_000),
    fired=st.integers(0, 5),
    limit=st.none() | st.integers(1, 15),
    start_ms=st.none() | st.integers(-20_000, 20_000),
    end_ms=st.none() | st.integers(20_001, 100_000),
)
def test_a_plan_is_what_a_walk_through_all_fires_would_give(
    pattern: RepeatPattern,
    policy: MissedFiresPolicy,
    late_ms: int,
    fired: int,
    limit: int | None,
    start_ms: int | None,
    end_ms: int | None,
) -> None:
    start = None if start_ms is None else NOW + start_ms
    end = None if end_ms is None else NOW + end_ms
    spec = RepeatableSpec(
        "tick", pattern, None, limit=limit, start_after_ms=start, end_before_ms=end, missed_fires=policy
    )
    now = NOW + late_ms
    row = [NOW]
    while row[-1] <= now:
        row.append(pattern.next_after_ms(max(row[-1], start or 0)) or 0)
    due, following = row[:-1], row[-1]
    if len(due) > 1:
        due = {"skip": [], "fire-once": due[:1]}.get(policy.kind, due[: policy.max_catchup])
    if limit is not None and row[0] <= now:
        due = due[: max(0, limit - fired)]
    plan = plan_fires(spec, NOW, fired, now)
    assert list(plan.fires) == due
    assert plan.fired == fired + len(due)
    finished = (limit is not None and plan.fired >= limit) or (end is not None and following > end)
    assert plan.next_fire_ms == (following if now < NOW or not finished else None)
