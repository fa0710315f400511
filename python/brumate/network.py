"""What a sandbox may connect to."""

from __future__ import annotations

from .limits import check_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NetConfig"]

_LOCALHOST = ("localhost", "*.localhost", "127.*", "0.*", "[::1]", "[::]")
_PRIVATE = ("10.*", *(f"172.{n}.*" for n in range(16, 32)), "192.168.*", "169.254.*")

_MS_MAX = 2**31 - 1  # poll(2) takes no more
_CONNECTIONS_MAX = 10_000
_PATTERNS_MAX = 10_000
_NAME_MAX = 253  # characters of a host name in DNS
_CERT_MAX = 64 << 10  # bytes
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_ADDRESS_CHARACTERS = frozenset("0123456789abcdef:.")


class NetConfig:
    """Which hosts guest code may connect to, and how.

    max_connections     open at one time
    connect_timeout_ms  for a connection to be made, milliseconds
    io_timeout_ms       for one read or write, milliseconds
    allowed_hosts       patterns; if there is one, only hosts that match one may be reached
    blocked_hosts       patterns, looked at first: what matches is refused whatever else allows it.
                        Default: localhost and private networks; [] blocks nothing
    root_certs          further certificates to trust, DER

    A pattern is a host name or an address, without scheme and port; `*` stands for one or more
    characters, dots included: "api.example.com", "*.example.com" (not "example.com"),
    "api.*.com", "127.*", "[::1]".

    Methods that change a NetConfig return it, to be chained. A sandbox keeps the state that it was
    given; later changes do not reach it.

    In this version a sandbox takes a NetConfig and keeps it, but there is no traffic yet: sockets in
    the guest raise PermissionError.

    Raises TypeError or ValueError that names the argument.

    Example::

        config = NetConfig(allowed_hosts=["api.example.com"]).allow_host("*.openai.com")
        config.allows("api.example.com"), config.allows("10.0.0.1")     # (True, False)
    """

    def __init__(
        self,
        max_connections: int = 10,
        connect_timeout_ms: int = 30_000,
        io_timeout_ms: int = 60_000,
        allowed_hosts: Iterable[str] = (),
        blocked_hosts: Iterable[str] | None = None,
    ) -> None:
        self._max_connections = check_number(
            "max_connections", max_connections, 1, _CONNECTIONS_MAX
        )
        self._connect_timeout_ms = check_number(
            "connect_timeout_ms", connect_timeout_ms, 1, _MS_MAX
        )
        self._io_timeout_ms = check_number("io_timeout_ms", io_timeout_ms, 1, _MS_MAX)
        self._allowed = _patterns("allowed_hosts", allowed_hosts)
        self._blocked = _patterns(
            "blocked_hosts", (*_LOCALHOST, *_PRIVATE) if blocked_hosts is None else blocked_hosts
        )
        self._certs: list[bytes] = []

    @classmethod
    def permissive(cls) -> NetConfig:
        """All hosts, this machine and private networks included; 100 connections. For development:
        guest code can then reach services that trust whoever is near.

        Example::

            Sandbox(network=NetConfig.permissive())
        """
        return cls(max_connections=100, blocked_hosts=[])

    @property
    def max_connections(self) -> int:
        """Connections open at one time."""
        return self._max_connections

    @property
    def connect_timeout_ms(self) -> int:
        """Time for a connection to be made, milliseconds."""
        return self._connect_timeout_ms

    @property
    def io_timeout_ms(self) -> int:
        """Time for one read or write, milliseconds."""
        return self._io_timeout_ms

    @property
    def allowed_hosts(self) -> list[str]:
        """A copy of the patterns that allow; none: all hosts that are not blocked."""
        return list(self._allowed)

    @property
    def blocked_hosts(self) -> list[str]:
        """A copy of the patterns that refuse."""
        return list(self._blocked)

    @property
    def root_certs(self) -> list[bytes]:
        """A copy of the further certificates, DER."""
        return list(self._certs)

    def allow_host(self, pattern: str) -> NetConfig:
        """Adds to `allowed_hosts`; the first one makes all other hosts refused. A host that is blocked
        stays so. ValueError: no pattern."""
        _add(self._allowed, "allowed_hosts", pattern)
        return self

    def block_host(self, pattern: str) -> NetConfig:
        """Adds to `blocked_hosts`. ValueError: no pattern."""
        _add(self._blocked, "blocked_hosts", pattern)
        return self

    def allow_localhost(self) -> NetConfig:
        """Takes this machine from `blocked_hosts`. Private networks stay there."""
        self._blocked = [pattern for pattern in self._blocked if pattern not in _LOCALHOST]
        return self

    def with_root_cert(self, cert_der: bytes) -> NetConfig:
        """Trusts a certificate, in DER, besides those that the host trusts.

        ValueError: no DER certificate. `ssl.PEM_cert_to_DER_cert` makes one of PEM.
        """
        self._certs.append(_certificate(cert_der))
        return self

    def copy(self) -> NetConfig:
        """Another NetConfig that is equal."""
        other = NetConfig(
            self._max_connections,
            self._connect_timeout_ms,
            self._io_timeout_ms,
            self._allowed,
            self._blocked,
        )
        other._certs = list(self._certs)
        return other

    def allows(self, host: str) -> bool:
        """Whether `host`, a name or an address, may be reached: blocked ones first, then allowed ones.

        Looks at the spelling alone: which addresses a name has is not asked. Spellings of IPv4
        addresses other than four decimal numbers ("127.1", "0x7f000001") are never allowed.

        Example::

            NetConfig().allows("example.com"), NetConfig().allows("127.0.0.1")     # (True, False)
        """
        names = _spellings(host)
        if not names or any(_matches(pattern, n) for pattern in self._blocked for n in names):
            return False
        if not self._allowed:
            return True
        return any(_matches(pattern, n) for pattern in self._allowed for n in names)

    def _values(self) -> tuple[object, ...]:
        return (
            self._max_connections,
            self._connect_timeout_ms,
            self._io_timeout_ms,
            self._allowed,
            self._blocked,
            self._certs,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NetConfig):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"NetConfig(max_connections={self._max_connections}, "
            f"connect_timeout_ms={self._connect_timeout_ms}, io_timeout_ms={self._io_timeout_ms}, "
            f"allowed_hosts={self._allowed!r}, blocked_hosts={self._blocked!r}, "
            f"{len(self._certs)} root_certs)"
        )


