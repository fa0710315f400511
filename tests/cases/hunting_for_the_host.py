# Looking around in the interpreter finds classes, frames and files of the guest: nothing of the host.

#== classes, objects and frames
#: stdout-has False
#: stdout-any
#: stdout-has []
import gc, sys
subs = [k.__name__ for k in object.__subclasses__()]
print("Popen" in subs, any("host" in str(type(o)).lower() for o in gc.get_objects()))
f = sys._getframe()
while f: print(f.f_code.co_filename, sorted(k for k in f.f_globals if "secret" in k.lower() or "token" in k.lower())); f = f.f_back

#== the environment is empty but for what was given
#: env KEY=VALUE
#: stdout VALUE ['HOME', 'LANG', 'TMPDIR'] /tmp
import os
print(os.environ.pop("KEY"), sorted(os.environ), os.environ["TMPDIR"])

#== the host's files are not there
#: stdout []
import os
print([p for p in ("/etc/passwd", "/proc/self/maps", "/proc/version", "/root", "/home", "/var", "/sys", "/dev/mem", "/bin/sh", "/etc/hostname") if os.path.exists(p)])

#== no way up and out
#: stdout True
import os
found = set()
for p in ("..", "../..", "/..", "/../..", "/tmp/../..", "/tmp/" + "../" * 40):
    found.add(tuple(sorted(os.listdir(p))))
print(found == {tuple(sorted(os.listdir("/")))})

#== nothing to run and nobody to talk to
#: stdout 4 refused
import os, socket, subprocess
n = 0
for f in (lambda: subprocess.run(["true"]), lambda: os.system("true") and 1 / 0, lambda: os.execv("/bin/sh", ["sh"]), lambda: socket.create_connection(("127.0.0.1", 80), 1)):
    try: f()
    except (OSError, AttributeError, ZeroDivisionError): n += 1
print(n, "refused")

#== every descriptor is one of ours
#: stdout True
import os
n = 0
for fd in range(4096):
    try: os.fstat(fd); n += 1
    except OSError: pass
print(n < 32)

#== who and where am I
#: stdout 6 harmless
import os, platform, socket, getpass, sys
n = 0
for f in (platform.platform, platform.node, lambda: str(os.uname()), lambda: socket.gethostname(), lambda: os.getlogin(), lambda: sys.executable):
    try: text = f()
    except (OSError, AttributeError): text = ""
    n += all(w not in text.lower() for w in ("linux", "x86", "debian", "root", "/usr/bin"))
print(n, "harmless")

#== memory of one's own only
#: reason exception crashed
#: type ImportError ModuleNotFoundError AttributeError OSError
import ctypes
ctypes.memmove(0, b"x", 2**30)

#== import machinery and built-in modules
#: stdout-any
import sys
for name in sys.builtin_module_names:
    try: vars(__import__(name))
    except ImportError: pass
print(len(sys.builtin_module_names))

#== the runner's own module, called with nonsense
#: timeout 5s
#: reason completed exception crashed exited timeout stack_limit memory_limit
#: stdout-any
#: stderr-any
#: wrecked
import _brumate, itertools
values = (None, -1, 0, 1, 2**31, 2**64, b"", b"\xff" * 100, "x", [], {}, print)
for name in dir(_brumate):
    f = getattr(_brumate, name)
    if not callable(f): continue
    for args in itertools.chain([()], ((a,) for a in values), itertools.product(values, repeat=2), itertools.product(values[:6], repeat=3)):
        try: f(*args)
        except Exception: pass
