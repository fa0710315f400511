# Modules are stored compiled: nothing of the standard library is compiled in a sandbox.

#== a second helping of imports compiles nothing
#: stdout []
import sys
seen = []
def hook(event, args):
    if event == "compile" and isinstance(args[1], str) and args[1].endswith(".py"): seen.append(args[1])
sys.addaudithook(hook)
import decimal, difflib, email.mime.text, html.parser, unittest, xml.etree.ElementTree, csv, argparse
print(seen)

#== not even by the whole library
#: timeout 60s
#: memory 256M
#: stderr-any
#: stdout-has []
import sys
seen = []
def hook(event, args):
    if event == "compile" and isinstance(args[1], str) and args[1].endswith(".py"): seen.append(args[1])
sys.addaudithook(hook)
for name in sorted(sys.stdlib_module_names - {"antigravity", "this", "idlelib", "turtle", "turtledemo", "__main__"}):
    try: __import__(name)
    except ImportError: pass
print(seen)

#== and nothing is written
#: stdout []
import os, colorsys, wave
print([f for d, _, fs in os.walk("/tmp") for f in fs])

#== tracebacks into the library show its source
#: reason exception
#: traceback json/__init__.py
#: traceback return _default_decoder.decode(s)
import json
json.loads("{")
