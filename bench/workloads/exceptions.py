"""Raising, catching, cleaning up, through several frames, with classes of one's own and contexts."""
import contextlib


class Rejected(ValueError):
    def __init__(self, n):
        super().__init__(n)
        self.n = n


def check(n):
    if n % 4 == 0:
        raise Rejected(n)
    return {}[n] if n % 4 == 1 else n


def through(n):
    try:
        return check(n)
    finally:
        through.calls += 1


@contextlib.contextmanager
def guard(log):
    try:
        yield
    except ZeroDivisionError as e:
        log.append(str(e))


def work():
    through.calls = good = rejected = missing = 0
    log = []
    for n in range(36000):
        try:
            good += through(n)
        except Rejected as e:
            rejected += e.n
        except LookupError:
            missing += 1
    for n in range(3000):
        with guard(log):
            1 // (n % 2)
    return through.calls, good, rejected, missing, len(log)
