"""NetConfig: what is named, what matches, what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brumate import NetConfig, Sandbox

DER = bytes.fromhex("300830003000030200ff")


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        (
            "api.example.com",
            ["api.example.com", "API.Example.COM", "api.example.com."],
            ["xapi.example.com", "api.example.com.x", "example.com"],
        ),
        (
            "*.example.com",
            ["a.example.com", "a.b.example.com"],
            ["example.com", ".example.com", "aexample.com", "a.example.com.evil.net"],
        ),
        (
            "api.*.com",
            ["api.github.com", "api.a.b.com"],
            ["api.com", "api..com", "xapi.github.com"],
        ),
        ("*", ["a", "1.2.3.4", "::1"], ["", "."]),
        ("a*b*c", ["a1b2c", "a.b.b.c"], ["abc", "a1bc", "ab2c"]),
        ("127.*", ["127.0.0.1"], ["128.0.0.1", "127.1"]),
        ("[2001:db8::1]", ["2001:db8::1", "[2001:db8::1]", "2001:0db8:0:0::1"], ["2001:db8::2"]),
        ("2001:db8:*", ["2001:db8::1"], ["2001:db9::1"]),
        ("bücher.de", ["bücher.de", "xn--bcher-kva.de", "BÜCHER.de"], ["bucher.de"]),
    ],
)
def test_patterns(pattern: str, matched: list[str], others: list[str]):
    config = NetConfig(allowed_hosts=[pattern], blocked_hosts=[])
    assert [host for host in matched if not config.allows(host)] == []
    assert [host for host in others if config.allows(host)] == []


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "0",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
    ]
    + ["::127.0.0.1", "64:ff9b::7f00:1", "localhost.", "LOCALHOST", "a.localhost", "127.0.0.1%25lo"]
    + [
        "\u2460\u2461\u2466.0.0.1",
        "::",
        "0.0.0.0",
        "fe80::1%eth0",
        "256.1.1.1",
        "1.2.3.4.5",
        "",
        " localhost",
    ]
    + [
        "user@example.com",
        "example.com:80",
        "http://example.com",
        "a b",
        "a\0b",
        "a" * 300,
        "\ud800",
    ],
)
def test_other_spellings_of_this_machine_and_no_hosts(host: str):
    assert not NetConfig().allows(host)


def test_blocked_come_first_whatever_allows():
    config = NetConfig(allowed_hosts=["*"]).block_host("bad.com")
    assert (
        config.allows("good.com") and not config.allows("bad.com") and not config.allows("10.0.0.1")
    )


def test_first_allowed_host_refuses_all_others():
    config = NetConfig()
    assert config.allows("other.com")
    config.allow_host("api.example.com")
    assert config.allows("api.example.com") and not config.allows("other.com")


def test_allow_localhost_leaves_private_networks():
    config = NetConfig().allow_localhost()
    assert config.allows("localhost") and config.allows("127.0.0.1") and config.allows("::1")
    assert not config.allows("10.0.0.1") and not config.allows("169.254.169.254")


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".",
        "http://a.com",
        "a.com/x",
        "a.com:80",
        "user@a.com",
        "a b",
        ".a.com",
        "a..com",
        "a" * 300,
        "\ud800",
        "a\n",
    ],
)
def test_patterns_that_are_refused(pattern: str):
    for name in ("allowed_hosts", "blocked_hosts"):
        with pytest.raises(ValueError, match=name):
            NetConfig(**{name: [pattern]})
    with pytest.raises(ValueError):
        NetConfig().allow_host(pattern)


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"max_connections": 0}, ValueError),
        ({"max_connections": "1"}, TypeError),
        ({"connect_timeout_ms": -1}, ValueError),
        ({"io_timeout_ms": 1.5}, TypeError),
        ({"allowed_hosts": "a.com"}, TypeError),
        ({"allowed_hosts": [5]}, TypeError),
        ({"blocked_hosts": 5}, TypeError),
    ],
)
def test_arguments_are_checked(kwargs, error):
    with pytest.raises(error):
        NetConfig(**kwargs)


@pytest.mark.parametrize(
    "cert",
    [
        b"",
        b"x",
        DER[:-1],
        DER + b"x",
        b"-----BEGIN CERTIFICATE-----\n",
        b"\x30\x80" + DER,
        b"\x30\x84\xff\xff\xff\xff",
        bytes(100_000),
    ],
)
def test_certificates_that_are_none(cert: bytes):
    with pytest.raises(ValueError):
        NetConfig().with_root_cert(cert)


def test_certificate_of_wrong_type():
    with pytest.raises(TypeError):
        NetConfig().with_root_cert("text")  # type: ignore[arg-type]


def test_a_real_certificate():
    import ssl

    for cert in ssl.create_default_context().get_ca_certs(binary_form=True)[:50]:
        NetConfig().with_root_cert(cert)


def test_copies_are_apart():
    config = NetConfig().with_root_cert(DER)
    copy = config.copy()
    assert copy == config
    copy.allow_host("a.com")
    assert copy != config and config.allowed_hosts == []
    config.allowed_hosts.append("b.com")
    assert config.allowed_hosts == []


def test_guest_sockets_are_refused_in_words():
    with Sandbox(network=NetConfig.permissive()) as sandbox:
        code = """
import socket, urllib.request
for f in (lambda: socket.socket().connect(("1.2.3.4", 80)), lambda: urllib.request.urlopen("http://example.com")):
    try: f()
    except OSError as e: print(type(e).__name__)
"""
        assert sandbox.execute(code).stdout == "OSError\nURLError\n"


@pytest.mark.parametrize("network", [5, "all", {"allowed_hosts": []}, True])
def test_network_is_checked(network):
    with pytest.raises(TypeError, match="network"):
        Sandbox(network=network)


@given(
    pattern=st.text("ab.*", min_size=1, max_size=8).filter(lambda p: ".." not in p and p[0] != "."),
    host=st.text("ab.", min_size=1, max_size=8).filter(lambda h: ".." not in h),
)
def test_patterns_match_as_regular_expressions_would(pattern: str, host: str):
    config = NetConfig(blocked_hosts=[])
    try:
        config.allow_host(pattern)
    except ValueError:
        return
    wanted = re.fullmatch(
        re.escape(pattern.removesuffix(".")).replace(r"\*", ".+"), host.removesuffix(".")
    )
    assert config.allows(host) is (wanted is not None)