def _patterns(name: str, patterns: Iterable[str]) -> list[str]:
    if isinstance(patterns, (str, bytes)) or not hasattr(type(patterns), "__iter__"):
        raise TypeError(f"{name} must be a list of patterns, not {type(patterns).__name__}")
    found: list[str] = []
    for pattern in patterns:
        _add(found, name, pattern)
    return found


def _add(patterns: list[str], name: str, pattern: str) -> None:
    checked = _pattern(name, pattern)
    if checked in patterns:
        return
    if len(patterns) == _PATTERNS_MAX:
        raise ValueError(f"{name} takes {_PATTERNS_MAX} patterns; use wildcards")
    patterns.append(checked)


def _pattern(name: str, pattern: object) -> str:
    """The pattern as `_matches` wants it: lower case, no dot at the end, IPv6 in brackets."""
    if not isinstance(pattern, str):
        raise TypeError(f"{name}: a pattern must be a string, not {type(pattern).__name__}")
    if "://" in pattern or "/" in pattern or "@" in pattern:
        raise ValueError(f"{name}: {pattern!r} is more than a host; give the host's name alone")
    if pattern.count(":") == 1:
        raise ValueError(f"{name}: {pattern!r} has a port; give the host's name alone")
    text = _ascii(pattern.removesuffix("."))
    if ":" in text:
        text = "[" + text.removeprefix("[").removesuffix("]") + "]"
        good = set(text[1:-1]) <= _ADDRESS_CHARACTERS | {"*"}
    else:
        good = set(text) <= _NAME_CHARACTERS | {"*"} and ".." not in text
    if not good or not text or text.startswith(".") or len(text) > _NAME_MAX:
        raise ValueError(
            f"{name}: {pattern!r} is no host name, address or pattern such as '*.example.com'"
        )
    return text


