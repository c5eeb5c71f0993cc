# Every target sets up what it needs: Python 3.11 or newer, make and gcc are enough.
PYTHON ?= python3
VENV   ?= .venv
ORACLE ?= 1
RUN    := $(VENV)/bin/python
export PYTHONPATH := $(CURDIR)
STAMPS := $(VENV)/.stamps
TEST_SETUP := $(STAMPS)/test

.PHONY: demo test sweep build lint docs bench fuzz mutants sanitize wild suites suites-quick clean

demo: build $(STAMPS)/demo          ## train LeNet on MNIST, draw its curves
	$(RUN) -m rushlight.runtime.cpu.warm
	$(RUN) examples/mnist.py

test: build $(TEST_SETUP)           ## all the tests
	PYTHON=$(RUN) tools/test $(TESTS)

build: $(STAMPS)/build              ## generated tables and compiled modules, in place
	$(RUN) -m opgen
	PYTHON=$(RUN) tools/build

lint: build $(TEST_SETUP)           ## format, lint and types
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

docs: build $(STAMPS)/docs          ## the documents as a site, in build/site
	$(RUN) -m opgen --docs
	$(RUN) -m mkdocs build --strict
	@echo "open build/site/index.html"

# TARGET=v3 holds both libraries to AVX2, TARGET=v2 to SSE 4.2: columns of their own.
bench: build $(TEST_SETUP)          ## the speed table, beside PyTorch
	$(RUN) -m benchmarks $(if $(TARGET),--target $(TARGET))

# Needs gcc's libasan and libubsan, some 2 GB of disk and an hour of two cores. The
# checked build lies in build/sanitize, beside the fast one. TESTS chooses a part.
sanitize: build $(TEST_SETUP)       ## the tests on a core with every check compiled in
	PYTHON=$(abspath $(RUN)) tools/sanitize $(TESTS)

sweep: build $(TEST_SETUP)          ## the tests with all cases of those that have many
	SWEEP=1 PYTHON=$(RUN) tools/test $(TESTS)

fuzz: build $(TEST_SETUP)            ## random calls of operators, beside PyTorch
	$(RUN) -m tests.fuzz

# Half an hour of two cores to measure which tests reach which line, then some 5 s a mutant.
mutants: build $(TEST_SETUP) $(STAMPS)/mutants   ## faults put in: which does no test see?
	$(RUN) -m tools.mutants $(MUTANTS)

wild: build $(STAMPS)/wild           ## models of well-known packages, installed apart
	WILD_PYTHON=$(abspath $(VENV)-wild/bin/python) $(RUN) -m pytest -q tests/wild

suites: build                      ## other people's tests of packages over PyTorch
	$(RUN) -m tools.suites

suites-quick: build                ## those that take a few minutes
	$(RUN) -m tools.suites --quick

clean:                              ## everything that a build made
	rm -rf build dist *.egg-info rushlight/_generated
	find rushlight -name '*.so' -delete -o -name '*.c' -delete
	rm -rf $(STAMPS)

$(STAMPS)/build: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Rushlight needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m tools.requirements build | $(RUN) -m pip install -q -r /dev/stdin
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/%: pyproject.toml
	$(RUN) -m tools.requirements $* | $(RUN) -m pip install -q -r /dev/stdin
	mkdir -p $(STAMPS) && touch $@

# Packages over PyTorch, without PyTorch: in an environment of their own.
$(STAMPS)/wild: tests/wild/requirements.txt $(TEST_SETUP)
	test -x $(VENV)-wild/bin/python || $(PYTHON) -m venv $(VENV)-wild
	$(VENV)-wild/bin/python -m pip install -q -r tests/wild/support.txt
	$(VENV)-wild/bin/python -m pip install -q --no-deps -r tests/wild/requirements.txt
	touch $@

# The tests that compare with PyTorch skip where it is not installed.
$(STAMPS)/test: pyproject.toml
	$(RUN) -m tools.requirements test | $(RUN) -m pip install -q -r /dev/stdin
	if [ "$(ORACLE)" = 1 ]; then \
		$(RUN) -m tools.requirements oracle | $(RUN) -m pip install -q -r /dev/stdin \
		|| echo "PyTorch cannot be installed here: the comparisons will be skipped"; fi
	mkdir -p $(STAMPS) && touch $@
