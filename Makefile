# Everything a contributor types. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help demo test check format docs reference bench bench-training bench-accuracy bench-tabular bench-convex bench-pate \
	bench-synthetic bench-scale clean

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/demo ## The whole story in a minute: train twice, attack, audit, report
	@rm -rf .venv/runs
	$(BIN)/reticent demo -o .venv/runs/demo

test: .venv/dev ## The whole test suite, on every core
	$(BIN)/python -m pytest --numprocesses logical --dist worksteal

check: .venv/dev ## Format, lint, types, import contracts, the site, and every snippet in the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --site-dir .venv/site
	$(BIN)/python -m pytest --quiet tests/docs

format: .venv/dev ## Rewrites the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/dev ## The documentation as a site, to look at: .venv/site/index.html
	$(BIN)/mkdocs build --strict --site-dir .venv/site

reference: .venv/dev ## Writes docs/commands.md anew, from the commands themselves
	$(BIN)/python -m reticent.cli.reference docs/commands.md

bench: .venv/dev ## The short benchmarks: peers beside ours, in one run
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.accounting

bench-training: .venv/dev ## Private training beside its peers, each in an environment of its own (half an hour)
	$(BIN)/python -m benchmarks.training --write docs/benchmarks/training.md

bench-accuracy: .venv/dev ## Accuracy at a given epsilon on MNIST and Fashion-MNIST, five seeds (half an hour)
	$(BIN)/python -m benchmarks.accuracy --figure docs/figures/training_mnist.svg

bench-tabular: .venv/dev ## Tables from a raw file to a model: accuracy, a peer, growth (half an hour)
	$(BIN)/python -m benchmarks.tabular --write docs/benchmarks/tabular.md

bench-convex: .venv/dev ## Private linear models on a9a and covtype beside a peer, and the theorems' rates (half an hour)
	$(BIN)/python -m benchmarks.convex_rates --figure docs/figures/convex_rates.svg
	$(BIN)/python -m benchmarks.convex --write docs/benchmarks/convex.md

bench-pate: .venv/dev ## PATE on MNIST and Adult beside other private methods (half an hour)
	$(BIN)/python -m benchmarks.pate --seeds 3 --figure docs/figures/pate.svg

bench-synthetic: .venv/dev ## Synthetic tables beside a peer, and synthetic images (an hour)
	$(BIN)/python -m benchmarks.synthetic --peer
	$(BIN)/python -m benchmarks.synthetic_images --figure docs/figures/synthetic_mnist.png

bench-scale: .venv/dev ## Two processes beside one, what they send, 10 GB on disk, a model of time (ten minutes)
	$(BIN)/python -m benchmarks.scale --write docs/scale.md

clean: ## Removes the environment and every cache
	rm -rf .venv build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# The environment is made once, and again whenever what it is made from changes.
.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "reticent needs Python 3.11 or newer; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/demo: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable .
	@touch $@

.venv/dev: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable '.[dev]'
	@touch $@ .venv/demo
