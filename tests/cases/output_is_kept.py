# What was printed before the end is there, whatever the end.

#== output before a crash
#: reason exception
#: type RuntimeError
#: message boom
#: traceback raise RuntimeError("boom")
#: stdout step 1
#: stderr warn
import sys
print("step 1"); print("warn", file=sys.stderr); raise RuntimeError("boom")

#== text that was not flushed
#: reason exception
#: type ZeroDivisionError
#: stdout half a line
#: stdout 
import sys
sys.stdout.write("half a line\n"); sys.stdout.write("")
print(end="\n")
1 / 0

#== output before a time limit
#: timeout 200ms
#: reason timeout
#: stdout began
print("began", flush=True)
while True: pass

#== output before a hard stop
#: timeout 200ms
#: reason timeout
#: stdout began
print("began", flush=True)
while True:
    try:
        while True: pass
    except BaseException: pass

#== output before os._exit
#: reason exited
#: exit 4
#: stdout flushed
import os
print("flushed", flush=True)
os._exit(4)

#== the traceback shows the user's lines and none of ours
#: reason exception
#: traceback in outer
#: traceback in inner
#: traceback inner(0)
#: traceback return 1 / n
#: traceback ZeroDivisionError: division by zero
#: traceback-lacks brumate
#: traceback-lacks agent
def inner(n):
    return 1 / n
def outer():
    inner(0)
outer()

#== a traceback across runs names lines of the run that defined the function
#: stdout defined
def late():
    raise KeyError("late")
print("defined")
#-- the call
#: name <another run>
#: reason exception
#: traceback raise KeyError("late")
late()

#== chained exceptions and notes
#: reason exception
#: type ValueError
#: traceback The above exception was the direct cause
#: traceback a note
try: {}["k"]
except KeyError as e:
    v = ValueError("outer"); v.add_note("a note")
    raise v from e

#== an exception whose text cannot be made
#: reason exception
#: type Mute __main__.Mute
#: traceback Mute
class Mute(Exception):
    def __str__(self): raise RuntimeError("no text")
    __repr__ = __str__
raise Mute

#== surrogates in an exception's text
#: reason exception
#: type ValueError
raise ValueError("\ud800 lone")

#== the output limit cuts, counts and lets the run go on
#: output 1K
#: cut
#: stdout-has xxxx
for i in range(100): print("x" * 100)
#-- the next run has its own allowance
#: stdout short
print("short")

#== the output limit may end the run
#: output 1K
#: output-stops
#: reason output_limit
#: stdout-has xxxx
while True: print("x" * 100)

#== one huge write
#: output 64K
#: cut
#: host-memory 160M
#: stdout-has xxxx
import os, sys
sys.stdout.write("x" * 20_000_000); os.write(1, b"x" * 20_000_000)
