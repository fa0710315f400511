# Nobody types into a sandbox: input() never waits.

#== input at the end of the file
#: stdout name? eof
try: input("name? ")
except EOFError: print("eof")

#== input that was given
#: input one\ntwo\n
#: stdout one
#: stdout ['two\\n']
#: stdout eof
import sys
print(input())
print(sys.stdin.readlines())
try: input()
except EOFError: print("eof")

#== the raw stream
#: input abc
#: stdout b'ab' b'c' b''
import os, sys
print(os.read(0, 2), sys.stdin.buffer.read(), os.read(0, 10))

#== stdin of one run is not that of the next
#: input first
#: stdout first
print(input())
#-- here none is given
#: stdout eof
try: input()
except EOFError: print("eof")

#== pdb and getpass end, too
#: reason exception exited
#: type bdb.BdbQuit EOFError BdbQuit
#: stdout-any
#: stderr-any
breakpoint()
print("went on")
