"""Calls of host functions: posted with an id, answered now or by a later step."""

import asyncio
import functools
import struct

from _brumate import post, take

POST_CALL, POST_DROP = 2, 5

_HEAD = struct.Struct("<II")
_REPLY = struct.Struct("<IIII")
_ID = struct.Struct("<I")
_get_running_loop = asyncio.get_running_loop
_partial = functools.partial

pending = {}  # id -> future
_last = 0


class CallError(Exception):
    """The host's answer to a call was an error."""


def call(name, payload):
    """Calls the host function `name` with `payload` (bytes): a future of the answer's bytes. A host
    that answers at once makes it a finished one."""
    global _last
    future = _get_running_loop().create_future()
    _last = ident = (_last + 1) & 0xFFFFFFFF
    encoded = name.encode()
    ready = post(POST_CALL, _HEAD.pack(ident, len(encoded)) + encoded + payload)
    if ready < 0:
        raise CallError(f"the host refused the call of {name!r}")
    pending[ident] = future
    if ready:
        deliver(parse(take(ready)))
    if not future.done():
        future.add_done_callback(_partial(_done, ident))
    return future


def _done(ident, future):
    # Still pending: cancelled by the guest, not answered by the host.
    if pending.get(ident) is future:
        del pending[ident]
        post(POST_DROP, _ID.pack(ident))


def parse(data):
    """The replies in agent_reply records, as (id, ok, bytes)."""
    at = 0
    replies = []
    while at + _REPLY.size <= len(data):
        ident, ok, size, _ = _REPLY.unpack_from(data, at)
        at += _REPLY.size
        replies.append((ident, bool(ok), data[at:at + size]))
        at += size
    return replies


def deliver(replies):
    for ident, ok, data in replies:
        future = pending.pop(ident, None)
        if future is None or future.done():
            continue
        if ok:
            future.set_result(data)
        else:
            future.set_exception(CallError(data.decode(errors="replace")))


def drop_all():
    """Gives up what the execution left unanswered."""
    while pending:
        ident, future = pending.popitem()
        post(POST_DROP, _ID.pack(ident))
        if not future.done():
            future.cancel()
