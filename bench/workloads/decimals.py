"""Decimal numbers: money, a square root to many digits, a series."""
from decimal import Decimal, getcontext, localcontext


def work():
    getcontext().prec = 28
    debt, rate = Decimal("250000.00"), Decimal("0.0375") / 12
    paid = Decimal(0)
    for month in range(24000):
        interest = (debt * rate).quantize(Decimal("0.01"))
        debt = debt + interest - Decimal("1158.04") if month % 300 else Decimal("250000.00")
        paid += interest
    with localcontext() as c:
        c.prec = 900
        root = Decimal(2).sqrt()
        e = term = Decimal(1)
        for n in range(1, 420):
            term /= n
            e += term
    return str(debt.quantize(Decimal("0.01"))), str(paid)[:12], str(root)[-12:], str(e)[200:220]
