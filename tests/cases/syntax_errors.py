# A program that does not compile runs nothing and hurts nothing.
#: reason exception
#: exit 1
#: alive yes

#== an open bracket
#: type SyntaxError
#: message '[' was never closed
#: traceback File "syntax_errors.py", line 12
#: traceback x = [1, 2
#: traceback ^
x = [1, 2
print(x)
#-- nothing of it was executed
#: reason completed
#: exit 0
#: stdout False
print("x" in globals())

#== errors that the compiler finds late
#: type SyntaxError
print("never printed")
return 5

#== tabs against spaces
#: type IndentationError TabError
if 1:
        a = 1
	b = 2

#== NUL bytes and odd encodings
#: type SyntaxError UnicodeEncodeError
exec("x = 1\0")

#== nested too deeply
#: type SyntaxError IndentationError RecursionError MemoryError
exec("\n".join("    " * i + "if 1:" for i in range(150)) + "\n" + "    " * 150 + "pass")

#== an empty program, a comment, only blanks
#: reason completed
#: exit 0
#-- a comment
#: reason completed
#: exit 0
# nothing

#== a warning about syntax goes to stderr
#: reason completed
#: exit 0
#: stderr-has SyntaxWarning
#: stdout True
print("a" is "a")
