"""Integers of thousands of digits: products, quotients, modular powers, reading and writing decimals."""


def work():
    p = (1 << 1279) - 1
    x = 0
    for base in (3, 5, 7, 11, 13, 17):
        x ^= pow(base, p - 2, p)
    a, b = 3 ** 9000, 7 ** 7001
    for n in range(8):
        x ^= a * b >> n
        x += (a * b + n) // (a + n) % 1000003
    for n in range(40):
        x += int(str(a % 10 ** (1000 + n)))
    return x % (10 ** 18 + 9)
