"""The sandbox, as the code in it sees it: `show()` hands something to the host beside the output,
`CallError` is what host functions raise that have no better exception."""

from _brumate import CallError
from _brumate import show as _show

__all__ = ["CallError", "show"]

# Of what an object offers of itself the first is taken: the richest.
_FORMS = (
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
)
_TYPE_MAX = 255


def show(obj, mime_type=None):
    """Hands `obj` to the host as an artifact.

    bytes need a type; a str is text/plain if none is given. Any other object is asked for what it
    offers to notebooks (_repr_mimebundle_, _repr_png_, ... _repr_json_), and else shown as its repr.
    With a type, only that is asked for; application/json is made of anything that json can write."""
    if mime_type is not None:
        _check_type(mime_type)
    if isinstance(obj, str):
        return _post(mime_type or "text/plain", obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        if mime_type is None:
            raise TypeError("show() of bytes needs their type: show(data, 'image/png')")
        return _post(mime_type, bytes(obj))
    for offered, data in _offers(obj):
        if mime_type in (None, offered):
            return _post(offered, data)
    if mime_type == "application/json":
        return _post(mime_type, obj)
    if mime_type not in (None, "text/plain"):
        raise TypeError(f"show(): {type(obj).__name__!r} object has no form of type {mime_type}")
    _post("text/plain", repr(obj))


def _check_type(mime_type):
    if not isinstance(mime_type, str):
        raise TypeError(f"show(): a type is a str, not {type(mime_type).__name__}")
    kind, slash, name = mime_type.partition("/")
    if not (kind and slash and name and mime_type.isprintable() and len(mime_type) <= _TYPE_MAX):
        raise ValueError(f"show(): {mime_type[:80]!r} is no type: it should look like 'image/png'")


def _offers(obj):
    """(type, data) of what the object itself offers, richest first."""
    bundle = _call(obj, "_repr_mimebundle_")
    if isinstance(bundle, tuple):
        bundle = bundle[0] if bundle else None
    if isinstance(bundle, dict):
        known = [mime for _, mime in _FORMS]
        for mime in sorted(bundle, key=lambda m: known.index(m) if m in known else len(known)):
            if bundle[mime] is not None:
                _check_type(mime)
                yield mime, bundle[mime]
    for method, mime in _FORMS:
        data = _call(obj, method)
        if data is not None:
            yield mime, data


def _call(obj, method):
    function = None if isinstance(obj, type) else getattr(obj, method, None)
    data = function() if callable(function) else None
    if isinstance(data, tuple) and method != "_repr_mimebundle_":
        data = data[0] if data else None  # with metadata
    return data


def _post(mime_type, data):
    if isinstance(data, str):
        if mime_type.startswith("image/") and mime_type != "image/svg+xml":
            import base64
            data = base64.b64decode(data)  # as bundles for notebooks have it
        else:
            data = data.encode(errors="replace")
    elif not isinstance(data, (bytes, bytearray, memoryview)):
        import json
        data = json.dumps(data, ensure_ascii=False).encode(errors="replace")
    if not _show(mime_type, data):
        raise ValueError(f"show(): {len(data)} bytes of {mime_type} are beyond the limit of "
                         "artifacts of this execution (max_artifact_bytes)")
