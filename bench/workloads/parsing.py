"""A tokenizer and a parser in Python, CPython's own compiler, and an XML tree."""
import ast
import xml.etree.ElementTree as ET


def tokens(text):
    i = 0
    while i < len(text):
        c = text[i]
        if c.isdigit():
            j = i
            while j < len(text) and text[j].isdigit():
                j += 1
            yield int(text[i:j])
            i = j
        else:
            if c != " ":
                yield c
            i += 1
    yield None


class Parser:
    def __init__(self, text):
        self.tokens = tokens(text)
        self.step()

    def step(self):
        self.token = next(self.tokens)

    def sum(self):
        value = self.product()
        while self.token in ("+", "-"):
            sign = 1 if self.token == "+" else -1
            self.step()
            value += sign * self.product()
        return value

    def product(self):
        value = self.atom()
        while self.token == "*":
            self.step()
            value = value * self.atom() % 1000003
        return value

    def atom(self):
        value = self.token
        self.step()
        if value == "(":
            value = self.sum()
            self.step()
        return value


def work():
    text = " + ".join(f"({n} * {n + 1} - ({n * 7} + 3)) * {n % 9}" for n in range(900))
    tree = ast.parse("\n".join(f"def f{n}(a, b={n}): return [x * a for x in range(b) if x > {n}]" for n in range(90)))
    names = sum(isinstance(n, ast.Name) for n in ast.walk(tree))
    compile(tree, "x", "exec")
    root = ET.fromstring("<r>" + "".join(f'<i n="{n}"><t>text {n}</t></i>' for n in range(1200)) + "</r>")
    return Parser(text).sum(), names, sum(int(i.get("n")) for i in root), len(ET.tostring(root))
