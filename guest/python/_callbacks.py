"""The host functions that code here can await."""

import json as _json

from _brumate import functions as _functions

__all__ = ["list"]


def list():
    """A dict of each host function: "name", "description" and, if the host gave one, "schema"."""
    found = []
    for name, description, schema in _functions():
        entry = {"name": name, "description": description}
        if schema:
            try:
                entry["schema"] = _json.loads(schema)
            except ValueError:
                entry["schema"] = schema
        found.append(entry)
    return found
