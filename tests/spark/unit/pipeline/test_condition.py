"""What a redrive takes as its condition. No Spark needed."""

from __future__ import annotations

import pytest

from chasqui_engine.pipeline.condition import check_condition
from chasqui_engine.spark.schemas import COLUMNS
from chasqui_engine.values.errors import ConfigError

GOOD = [
    "true",
    "reason = 'retries_exhausted' and name = 'send'",
    "reason = 'retries_exhausted' and get_json_object(payload_json, '$.n') > 1",
    "`detail` like '%Timeout%' or detail rlike 'a(b|c)' and not (attempt >= 3)",
    "died_at > current_timestamp() - interval 1 day",
    "died_at between timestamp '2027-01-01 00:00:00' and now()",
    "case when max_attempts is null then 0 else max_attempts end in (1, 2.5, -3e4)",
    "cast(get_json_object(payload_json, '$.x') as decimal(10, 2)) <=> 1.5",
    "DETAIL <> 'it\\'s; select -- not a comment' || \"x\"",
    "Lower(name) != concat_ws('-', 'a', job_id)",
    "left(name, 3) = 'abc'",
]
ATTACKS = [
    "exists (select transform(name) using 'sh -c \"touch /tmp/x\"' as (x) from dead)",
    "exists (from dead)",
    "name in (select value from text.`/etc/passwd`)",
    "(select count(*) from text.`/etc/passwd`) > 0",
    "exists (table t)",
    "exists (values (1))",
    "reflect('java.lang.System', 'exit', '1') is null",
    "java_method('java.lang.Runtime', 'getRuntime') is null",
    "try_reflect('java.lang.System', 'exit') = '1'",
    "`reflect`('java.lang.System', 'exit', '1') is null",
    "system.builtin.reflect('a', 'b') is null",
    "exists(array(1), x -> reflect('a', 'b') is null)",
    "my_udf(name) = 1",
    "read_files('/etc/passwd') is null",
    "true; drop table t",
    "true -- and job_id = 'j'",
    "true /* hidden */",
    "name = r'\\' or reflect('a', 'b') = ''",
    "name = 'open",
    "`text`.`/etc/passwd` is null",
    "job_id = :parameter",
    "name = $x",
    "na\u00efve = 1",
    "1e3x = 1",
]


@pytest.mark.parametrize("where", GOOD)
def test_conditions_on_columns_are_taken(where: str) -> None:
    assert check_condition(where, COLUMNS["dead"]) == where


@pytest.mark.parametrize("where", ATTACKS)
def test_everything_else_of_sql_is_refused(where: str) -> None:
    with pytest.raises(ConfigError, match=r"where must be a condition on the columns .* pass a DataFrame"):
        check_condition(where, COLUMNS["dead"])


def test_a_refusal_says_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="the function 'reflect' is not allowed"):
        check_condition("reflect('a') = 1", COLUMNS["dead"])
    with pytest.raises(ConfigError, match=r"no column 'nope' \(it has queue, entry_id, died_at"):
        check_condition("nope = 1", COLUMNS["dead"])