def _ascii(host: str) -> str:
    """Lower case; names in other scripts as DNS has them. "" if there is no such name."""
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode().lower()
    except UnicodeError:
        return ""


def _matches(pattern: str, name: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    if not name.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        at = name.find(part, at + 1)
        if at < 0:
            return False
        at += len(part)
    return name.endswith(rest[-1]) and len(name) - len(rest[-1]) > at


def _spellings(host: object) -> list[str]:
    """The host as patterns spell it; nothing if it is no host. An IPv6 address that holds an IPv4 one
    is both."""
    if not isinstance(host, str):
        raise TypeError(f"a host must be a string, not {type(host).__name__}")
    if ":" in host:
        return _ipv6_spellings(host.removeprefix("[").removesuffix("]"))
    text = _ascii(host).removesuffix(".")
    if not text or not set(text) <= _NAME_CHARACTERS or len(text) > _NAME_MAX or ".." in text:
        return []
    last = text.rpartition(".")[2]
    if last.isdigit() or last.startswith("0x"):
        return [text] if _is_ipv4(text) else []
    return [text]


def _is_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(
        part.isdigit() and str(int(part)) == part and int(part) < 256 for part in parts
    )


def _ipv6_spellings(text: str) -> list[str]:
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(text)
    except ValueError:
        return []
    if address.scope_id is not None:
        return []
    number = int(address)
    names = [f"[{address}]"]
    # ::ffff:a.b.c.d, ::a.b.c.d and 64:ff9b::a.b.c.d lead to a.b.c.d
    if number >> 32 in (0xFFFF, 0x64FF9B << 64) or (number >> 32 == 0 and number > 1):
        names.append(".".join(str(byte) for byte in (number & 0xFFFFFFFF).to_bytes(4, "big")))
    return names


def _certificate(der: bytes) -> bytes:
    try:
        data = bytes(memoryview(der))
    except TypeError:
        raise TypeError(f"a certificate must be bytes in DER, not {type(der).__name__}") from None
    if data.lstrip().startswith(b"-----BEGIN"):
        raise ValueError("the certificate is PEM; ssl.PEM_cert_to_DER_cert makes DER of it")
    if len(data) > _CERT_MAX:
        raise ValueError(f"the certificate has {len(data)} bytes; {_CERT_MAX} is the most")
    if not _is_certificate(data):
        raise ValueError("that is no certificate in DER, or one that is cut short")
    return data


_SEQUENCE, _BIT_STRING = 0x30, 0x03


def _is_certificate(data: bytes) -> bool:
    """Whether it is one SEQUENCE of what is signed, the algorithm and the signature (RFC 5280, 4.1)."""
    outer = _element(data, 0)
    if outer is None or data[0] != _SEQUENCE or outer[1] != len(data):
        return False
    at = outer[0]
    for tag in (_SEQUENCE, _SEQUENCE, _BIT_STRING):
        inner = _element(data, at)
        if inner is None or data[at] != tag:
            return False
        at = inner[1]
    return at == len(data)


def _element(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the contents of the DER element at `at` begin and end, or None."""
    if at + 2 > len(data):
        return None
    start, length = at + 2, data[at + 1]
    if length > 0x80:
        start += length - 0x80
        length = int.from_bytes(data[at + 2 : start], "big")
    elif length == 0x80:
        return None
    return (start, start + length) if start + length <= len(data) else None
