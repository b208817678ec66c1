"""The condition of a redrive: an expression over the columns of a dead letter, and nothing else of SQL.

The text comes from a command line or a form, and Spark's SQL can run programs (`transform … using`), call any method
of Java (`reflect`) and read any file (a subquery on ``text.`/etc/passwd` ``). So every word must be one of those here.
Whether they make sense together, Spark decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from chasqui_engine.values.errors import ConfigError


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = _words("""
    and or not is null true false in like ilike rlike regexp escape between case when then else end cast try_cast as div
    interval year years month months week weeks day days hour hours minute minutes second seconds
    string boolean tinyint smallint int integer bigint float double decimal binary date timestamp
""")
_FUNCTIONS = _words("""
    lower upper trim ltrim rtrim length char_length octet_length substring substr left right concat concat_ws instr
    locate position contains startswith endswith replace regexp_like regexp_extract regexp_replace split_part
    get_json_object coalesce nullif ifnull nvl isnull isnotnull isnan if
    abs floor ceil ceiling round mod pmod least greatest
    now current_timestamp current_date to_date to_timestamp timestamp_millis unix_millis unix_timestamp
    date_add date_sub datediff date_trunc hash xxhash64 crc32 md5 sha2 hex base64
""")
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
      | `(?P<quoted>[^`]*)`
      | (?P<number> (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? (?![\w`]) )
      | (?P<word> [A-Za-z_]\w* ) \s* (?P<call> \( )?
      | (?P<sign> <=> | <> | != | <= | >= | == | \|\| | [=<>+*%(),] | -(?!-) | /(?!\*) )
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def check_condition(where: str, columns: Collection[str]) -> str:
    """The unchanged condition, if it consists of columns, values, operators and plain functions only."""
    at, known = 0, {column.lower() for column in columns}
    text = where.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _reject(where, f"{text[at:].strip()[:20]!r} is not allowed there")
        word = (token["word"] or "").lower()
        if token["quoted"] is not None and token["quoted"].lower() not in known:
            raise _reject(where, f"there is no column {token['quoted'][:40]!r}", columns)
        if word and word not in _WORDS and not (word in known and not token["call"]):
            if not token["call"]:
                raise _reject(where, f"there is no column {word[:40]!r}", columns)
            if word not in _FUNCTIONS:
                raise _reject(where, f"the function {word[:40]!r} is not allowed")
        at = token.end()
    return where


def _reject(where: str, why: str, columns: Collection[str] = ()) -> ConfigError:
    shown = where if len(where) <= 200 else f"{where[:200]}…"
    has = f" (it has {', '.join(columns)})" if columns else ""
    return ConfigError(
        f"where must be a condition on the columns of a dead letter, got {shown!r}: {why}{has}. "
        "For anything else pass a DataFrame with the column entry_id"
    )
