#!/bin/sh
# An embedder's way: what `make install` put below $1 is found by pkg-config, builds the example,
# and runs from there with nothing in the environment.
set -eu
prefix=$1
examples=$2
unset BRUMATE_IMAGE BRUMATE_GUEST
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0
failed=0

check() { # name, expected, got
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $1: \"$3\", not \"$2\"" >&2
    fi
}

# shellcheck disable=SC2046 # flags are words
cc "$examples/embed.c" -o "$out/embed" $(pkg-config --cflags --libs brumate)
check "the embedding example, linked with the library" 42 "$("$out/embed" 'print(6 * 7)' | head -n 1)"
check "the command" 42 "$("$prefix/bin/brumate" -c 'print(6 * 7)')"
check "the manual" "$prefix/share/man/man1/brumate.1" "$(ls "$prefix"/share/man/man1/brumate.1*)"
check "the notices" "" "$(for f in LICENSE NOTICE licenses; do [ -e "$prefix/share/doc/brumate/$f" ] || echo "$f"; done)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
