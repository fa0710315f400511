# Programs of any size go in; no argument list, no quadratic step. What CPython's compiler needs for them
# counts as the guest's memory.
#: memory 512M

#== five megabytes of text
#: output 16M
#: stdout-has rows = [(0,
rows = [(i, str(i)) for i in range(200_000)]
print("rows =", repr(rows))
print("print(len(rows), sum(int(b) for _, b in rows))")
#-- run it
#: source previous-output
#: stdout 200000 19999900000

#== many functions
#: output 1M
#: stdout-has def f299
print("\n".join(f"def f{i}(): return {i}" for i in range(300)))
#-- run it
#: source previous-output
#-- call the last
#: stdout 299
print(f299())

#== one very long line
#: output 4M
#: stdout-has print(len
print("print(len('" + "x" * 2_000_000 + "'))")
#-- run it
#: source previous-output
#: stdout 2000000

#== a hundred thousand lines
#: output 4M
#: stdout-has n += 1
print("n = 0\n" + "n += 1\n" * 100_000 + "print(n)")
#-- run it
#: source previous-output
#: stdout 100000

#== a program larger than the guest's memory may be
#: memory 48M
#: stdout-any
#: reason exception memory_limit completed
#: type MemoryError
#: stderr-any
exec("x = '" + "y" * 30_000_000 + "'")
