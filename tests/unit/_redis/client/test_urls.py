"""What URLs say, and that no message about one shows a part of it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_engine import ConfigError
from chasqui_engine._redis.blocking.endpoints import blocking_endpoint_for
from chasqui_engine._redis.client.endpoints import endpoint_for
from chasqui_engine._redis.client.urls import HostPort, apply_tls, resolve_url, split_url

SECRET = "s3cr3t"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHASQUI_REDIS_URL", raising=False)


def test_without_a_url_the_variable_counts_and_then_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_url(None) == "redis://127.0.0.1:6379"
    assert resolve_url("") == "redis://127.0.0.1:6379"
    monkeypatch.setenv("CHASQUI_REDIS_URL", "redis://elsewhere:1")
    assert resolve_url(None) == "redis://elsewhere:1"
    assert resolve_url("redis://given:2") == "redis://given:2"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("valkey://u:p@h:1/2", "redis://u:p@h:1/2"),
        ("VALKEYS://h:1?ssl_cert_reqs=none", "rediss://h:1?ssl_cert_reqs=none"),
        ("redis-cluster://u:p@a:1", "redis+cluster://u:p@a:1"),
        ("rediss-cluster://a:1?node=b:2&node=c:3", "rediss+cluster://a:1,b:2,c:3"),
        ("valkey-cluster://a:1,b:2", "redis+cluster://a:1,b:2"),
        ("valkeys+cluster://a:1", "rediss+cluster://a:1"),
        ("redis-sentinel://a:1,b:2/3?sentinelServiceName=main", "redis+sentinel://a:1,b:2/main/3"),
        ("redis-sentinel://a:1?node=b:2&sentinelServiceName=a%2Fb", "redis+sentinel://a:1,b:2/a%2Fb"),
        ("redis-sentinel://a/main/3", "redis+sentinel://a/main/3"),
        (
            "valkeys-sentinel://u:p@a/0?sentinelServiceName=main&sentinelUsername=s&sentinelPassword=p%26q",
            "rediss+sentinel://u:p@a/main/0?sentinel_username=s&sentinel_password=p%26q",
        ),
        ("redis+sentinel://a/main?node=x", "redis+sentinel://a/main?node=x"),
        ("embedded:///a/valkey", "embedded:///a/valkey"),
    ],
)
def test_a_url_as_chasquimq_spells_it_leads_to_the_same_server(theirs: str, ours: str) -> None:
    assert resolve_url(theirs) == ours


def test_tls_of_a_url_as_chasquimq_spells_it() -> None:
    assert apply_tls("valkey-cluster://h:1", True) == "rediss+cluster://h:1"


def test_a_url_that_is_no_text() -> None:
    with pytest.raises(ConfigError, match="redis_url must be a string, got int"):
        resolve_url(6379)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "by_tls"),
    [
        ("redis://h:1/2", "rediss://h:1/2"),
        ("REDIS://h:1", "rediss://h:1"),
        ("rediss://h:1", "rediss://h:1"),
        ("h:6380", "rediss://h:6380"),
        ("redis+sentinel://h/s", "rediss+sentinel://h/s"),
        ("redis+cluster://h", "rediss+cluster://h"),
        (None, "rediss://127.0.0.1:6379"),
    ],
)
def test_tls_on_request(url: str | None, by_tls: str) -> None:
    assert apply_tls(url, True) == by_tls
    assert apply_tls(url, False) == url


def test_tls_takes_the_url_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHASQUI_REDIS_URL", "redis://elsewhere:1")
    assert apply_tls(None, True) == "rediss://elsewhere:1"


@pytest.mark.parametrize("url", ["unix:///run/redis.sock", "embedded://", "embedded:///var/lib/jobs"])
def test_tls_where_there_is_no_network_is_refused_and_not_ignored(url: str) -> None:
    with pytest.raises(ConfigError, match="tls=True"):
        apply_tls(url, True)


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("redis+cluster://a:1,b:2", (HostPort("a", 1), HostPort("b", 2))),
        ("redis+cluster://u:p@a,b:2", (HostPort("a", 6379), HostPort("b", 2))),
        ("redis+cluster://[::1]:7000,[fe80::1]", (HostPort("::1", 7000), HostPort("fe80::1", 6379))),
        ("redis://:6380", (HostPort("localhost", 6380),)),
        ("redis://", (HostPort("localhost", 6379),)),
    ],
)
def test_hosts(url: str, places: tuple[HostPort, ...]) -> None:
    assert split_url(url, 6379).places == places


def test_a_url_of_one_of_many_hosts() -> None:
    parts = split_url("rediss+sentinel://u:p%40@[::1]:1,b/service/3?x=1", 26379)
    assert parts.at(parts.places[0], "3", "x=1") == "rediss://u:p%40@[::1]:1/3?x=1"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://user:s3cr3t@h:1/2", "h:1"),
        ("redis://h", "h:6379"),
        ("REDIS://h", "h:6379"),
        ("redis://:s3cr3t@[::1]:1", "::1:1"),
        ("rediss://h:1?ssl_cert_reqs=none", "h:1"),
        ("unix:///run/r.sock?password=s3cr3t&db=1", "/run/r.sock"),
        ("unix:///run/at@home.sock", "/run/at@home.sock"),
        ("redis+sentinel://:s3cr3t@a:1,b/main/0?sentinel_password=s3cr3t", "sentinel main at a:1, b:26379"),
        ("redis+cluster://:s3cr3t@a:1,b", "cluster at a:1, b:6379"),
        ("embedded://", "embedded server in a temporary folder"),
        ("embedded:///var/lib/jobs", "embedded server in /var/lib/jobs"),
    ],
)
def test_the_address_shown_to_people(url: str, address: str) -> None:
    assert endpoint_for(url, "k").address == address


@pytest.mark.parametrize(
    "url",
    [
        "http://u:s3cr3t@h",
        "redis:/u:s3cr3t@h",
        "u:s3cr3t@h:6379",
        "redis+other://u:s3cr3t@h",
        "redis://u:s3cr3t/rest@h:6379",
        "redis://u:1/s3cr3t@h:6379",
        "redis://u:1?s3cr3t@h:6379",
        "redis://u:1#s3cr3t@h:6379",
        "redis://u:s3cr3t#rest@h:6379",
        "redis://u:s3cr3t@h:port",
        "redis://u:s3cr3t@h:99999",
        "redis://u:s3cr3t@h:0",
        "redis://u:s3cr3t@[::1",
        "redis://u:s3cr3t℀@h",
        "redis://u:s3cr3t@a,b",
        "redis://u:s3cr3t@h/name",
        "redis://u:s3cr3t@h1:6379,h2:7000",
        "redis://u:s3cr3t@h?db=one",
        "redis://u:s3cr3t@h?socket_connect_timeout=soon",
        "redis://u:s3cr3t@h?unknown_option=1",
        "rediss://u:s3cr3t@h?ssl_cert_reqs=perhaps",
        "rediss://u:s3cr3t@h?ssl_ca_certs=/not/there.pem",
        "unix://",
        "redis+sentinel://u:s3cr3t@h",
        "redis+sentinel://u:s3cr3t@h:s3cr3t/main",
        "redis+sentinel://u:s3cr3t@h/main?sentinel_unknown=1",
        "redis+sentinel://u:s3cr3t@h/main?sentinel_tls=perhaps",
        "redis+sentinel://u:s3cr3t@h/main/name",
        "redis+cluster://u:s3cr3t@h:x",
        "redis+cluster://u:s3cr3t@h/3",
        "redis+sentinel://u:s3cr3t@h/main?sentinel_bogus=1",
        "redis-sentinel://u:s3cr3t@h",
        "redis-sentinel://u:s3cr3t@h/main?sentinelUser=1",
        "redis-cluster://u:s3cr3t@h?node=x:s3cr3t",
        "valkey-other://u:s3cr3t@h",
    ],
)
def test_a_bad_url_is_refused_the_same_by_both_clients_without_showing_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="redis_url") as caught:
        endpoint_for(url, "k")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.code == "CMQ-004"
    with pytest.raises(ConfigError) as blocking:
        blocking_endpoint_for(url, "k")
    assert blocking.value.args == caught.value.args
    assert SECRET not in "".join(traceback.format_exception(blocking.value))


@given(st.text(alphabet=st.sampled_from("redis:/@?#,[]%0192.sentinel+cluster \n\x00é"), max_size=40))
def test_any_text_is_an_endpoint_or_a_config_error(rest: str) -> None:
    for scheme in ("redis", "rediss", "redis+sentinel", "redis+cluster", "valkey", "redis-sentinel", "redis-cluster"):
        try:
            endpoint = endpoint_for(f"{scheme}://{rest}", "k")
        except ConfigError as err:
            assert "redis_url" in str(err)  # noqa: PT017 - either way is fine
            with pytest.raises(ConfigError):
                blocking_endpoint_for(f"{scheme}://{rest}", "k")
        else:
            assert endpoint.address
            blocking = blocking_endpoint_for(f"{scheme}://{rest}", "k")
            assert blocking.address == endpoint.address
            blocking.close()


def test_tls_is_verified_unless_the_url_says_otherwise(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()
    strict = endpoint_for(f"rediss://h?ssl_ca_certs={authority}", "k")._options  # type: ignore[attr-defined]
    assert strict["ssl_check_hostname"] is True
    assert "ssl_cert_reqs" not in strict
    assert strict["ssl_ca_certs"] == str(authority)
    by_name_only = endpoint_for("rediss://h?ssl_check_hostname=false", "k")._options  # type: ignore[attr-defined]
    assert by_name_only["ssl_check_hostname"] is False
    careless = endpoint_for("rediss://h?ssl_cert_reqs=none", "k")._options  # type: ignore[attr-defined]
    assert careless["ssl_check_hostname"] is False


@pytest.mark.parametrize("option", ["protocol=3", "decode_responses=true", "max_connections=5", "client_name=mine"])
def test_options_of_other_programs_do_no_harm(option: str) -> None:
    options = endpoint_for(f"redis://h?{option}", "k")._options  # type: ignore[attr-defined]
    assert options["protocol"] == 2
    assert "max_connections" not in options


@pytest.mark.parametrize(
    ("url", "to_master", "to_sentinels"),
    [
        ("redis+sentinel://h/main", "Connection", "Connection"),
        ("rediss+sentinel://h/main", "SSLConnection", "SSLConnection"),
        ("rediss+sentinel://h/main?sentinel_tls=false", "SSLConnection", "Connection"),
        ("redis+sentinel://h/main?sentinel_tls=true", "Connection", "SSLConnection"),
    ],
)
def test_the_way_to_sentinels_is_that_to_the_master_unless_the_url_says_otherwise(
    url: str, to_master: str, to_sentinels: str
) -> None:
    endpoint: Any = endpoint_for(url, "k")
    assert endpoint._master._connection_class.__name__ == to_master
    assert endpoint._sentinels._connection_class.__name__ == to_sentinels


def test_master_and_sentinels_have_logins_of_their_own(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()
    endpoint: Any = endpoint_for(
        f"rediss+sentinel://jobs:m@h/main/3?sentinel_username=s&sentinel_password=p%25&ssl_ca_certs={authority}", "k"
    )
    master, sentinels = endpoint._master._options, endpoint._sentinels._options
    assert (master["username"], master["password"], master["db"]) == ("jobs", "m", 3)
    assert (sentinels["username"], sentinels["password"]) == ("s", "p%")
    assert "db" not in sentinels
    assert master["ssl_ca_certs"] == sentinels["ssl_ca_certs"] == str(authority)
