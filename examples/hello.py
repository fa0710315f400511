"""A first look from inside: what a sandboxed program is told about where it runs."""

import os
import platform
import sys

print(f"Hello from Python {platform.python_version()} on {sys.platform}.")
print("Working in", os.getcwd(), "- the environment has", *sorted(os.environ))
print("At the root:", *sorted(os.listdir("/")))
try:
    open("/etc/passwd").read()
except OSError as e:
    print("The host's files are not here:", e)
