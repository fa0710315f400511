"""Floats in a tight loop: the sun and four planets, pulled by each other."""
from math import pi, sqrt

YEAR = 365.24
SUN = 4 * pi * pi
PLANETS = [  # position in AU, speed in AU per day, mass in suns
    ((4.84143144, -1.16032004, -0.10362204), (0.00166007664, 0.00769901118, -0.0000690460017), 0.000954791938),
    ((8.34336671, 4.12479856, -0.40352341), (-0.00276742510, 0.00499852801, 0.0000230417297), 0.000285885980),
    ((12.8943695, -15.1111514, -0.22330757), (0.00296460137, 0.00237847173, -0.0000296589568), 0.0000436624404),
    ((15.3796971, -25.9193146, 0.17925877), (0.00268067772, 0.00162824170, -0.0000951592254), 0.0000515138902),
]


class Body:
    __slots__ = ("x", "y", "z", "u", "v", "w", "mass")

    def __init__(self, place, speed, mass):
        self.x, self.y, self.z = place
        self.u, self.v, self.w = (s * YEAR for s in speed)
        self.mass = mass * SUN


def advance(bodies, pairs, dt):
    for a, b in pairs:
        x, y, z = a.x - b.x, a.y - b.y, a.z - b.z
        d2 = x * x + y * y + z * z
        pull = dt / (d2 * sqrt(d2))
        p, q = b.mass * pull, a.mass * pull
        a.u -= x * p
        a.v -= y * p
        a.w -= z * p
        b.u += x * q
        b.v += y * q
        b.w += z * q
    for c in bodies:
        c.x += dt * c.u
        c.y += dt * c.v
        c.z += dt * c.w


def work():
    bodies = [Body((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0)] + [Body(*p) for p in PLANETS]
    pairs = [(a, b) for i, a in enumerate(bodies) for b in bodies[i + 1:]]
    for _ in range(5000):
        advance(bodies, pairs, 0.01)
    return [round(b.x, 6) for b in bodies]
