"""The Lua files: each says what it takes, each is loaded as it stands, all keys are declared."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

from chasqui_engine._redis.commands import scripts

FOLDER = Path(str(files("chasqui_engine._redis.commands"))) / "lua"
FILES = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.lua")}
INCLUDES = {name.removeprefix("includes/") for name in FILES if name.startswith("includes/")}
SCRIPTS = sorted(name for name in FILES if not name.startswith("includes/"))


def test_there_are_scripts() -> None:
    assert {"stream/add", "group/ack", "group/retry", "delayed/promote"} <= set(SCRIPTS)


def test_every_include_is_used() -> None:
    firsts = [(FOLDER / f"{name}.lua").read_text().partition("\n")[0] for name in SCRIPTS]
    used = {name for first in firsts if first.startswith("-- includes: ") for name in first.split()[2:]}
    assert used == INCLUDES


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_header_says_keys_arguments_and_reply(name: str) -> None:
    lines = (FOLDER / f"{name}.lua").read_text().splitlines()
    header = "\n".join(line for line in lines if line.startswith("--"))
    code = "\n".join(line for line in lines if not line.startswith("--"))
    assert "-- KEYS " in header
    assert ("-- ARGV " in header) == ("ARGV" in code)
    # A script that ends with a plain number may have nothing to say by it.
    says_something = re.search(r"^return (?!\d+$)", code, re.MULTILINE)
    assert "-- Reply " in header or not says_something


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_key_is_made_up_in_a_script(name: str) -> None:
    """In a Cluster, and under an ACL, a script may touch only the keys it was given."""
    code = "\n".join(line for line in scripts.load(name).source(False).splitlines() if not line.startswith("--"))
    assert not re.search(r"['\"]\{?chasqui", code)
    assert not re.search(r"KEYS\[[^\]]+\]\s*\.\.", code)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hash_is_that_of_the_source(name: str) -> None:
    script = scripts.load(name, on_full_server="stream")
    for flags in (False, True):
        source = script.source(flags)
        assert script.sha(flags) == hashlib.sha1(source.encode()).hexdigest()


def test_a_script_for_a_full_server_has_a_flag_or_begins_with_a_write_that_asks_for_no_memory() -> None:
    script, plain = scripts.load("group/ack", on_full_server="stream"), scripts.load("group/ack").source(False)
    assert script.source(True) == "#!lua flags=allow-oom\n" + plain
    assert script.source(False) == "redis.pcall('XDEL', KEYS[1], '0-0')\n" + plain


def test_a_script_that_need_not_run_on_a_full_server_is_the_same_for_all() -> None:
    script = scripts.load("stream/add")
    assert script.source(True) == script.source(False)
    assert script.sha(True) == script.sha(False)


def test_what_a_script_uses_is_put_before_it() -> None:
    user = next(name for name in SCRIPTS if (FOLDER / f"{name}.lua").read_text().startswith("-- includes: "))
    own = (FOLDER / f"{user}.lua").read_text()
    used = own.partition("\n")[0].removeprefix("-- includes: ").split()
    source = scripts.load(user).source(False)
    assert source.endswith(own)
    places = [source.index((FOLDER / f"includes/{name}.lua").read_text()) for name in used]
    assert places == sorted(places)


def test_a_script_is_read_once() -> None:
    assert scripts.load("stream/add") is scripts.load("stream/add")


def test_a_script_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        scripts.load("no-such-script")
