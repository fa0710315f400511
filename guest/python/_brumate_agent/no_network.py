"""WASI has no names of hosts and services, so `_socket` lacks the functions for them. Programs expect an
OSError where there is no network, not an AttributeError. Loaded before the socket module is."""

import _socket

_NO_NETWORK = "there is no network in this sandbox"
_AF_INET = _socket.AF_INET
_EAI_FAIL = _socket.EAI_FAIL
_gaierror = _socket.gaierror
_inet_ntop = _socket.inet_ntop


def _no_host(*args, **kwargs):
    raise _gaierror(_EAI_FAIL, _NO_NETWORK)


def _no_entry(*args):
    raise OSError("service/proto not found")


def _no_interface(*args):
    raise OSError("no interface with this name")


def gethostname():
    """The name of the sandbox, the same for all."""
    return "brumate"


def inet_ntoa(packed_ip):
    """The dotted form of a packed IPv4 address."""
    return _inet_ntop(_AF_INET, packed_ip)


def if_nameindex():
    """The network interfaces: none."""
    return []


for _names, _function in (
        ("getaddrinfo gethostbyname gethostbyname_ex gethostbyaddr getnameinfo", _no_host),
        ("getservbyname getservbyport getprotobyname", _no_entry),
        ("if_nametoindex if_indextoname", _no_interface),
        ("gethostname", gethostname),
        ("inet_ntoa", inet_ntoa),
        ("if_nameindex", if_nameindex)):
    for _name in _names.split():
        if not hasattr(_socket, _name):
            setattr(_socket, _name, _function)
