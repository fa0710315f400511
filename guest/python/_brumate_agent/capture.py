"""The JSON of a variable, as json.dumps() makes it, whatever user code did to the module json."""

import json.encoder

from _brumate_agent.report import STOPS, safe_str

_make_encoder = json.encoder.c_make_encoder or json.encoder._make_iterencode
_in_unicode = json.encoder.encode_basestring
_in_ascii = json.encoder.encode_basestring_ascii
_REASON_MAX = 1000


def _no_json(value):
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _encode(value, encode_str):
    encoder = _make_encoder({}, _no_json, encode_str, None, ": ", ", ", False, False, False)
    return "".join(encoder(value, 0))


def to_json(value):
    """(JSON, None), or (None, a line that says why there is none)."""
    try:
        text = _encode(value, _in_unicode)
        try:
            text.encode()
        except UnicodeEncodeError:  # lone surrogates, which only escapes can tell
            text = _encode(value, _in_ascii)
        return text, None
    except STOPS:
        raise
    except BaseException as exc:
        why = safe_str(exc)
        if not isinstance(exc, (TypeError, ValueError, RecursionError)) or not why:
            why = f"{type(exc).__name__}: {why}"
        return None, " ".join(why.split())[:_REASON_MAX]
