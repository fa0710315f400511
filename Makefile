# The front of the build: `make` lists what there is. The guest is built by guest/build (Python, its results
# kept in a user's cache), the host by Meson; build/ holds the results of both.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
B := build
BUILD_PY := $(PYTHON) guest/build/build.py
MESON_OPTIONS ?=

# What `make asan` and `make fuzz` compile the host with.
ASAN := -Db_sanitize=address,undefined -Db_lundef=false -Dbuildtype=debugoptimized
FUZZ_SECONDS ?= 60

.PHONY: help setup demo test test-guest test-install test-python test-sleep test-packages guest image host python wheel install \
	bench bench-quick bench-peers test-cpython test-asan test-python-asan \
	test-tsan fuzz pgo format clean clean-cache FORCE

help:  ## list the targets
	@echo "make TARGET, where TARGET is:"
	@sed -nE 's/^([a-z-]+):[^#]*## *(.*)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

setup:  ## install what the machine lacks (needs root and apt; says what is missing otherwise)
	@command -v $(PYTHON) > /dev/null || { apt-get update -qq && apt-get install -y -qq python3; }
	@$(BUILD_PY) setup

demo: $(B)/core.bru python  ## run every example in the sandbox
	@for e in examples/*.py; do [ -e "$$e" ] || continue; \
	    echo "--- $$e"; $(B)/brumate "$$e" || exit 1; done
	@if [ -x $(B)/host/examples/embed ]; then echo "--- examples/embed.c"; \
	    BRUMATE_IMAGE=$(B)/core.bru $(B)/host/examples/embed; fi
	@for e in examples/python/*.py; do [ -e "$$e" ] || continue; \
	    echo "--- $$e"; PYTHONPATH=$(B)/python $(PYTHON) -B "$$e" || exit 1; done

test: $(B)/core.bru test-guest  ## run the tests
	@BRUMATE_IMAGE=$(abspath $(B)/core.bru) BRUMATE_GUEST=$(abspath $(B)/core.so) \
	    meson test -C $(B)/host --no-rebuild --print-errorlogs
	@$(MAKE) --no-print-directory test-install test-python
	@echo "of all programs of the host's tests:"
	@awk '/^[0-9]+ passed, [0-9]+ failed$$/ { p += $$1; f += $$3 } END { printf "%d passed, %d failed\n", p, f }' \
	    $(B)/host/meson-logs/testlog.txt

test-guest: $(B)/.guest  ## test the guest's build (wasm reader, shim, cache) and, natively, its agent
	@$(PYTHON) -B -m unittest discover -q -s guest/build/tests
	@native=$$($(BUILD_PY) path python-native) && $$native/bin/python -B -m unittest discover -q -s tests/guest

test-install: $(B)/core.bru  ## install into build/installed and use it as an embedder would
	@rm -rf $(B)/installed
	@$(MAKE) --no-print-directory install PREFIX=$(abspath $(B)/installed) DESTDIR= > /dev/null
	@sh tests/api/install.sh $(abspath $(B)/installed) examples

test-python: python $(B)/venv/.made  ## test the Python package
	@PYTHONPATH=$(abspath $(B)/python) $(B)/venv/bin/python -B -m pytest -q -p no:cacheprovider tests/python $(PYTEST_ARGS)

test-sleep: python $(B)/venv/.made  ## put sessions to sleep in every state, a thousand times, and kill who does it (minutes)
	@PYTHONPATH=$(abspath $(B)/python) $(B)/venv/bin/python -B -m pytest -q -p no:cacheprovider -c tests/python/pytest.ini \
	    --rootdir tests/sleep tests/sleep $(PYTEST_ARGS)

test-packages: python $(B)/venv/.made  ## use packages from PyPI in sandboxes (fetched once, into build/wheels)
	@PYTHONPATH=$(abspath $(B)/python) $(B)/venv/bin/python -B -m pytest -q -p no:cacheprovider tests/packages $(PYTEST_ARGS)

# The tools of the tests, by name, for the interpreter that the extension is built for.
$(B)/venv/.made: tests/python/requirements.txt | setup
	@rm -rf $(B)/venv && $(PYTHON) -m venv $(B)/venv
	@$(B)/venv/bin/python -m pip install -q --disable-pip-version-check -r $< > $(B)/venv.log 2>&1 || { tail -20 $(B)/venv.log; exit 1; }
	@touch $@

guest: $(B)/.guest  ## build the guest: build/core.so, build/core.wasm, build/root

host: $(B)/brumate  ## build the host: library, command, tests

image: $(B)/core.bru  ## boot the guest once and freeze it: build/core.bru

# The recipes decide by content; the stamp is touched only when a result is another one.
$(B)/.guest: FORCE | setup
	@$(BUILD_PY) guest

$(B)/host/build.ninja: | setup
	@meson setup $(B)/host --prefix=$(PREFIX) --libdir=lib $(MESON_OPTIONS) > $(B)/meson.log || { tail -20 $(B)/meson.log; exit 1; }

$(B)/brumate: $(B)/host/build.ninja FORCE
	@ninja -C $(B)/host --quiet
	@cmp -s $(B)/host/cli/brumate $@ || ln -f $(B)/host/cli/brumate $@

$(B)/core.bru: $(B)/.guest $(B)/brumate
	@$(B)/brumate image build --guest $(B)/core.so --root $(B)/root -o $@

python: $(B)/core.bru  ## lay the Python package out in build/python, to be used by PYTHONPATH
	@rm -rf $(B)/python && mkdir -p $(B)/python/brumate
	@ln -s $(abspath python/brumate)/* $(abspath $(B)/core.so) $(abspath $(B)/core.bru) $(B)/python/brumate
	@ln $(B)/host/python/_native*.so $(B)/python/brumate

wheel: setup  ## build a wheel of the Python package into build/wheel, for the python3 that is found first
	@$(PYTHON) -m pip wheel -q --no-deps -w $(B)/wheel .

install: $(B)/core.bru  ## install below PREFIX (default /usr/local; DESTDIR is honoured)
	@meson setup --reconfigure $(B)/host -Dprefix=$(PREFIX) -Dlibdir=lib > $(B)/meson.log || { tail -20 $(B)/meson.log; exit 1; }
	@ninja -C $(B)/host --quiet
	@meson install -C $(B)/host --no-rebuild --quiet $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	install -Dm755 $(B)/core.so $(DESTDIR)$(PREFIX)/lib/brumate/core.so
	install -Dm644 $(B)/core.bru $(DESTDIR)$(PREFIX)/lib/brumate/core.bru
	install -d $(DESTDIR)$(PREFIX)/share/doc/brumate
	install -m644 LICENSE NOTICE $(DESTDIR)$(PREFIX)/share/doc/brumate
	cp -r $(B)/root/licenses $(DESTDIR)$(PREFIX)/share/doc/brumate

bench: $(B)/core.bru  ## measure against native CPython of the same source
	@native=$$($(BUILD_PY) path python-native) && $(PYTHON) bench/run.py --native $$native/bin/python $(BENCH_ARGS)

bench-quick:  ## the same, a quick look
	@$(MAKE) --no-print-directory bench BENCH_ARGS=--quick

bench-peers: python  ## measure beside other Python sandboxes, which are installed into build/peers
	@$(PYTHON) bench/peers/run.py $(BENCH_ARGS)

test-cpython: $(B)/core.bru  ## run CPython's own tests in the sandbox
	@source=$$($(BUILD_PY) path python-source) && $(PYTHON) tests/cpython/run.py --source $$source/tree $(CPYTHON_ARGS)

test-asan: $(B)/core.bru  ## run the host's tests under AddressSanitizer and UBSan
	@[ -f $(B)/asan/build.ninja ] || meson setup $(B)/asan $(ASAN) > $(B)/asan.log || { tail -20 $(B)/asan.log; exit 1; }
	@ninja -C $(B)/asan --quiet
	@BRUMATE_IMAGE=$(abspath $(B)/core.bru) BRUMATE_GUEST=$(abspath $(B)/core.so) \
	    meson test -C $(B)/asan --no-rebuild --print-errorlogs
	@$(MAKE) --no-print-directory test-python-asan

# Without the tests that count memory or start interpreters of their own by the dozen.
test-python-asan: $(B)/venv/.made
	@rm -rf $(B)/asan/package && mkdir -p $(B)/asan/package/brumate
	@ln -s $(abspath python/brumate)/* $(abspath $(B)/core.so) $(abspath $(B)/core.bru) $(B)/asan/package/brumate
	@ln $(B)/asan/python/_native*.so $(B)/asan/package/brumate
	@LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
	    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONPATH=$(abspath $(B)/asan/package) \
	    $(B)/venv/bin/python -B -m pytest -q -p no:cacheprovider tests/python \
	    --ignore tests/python/test_types.py --ignore tests/python/test_refs.py $(PYTEST_ARGS)

test-tsan: $(B)/core.bru  ## run the rooms' tests, and instances on two threads, under ThreadSanitizer
	@[ -f $(B)/tsan/build.ninja ] || meson setup $(B)/tsan -Db_sanitize=thread -Db_lundef=false > $(B)/tsan.log || { tail -20 $(B)/tsan.log; exit 1; }
	@ninja -C $(B)/tsan --quiet
	@meson test -C $(B)/tsan --no-rebuild --print-errorlogs --suite unit --no-suite cli
	@BRUMATE_IMAGE=$(abspath $(B)/core.bru) BRUMATE_GUEST=$(abspath $(B)/core.so) \
	    $(B)/tsan/tests/session/test-isolation - threads

fuzz: setup  ## run each fuzzer for FUZZ_SECONDS (default 60); what it keeps goes to build/corpus
	@[ -f $(B)/fuzz/build.ninja ] || CC=$${CLANG:-clang-22} meson setup $(B)/fuzz > $(B)/fuzz.log || { tail -20 $(B)/fuzz.log; exit 1; }
	@ninja -C $(B)/fuzz --quiet fuzzers
	@for n in wasi files archive tree image doors value snapshot; do \
	    [ -x $(B)/fuzz/tests/*/fuzz-$$n ] || { echo "--- $$n: left out, no Python to embed"; continue; }; \
	    mkdir -p $(B)/corpus/$$n; echo "--- $$n"; \
	    $$(ls $(B)/fuzz/tests/*/fuzz-$$n) -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=$(B)/corpus/ \
	        $(B)/corpus/$$n tests/fuzz/corpus/$$n > $(B)/corpus/$$n.log 2>&1 || { tail -40 $(B)/corpus/$$n.log; exit 1; }; \
	    grep stat::number_of_executed_units $(B)/corpus/$$n.log; done

pgo: $(B)/brumate  ## measure what the guest runs and store the profile (guest/build/profile)
	@$(BUILD_PY) pgo

format:  ## lay out the host's C as .clang-format says
	@$${CLANG_FORMAT:-clang-format-22} -i $$(git ls-files 'include/*.h' 'src/*.[ch]' 'cli/*.[ch]' 'tests/*.[ch]' 'bench/*.c' 'examples/*.c')

clean:  ## remove build/ (the cache stays)
	rm -rf $(B)

clean-cache:  ## list the cache; remove what was not used for 14 days (ALL=1: everything)
	@$(BUILD_PY) clean-cache $(if $(ALL),--all)
