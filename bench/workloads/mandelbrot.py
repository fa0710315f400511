"""Complex numbers and floats: how long points take to escape."""
import math


def work():
    total = 0
    for row in range(60):
        for column in range(60):
            c, z, n = complex(column / 24 - 1.9, row / 24 - 1.2), 0j, 0
            while n < 60 and abs(z) < 2:
                z = z * z + c
                n += 1
            total += n
    s = math.fsum(math.sin(n) * math.sqrt(n) - math.log1p(n) for n in range(30000))
    return total, round(s, 4)
