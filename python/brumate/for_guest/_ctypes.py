"""What of ctypes makes sense without machine code: the simple types, their sizes and values.

Libraries ask for the size of a C type; nothing here can load a library, call a function or reach memory."""

import errno
import struct

__version__ = "1.1.0"
RTLD_LOCAL, RTLD_GLOBAL = 0, 256
FUNCFLAG_CDECL, FUNCFLAG_PYTHONAPI, FUNCFLAG_USE_ERRNO, FUNCFLAG_USE_LASTERROR = 1, 4, 8, 16
SIZEOF_TIME_T = 8
CTYPES_MAX_ARGCOUNT = 1024
_memmove_addr = _memset_addr = _string_at_addr = _wstring_at_addr = _cast_addr = 0
_memoryview_at_addr = 0
_pointer_type_cache = {}

# ctypes' letters that struct has under another one, or not at all: all of these are a pointer here.
_POINTERS = "OPzZ"
_TEXT = {"c": (bytes, b"\0"), "u": (str, "\0")}


class ArgumentError(Exception):
    pass


def _absent(what):
    return OSError(errno.ENOSYS, f"{what} is not there in this sandbox: it has no machine code to call")


def _format(letter):
    return "P" if letter in _POINTERS else "i" if letter == "u" else letter


class _Type(type):
    def __mul__(cls, length):
        raise _absent("an array of C types")

    __rmul__ = __mul__

    def from_param(cls, value):
        return value

    def in_dll(cls, library, name):
        raise _absent(f"the variable {name}")

    def from_address(cls, address):
        raise _absent("memory by address")

    from_buffer = from_buffer_copy = from_address


class _Data(metaclass=_Type):
    pass


class _SimpleCData(_Data):
    def __init__(self, value=None):
        letter = self._type_
        empty = _TEXT[letter][1] if letter in _TEXT else False if letter == "?" else None
        if value is None and empty is None:
            value = None if letter in _POINTERS else 0.0 if letter in "fdg" else 0
        self.value = empty if value is None and empty is not None else value

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, value):
        letter = self._type_
        if letter in _TEXT:
            kind = _TEXT[letter][0]
            if not isinstance(value, kind) or len(value) != 1:
                raise TypeError(f"one character of {kind.__name__} expected instead of {value!r}")
        elif letter == "?":
            value = bool(value)
        elif letter in "fdg":
            code = "f" if letter == "f" else "d"
            value = struct.unpack(code, struct.pack(code, value))[0]
        elif letter not in _POINTERS:
            if not isinstance(value, int):
                raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
            bits = 8 * struct.calcsize(letter)
            value &= (1 << bits) - 1
            if letter.islower() and value >> (bits - 1):
                value -= 1 << bits
        self._value = value

    def __bool__(self):
        return bool(self._value) and self._value != "\0" and self._value != b"\0"

    def __repr__(self):
        return f"{type(self).__name__}({self._value!r})"


class _Composite(_Type):
    def __init__(cls, name, bases, space, **options):
        if "_fields_" in space or "_length_" in space:
            raise _absent(f"the C type {name}")
        super().__init__(name, bases, space)


class Structure(_Data, metaclass=_Composite):
    __slots__ = ()


class Union(_Data, metaclass=_Composite):
    __slots__ = ()


class Array(_Data, metaclass=_Composite):
    pass


class _Pointer(_Data):
    pass


class CFuncPtr(_Data):
    def __init__(self, *arguments):
        pass

    def __call__(self, *arguments):
        raise _absent("a C function")


def sizeof(kind):
    kind = kind if isinstance(kind, type) else type(kind)
    if issubclass(kind, (_Pointer, CFuncPtr)):
        return struct.calcsize("P")
    letter = getattr(kind, "_type_", None)
    if not issubclass(kind, _SimpleCData) or not isinstance(letter, str):
        raise TypeError("this type has no size")
    return 16 if letter == "g" else struct.calcsize(_format(letter))


def alignment(kind):
    return sizeof(kind)


def POINTER(kind):
    if kind not in _pointer_type_cache:
        name = "c_void_p" if kind is None else f"LP_{getattr(kind, '__name__', kind)}"
        _pointer_type_cache[kind] = type(name, (_Pointer,), {"_type_": kind})
    return _pointer_type_cache[kind]


def pointer(value):
    raise _absent("a pointer")


def byref(value, offset=0):
    raise _absent("a pointer")


def addressof(value):
    raise _absent("an address")


def resize(value, size):
    raise _absent("memory of a C type")


def dlopen(name, mode=RTLD_LOCAL):
    if name is None:
        return 0
    raise _absent(f"the library {name}")


def dlsym(handle, name):
    raise _absent(f"the function {name}")


def dlclose(handle):
    pass


def get_errno():
    return 0


def set_errno(value):
    return 0


def buffer_info(kind):
    raise _absent("memory of a C type")
