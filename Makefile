# The two commands of the README are `make run` and `make test`; both set up what they need.
BOARD ?= xavier
MODEL ?= acas_coc
PYTHON ?= python3
# Extras of pyproject.toml that `make run` gets: compilers of shipped boards and of cuda, Pillow, Dask, LiteRT, IREE,
# tract.
EXTRAS ?= cross cuda images cluster litert iree tract
REQUIREMENTS = requirements/harness.txt requirements/build.txt $(EXTRAS:%=requirements/%.txt)

.PHONY: run check quick test suite campaigns docs man test-gpu test-models lint setup setup-dev models peers labgrid other-runtime requirements clean
.DELETE_ON_ERROR:

run: setup
	.venv/bin/harness run --board $(BOARD) --model $(MODEL)

# One thread for each process of the tests; Python keeps its bytecode, also where the environment forbids it.
quick suite campaigns: export OPENBLAS_NUM_THREADS = 1
quick suite campaigns: export PYTHONDONTWRITEBYTECODE =

# Lint, types, import contract, and the quick tests that need no compiler, subprocess or board: about two minutes.
check: setup-dev
	$(MAKE) --jobs=2 lint quick

quick:
	.venv/bin/pytest -q -n 2 --dist loadfile -m 'not slow and not campaign' tests/unit

test: setup-dev labgrid other-runtime
	tools/system-packages --tests
	$(MAKE) --jobs=2 lint suite

suite:
	.venv/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder

# What takes hours: the tests that `make test` leaves out, all examples of every property, and every wrong program,
# forgery, fault and foreign file.
campaigns: setup-dev labgrid other-runtime
	tools/system-packages --tests
	HARNESS_EXAMPLES=all .venv/bin/pytest -n 2 --dist loadfile -m 'campaign or hypothesis'
	.venv/bin/python -m tests.campaigns.security
	.venv/bin/python -m tests.campaigns.forgeries
	.venv/bin/python -m tests.campaigns.faults
	.venv/bin/python -m tests.campaigns.misra
	.venv/bin/python -m tests.campaigns.mutation --hidden
	.venv/bin/python -m tests.campaigns.mutation

# On a machine with an NVIDIA GPU: what only that can show, kept under docs/evidence.
test-gpu: setup-dev
	.venv/bin/python -m tests.campaigns.gpu

lint: setup-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

# The pages as a site with a search, which needs no server and no network: build/site/index.html.
docs: setup-dev man
	.venv/bin/mkdocs build --strict --quiet

man: setup-dev
	.venv/bin/python tools/documentation.py build/man

setup: .venv/complete

.venv/complete: $(REQUIREMENTS) pyproject.toml tools/system-packages
	tools/system-packages
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=")'
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes $(REQUIREMENTS:%=--requirement %)
	.venv/bin/pip uninstall --quiet --disable-pip-version-check --yes harness # the former name of this package
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# What the tests and the linters need on top.
setup-dev: .venv/complete-dev

.venv/complete-dev: .venv/complete requirements/dev.txt
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	touch $@

# Makes the five ACAS networks anew, in about 80 minutes of two cores; see models/acas/README.md.
models: build/recipe-venv/complete
	build/recipe-venv/bin/python -m models.acas

# What checks the recipe and its networks against whole tables, for which `make test` has no time.
test-models: setup-dev
	HARNESS_RECIPE=1 .venv/bin/pytest tests/integration/models

build/recipe-venv/complete: models/acas/requirements.txt
	test -x build/recipe-venv/bin/python || $(PYTHON) -m venv build/recipe-venv
	build/recipe-venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	touch $@

# What benchmarks/run_peers.py compares with, as far as it installs together; ACETONE needs an environment of its own.
peers: setup-dev build/peers/complete
	.venv/bin/python benchmarks/run_peers.py

build/peers/complete: requirements/peers.txt
	test -x build/peers/bin/python || $(PYTHON) -m venv build/peers
	build/peers/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	touch $@

# labgrid's client, for boards that are places of a coordinator, in an environment of its own.
labgrid: build/labgrid/complete

build/labgrid/complete: requirements/labgrid.txt
	test -x build/labgrid/bin/python || $(PYTHON) -m venv build/labgrid
	build/labgrid/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	touch $@

# An ONNX Runtime that is wrong on processors with AMX, for the tests of the host check.
other-runtime: build/other-runtime/complete

build/other-runtime/complete: requirements/other_runtime.txt
	test -x build/other-runtime/bin/python || $(PYTHON) -m venv build/other-runtime
	build/other-runtime/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	touch $@

# Pins every package with its hashes; needs pip-tools on the PATH.
requirements:
	cd requirements && for name in harness cuda cross images cluster litert iree tract dev build peers labgrid \
	    other_runtime; do \
	    pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	        --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o $$name.txt $$name.in; done

clean:
	rm -rf .venv build
