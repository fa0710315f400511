"""The host functions that code here can await: `list()` has a dict of each, with "name", "description"
and, if the host gave one, "schema"."""

from _brumate import functions as list

__all__ = ["list"]
