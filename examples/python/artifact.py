"""A guest draws a plot and hands it out: the host gets (type, bytes) and decides what to do with them."""

import tempfile
from pathlib import Path

import brumate

CODE = '''
import math
import brumate

class Plot:
    """A line through points, as SVG."""

    def __init__(self, points, width=480, height=160):
        self.points, self.width, self.height = points, width, height

    def _repr_svg_(self):
        low, high = min(self.points), max(self.points)
        step = self.width / (len(self.points) - 1)
        line = " ".join(f"{i * step:.1f},{self.height * (high - y) / (high - low):.1f}"
                        for i, y in enumerate(self.points))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}">'
                f'<polyline points="{line}" fill="none" stroke="teal" stroke-width="2"/></svg>')

brumate.show(Plot([math.sin(x / 8) * math.exp(-x / 60) for x in range(200)]))
brumate.show({"samples": 200, "frequency": 0.125}, mime_type="application/json")
print("drawn")
'''

result = brumate.Sandbox().execute(CODE)
print(result.stdout, end="")
with tempfile.TemporaryDirectory() as folder:
    for number, artifact in enumerate(result.artifacts):
        name = f"{number}.{artifact.mime_type.partition('/')[2].partition('+')[0]}"
        Path(folder, name).write_bytes(artifact.data)
        print(f"{artifact.mime_type}: {len(artifact.data)} bytes, {artifact.data[:40]!r}... kept as {name}")
