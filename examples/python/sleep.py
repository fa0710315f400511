"""An agent that has to ask a human, and does not wait: it goes to sleep in the middle of `await ask(...)`, and is woken
in another process, days later if need be, with the answer. Nothing is run again, nothing is pickled.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import brumate

# What the agent wrote. Its variables, its half-read file and its place in the loop are asleep with it.
PROGRAM = """
with open("/data/orders.txt", "w+") as orders:
    orders.write("40 apples\\n3000 pears\\n12 plums\\n")
    orders.seek(0)
    placed = []
    while line := orders.readline().strip():
        if int(line.split()[0]) > 1000:
            answer = await ask(f"Really order {line}?", options=["yes", "no"])
            print("the human said", answer)
            if answer != "yes":
                continue
        placed.append(line)
        print("ordered", line)
result = placed
"""

# The other process: it knows the file and the human's answer, nothing else.
WAKE = """
import sys, brumate

snapshot = brumate.Snapshot.load(sys.argv[1])
(call,) = snapshot.pending
print("woken; the answer to", repr(call.args[0]), "is", sys.argv[2])
session = brumate.resume(snapshot, replies={call.id: sys.argv[2]})
result = session.finish()
print(result.stdout, end="")
print("result:", result.result)
"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "agent.bru"

    # `ask` is only declared: nobody here can answer it, so the run stops there.
    with brumate.Session(callbacks={"ask": None}) as session:
        progress = session.start(PROGRAM)
        for call in progress.pending:
            print("pending:", call.name, call.args, call.kwargs)

        # Nothing is decided yet: two twins try both answers, the agent itself stays where it is.
        for answer in ("yes", "no"):
            with session.fork() as twin:
                done = twin.reply({call.id: answer for call in progress.pending})
                print(f"if {answer}:", done.result.result)

        session.suspend(close=True).save(file)
    print("asleep, in less than 100 KB:", file.stat().st_size < 100_000)

    wake = [sys.executable, "-c", WAKE, str(file), "no"]
    print(subprocess.run(wake, stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
