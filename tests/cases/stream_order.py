# stdout and stderr come in the order in which they were written.

#== flushed prints alternate
#: stream
#: event 1 o 0\n
#: event 2 e 0\n
#: event 1 o 1\n
#: event 2 e 1\n
#: event 1 o 2\n
#: event 2 e 2\n
#: event 1 \xff\n
import sys, os
for i in range(3):
    print("o", i, flush=True); print("e", i, file=sys.stderr, flush=True)
os.write(1, b"\xff\n")

#== an unflushed line comes before what follows it on the other stream
#: stream
#: event 1 a\n
#: event 2 b\n
#: event 1 c\n
import sys
print("a"); print("b", file=sys.stderr); print("c")

#== many tiny writes are merged
#: output 1M
#: stream
#: host-memory 64M
import sys
for i in range(300_000): sys.stderr.write("x")

#== many tiny writes, kept
#: host-memory 64M
#: stderr-has xxxxxxxx
import sys
for i in range(300_000): sys.stderr.write("x")

#== tiny raw writes that alternate
#: host-memory 64M
#: stdout-any
#: stderr-any
import os
for i in range(50_000): os.write(1, b"o"); os.write(2, b"e")

#== scattered and empty writes
#: stdout abc
import os
os.write(1, b""); os.write(1, b"a"); os.write(2, b""); os.write(1, b"bc")

#== closing the standard streams
#: stdout-any
#: stderr-any
import os
os.close(1); os.close(2)
#-- the next run's output is captured again
#: stdout back
print("back")

#== reopened and duplicated descriptors
#: stdout-any
#: stderr-any
#: reason completed exception
import os, sys
sys.stdout = open(1, "w", closefd=False, buffering=1)
print("one")
sys.stdout = sys.__stdout__
