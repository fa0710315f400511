"""core.wasm as C: wasm2c's output, translated (translate.py), with the shim (shim.py)."""
import hashlib
import json

import settings
import shim
import translate
import wasm

USES = ["core-wasm", "wabt"]
FILES = ["guest/build/translate.py", "guest/build/shim.py", "guest/build/wasm.py"]
TOOLS = [settings.CLANG]
NAME, OUTPUTS = "core", 16


def make(job):
    path = job.use("core-wasm") / "core.wasm"
    data = path.read_bytes()
    module = wasm.Module(data)
    job.say("proving: no import in the table, no instruction that touches it")
    counts = module.prove()
    job.run([job.use("wabt") / "bin" / "wasm2c", path, "--num-outputs=%d" % OUTPUTS, "-n", NAME,
             "-o", job.out / (NAME + ".c")], what="wasm2c")
    done = translate.translate(job.out, NAME, module, counts)
    job.say("translated: " + ", ".join("%d %s" % (n, what) for what, n in done.items()))
    python = (job.use("core-wasm") / "versions.txt").read_text().strip()
    build = "%s; wasm2c %s" % (python, settings.WABT)
    digest = hashlib.sha256(data).hexdigest()
    (job.out / "shim.c").write_text(shim.write_shim(module, NAME, digest, build, translate.SPAN))
    (job.out / "facts.json").write_text(json.dumps(dict(
        done, functions=len(module.bodies), instructions=sum(counts.values()), sha256=digest), indent=1))
