# make book · lab · test · bench: each makes the environment first if it is missing or out of date.
# Needs Python 3.11 to 3.14, make and a package registry. Another Python: make book PYTHON=python3.12

PYTHON ?= python3
PY := .venv/bin/python
READY := .venv/.ready
EXTRAS := book,lab,test,dev,bench

# Modules, not the scripts in .venv/bin: those name the folder they were made in and break when it moves.
JUPYTER_BOOK := $(PY) -c 'from jupyter_book.cli.main import main; main()'

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: book lab test test-fast bench notebooks lint check-pins chapters clean help

book: $(READY)  ## Build the book and print the file to open
	rm -rf _build
	$(JUPYTER_BOOK) build -W -n --keep-going --quiet .
	@echo "Open $(CURDIR)/_build/html/index.html"

lab: $(READY)  ## Open JupyterLab on the chapters
	$(PY) -m nbformat.sign notebooks/*.ipynb
	$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/notebooks

lab test test-fast: export OMP_WAIT_POLICY := PASSIVE  # threads that spin while waiting starve the browser
lab test test-fast: export OPENBLAS_THREAD_TIMEOUT := 4  # NumPy's threads spin for 2^n cycles
test: lint  ## Lint, check types, run every test; those of the notebooks re-run every chapter
	$(PY) -m pytest

test-fast: $(READY)  ## Lint and run the tests that take under a minute together: no site, browser or chapter
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest -m "not slow and not browser"

bench: $(READY)  ## Run every benchmark
	@set -e; for script in benchmarks/[a-z]*.py; do echo "$$script"; $(PY) "$$script"; done

notebooks: $(READY)  ## Execute the chapters in place
	$(PY) tools/execute_notebooks.py

lint: $(READY)  ## Lint, check formatting and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-cache
	$(PY) tools/check_form.py
	$(PY) tools/chapters.py --check
	$(PY) tools/check_terms.py
	.venv/bin/oxlint --deny-warnings gptlib book
	.venv/bin/oxfmt --check gptlib/panels gptlib/page_gpt book/_ext

check-pins:  ## Resolve the pins for every promised Python; asks the package registry
	$(PYTHON) tools/check_pins.py

chapters: $(READY)  ## Write book/chapters.yml into _toc.yml, README.md and the welcome page
	$(PY) tools/chapters.py

clean:  ## Remove the built book and the caches; the environment stays
	rm -rf _build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile

# The stamp holds the folder it was made for: the editable install breaks when the folder moves.
ifneq "$(CURDIR)" "$(shell cat $(READY) 2>/dev/null)"
.PHONY: $(READY)
endif

# Written last, so an interrupted set-up is taken up again.
$(READY): constraints.txt pyproject.toml requirements-data.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
	  "gptlib needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing); try: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo \
	  "'$(PYTHON)' lacks the venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up .venv: about 0.4 GB to download (3 GB where torch comes with CUDA), 2 GB on disk"
	@rm -f $@
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install -q --no-warn-conflicts -c constraints.txt -e '.[$(EXTRAS)]'
	@$(PY) -m pip install -q --no-deps -r requirements-data.txt
	@pwd -P > $@
