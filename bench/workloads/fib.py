"""Plain calls: the doubly recursive sequence."""


def fib(n):
    if n < 2:
        return n
    return fib(n - 2) + fib(n - 1)


def work():
    return fib(26)
