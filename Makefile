# The commands of the project; `make help` lists them.
.PHONY: help setup build demo test format lint clean
.DEFAULT_GOAL := help
PRESET ?= release

help:
	@echo "make demo    install what is missing, build, train a small model, report"
	@echo "make build   leaves the binary at build/ringmax"
	@echo "make test    build and run all tests"
	@echo "make format  clang-format our sources"
	@echo "make lint    include directions, formatting"

setup:
	@scripts/install_packages.sh
	@scripts/fetch_deps.sh

build: setup
	@[ -f build/build.ninja ] || cmake --preset $(PRESET) > /dev/null
	@cmake --build build

demo: build
	@scripts/demo.sh

test: build
	@ctest --test-dir build --output-on-failure -j2

format:
	@git ls-files 'src/*.h' 'src/*.cc' | xargs clang-format-16 -i

lint:
	@python3 tools/check_includes.py
	@git ls-files 'src/*.h' 'src/*.cc' | xargs clang-format-16 --dry-run --Werror

clean:
	rm -rf build
