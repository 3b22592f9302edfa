# The short way to everything; `make` alone lists it. The work itself is done by
# tools/ and the presets of CMakePresets.json.
SHELL := /bin/bash
JOBS ?= 2
# CI turns warnings in our code into errors; both presets build in build/.
PRESET ?= $(if $(CI),ci,release)
BINARY := build/ringmax

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-slow format lint check bench bench-masks \
        oracles bench-torch asan tsan install clean

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | \
	  sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup:  ## install missing Debian packages, fetch the pinned wheels
	@tools/setup.sh build test

build:  ## build build/ringmax
	@tools/setup.sh build test
	@tools/build.sh $(PRESET) ringmax

demo: build  ## train a small Llama with ring attention on 8 CPU devices
	@scripts/demo.sh

test: setup  ## build everything and run the tests (labels unit, cpu, tpu)
	@tools/build.sh $(PRESET) all
	ctest --preset $(PRESET) -j $(JOBS) -LE slow

test-slow: setup  ## run the slow tests as well
	@tools/build.sh $(PRESET) all
	ctest --preset $(PRESET) -j $(JOBS)

format:  ## format our sources in place
	@tools/setup.sh lint
	@tools/format.sh -i

check:  ## the quick checks: format, direction of includes, names in docs
	@tools/setup.sh lint
	@tools/format.sh --dry-run --Werror
	@tools/check_includes.py
	@tools/check_docs.py

lint: check  ## check, and clang-tidy over every source
	@tools/setup.sh build test tidy
	@tools/configure.sh $(PRESET)
	@tools/tidy.sh

bench: build  ## time from the command to the first training step
	@bench/first_step.sh

bench-masks: setup  ## time mask metadata and ring schedules of a million tokens
	@tools/setup.sh bench
	@tools/configure.sh $(PRESET) && cmake build >/dev/null  # finds a new package
	@tools/build.sh $(PRESET) ringmax_mask_bench
	@build/ringmax_mask_bench

oracles:  ## install torch and transformers for bench-torch (gigabytes)
	@tools/oracles.sh

bench-torch: build oracles  ## tokens/s beside torch + transformers, in turn
	@bench/against_torch.py

asan: setup  ## unit and cpu tests under AddressSanitizer and UBSan
	@tools/build.sh asan all
	ctest --preset asan -j $(JOBS)

tsan: setup  ## unit and cpu tests under ThreadSanitizer
	@tools/build.sh tsan all
	ctest --preset tsan -j $(JOBS)

install: build  ## install under PREFIX (default /usr/local)
	cmake --install build --prefix $(or $(PREFIX),/usr/local)

clean:  ## remove what was built; the third-party files stay
	rm -rf build build-*
