"""Calls of host functions that are not answered at once. Posting them, and what an answer is made
into, is the reactor's (guest/c/functions.c)."""

import asyncio
import builtins
import json
import re
import struct

from _brumate import CallError, post

POST_DROP = 5

_REPLY = struct.Struct("<IIII")
_ID = struct.Struct("<I")
_decode_json = json.JSONDecoder().decode
# The codec's path in [[positional...], {name: keyword...}].
_path = re.compile(r"value(?:\[0\]\[(\d+)\]|\[1\]\[('[^']*')\])?").match
_get_running_loop = asyncio.get_running_loop

# Raised by an error's text alone, and no harm to whoever has them raised by a host: others end
# generators, or need more than a text.
_NOT_RAISED = (StopIteration, StopAsyncIteration, UnicodeDecodeError, UnicodeEncodeError,
               UnicodeTranslateError, ExceptionGroup)
_RAISED = {
    name: kind for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind not in _NOT_RAISED
}

pending = {}  # id -> future of (ok, bytes)


def expect(ident):
    """The iterator of a future of the answer to a call that was posted."""
    future = _get_running_loop().create_future()
    pending[ident] = future
    return future.__await__()


def forget(ident):
    """The call is awaited no more; if it is unanswered the host is told."""
    future = pending.pop(ident, None)
    if future is not None:
        post(POST_DROP, _ID.pack(ident))
        if not future.done():
            future.cancel()


def error(text):
    """The exception for an error that the host answered with: "ValueError: why"."""
    name, _, message = text.partition(": ")
    kind = _RAISED.get(name)
    if kind is None:
        return CallError(text)
    return kind(message) if message else kind()


def blame(name, text):
    """What the codec says of arguments that cannot cross, with the argument's name."""
    found = _path(text)
    if found is None:
        return f"{name}(): {text}"
    index, keyword = found.groups()
    which = (f"argument {int(index) + 1}" if index else
             f"argument {keyword}" if keyword else "the arguments")
    return f"{name}(): {which}{text[found.end():]}"


def describe(functions):
    """A dict of each host function: "name", "description" and, if the host gave one, "schema"."""
    found = []
    for name, description, schema in functions:
        entry = {"name": name, "description": description}
        if schema:
            try:
                entry["schema"] = _decode_json(schema)
            except ValueError:
                entry["schema"] = schema
        found.append(entry)
    return found


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
        if future is not None and not future.done():
            future.set_result((ok, data))


def drop_all():
    """Gives up what the execution left unanswered."""
    while pending:
        forget(next(iter(pending)))
