"""JSON there and back: the C encoder and decoder, and the indented form, which is Python's."""
import json


def work():
    rows = [{"id": n, "name": f"käse {n}", "on": n % 2 == 0, "tags": ["x", "y" * (n % 5), None],
             "value": n / 3, "at": {"lat": n * 0.25, "lon": -n}} for n in range(200)]
    size = 0
    for _ in range(26):
        text = json.dumps(rows)
        size += len(text)
        rows = json.loads(text)
    return size, len(json.dumps(rows, indent=1, sort_keys=True)), rows[-1]["name"]
