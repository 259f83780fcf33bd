# Everything a contributor types. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help demo studio test thorough quick oldest newest flower wheel browser postgres check format docs reference pictures bench bench-certify bench-finetune bench-training bench-accuracy bench-tabular bench-convex bench-pate \
	bench-synthetic bench-federated bench-strangers bench-noise bench-sampling bench-scale clean

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/demo ## The whole story in a minute: train twice, attack, audit, report
	@rm -rf .venv/runs
	$(BIN)/reticent demo -o .venv/runs/demo

studio: .venv/dev ## The studio in a browser, over the folder of the demo's runs
	@mkdir -p .venv/runs
	$(BIN)/reticent studio .venv/runs

test: .venv/dev browser postgres ## The tests that every change must pass, on every core
	$(BIN)/python -m pytest --numprocesses logical --dist worksteal -m 'not thorough'

thorough: .venv/dev browser postgres ## The rest: every page of the docs, every estimator, several processes, longer audits
	$(BIN)/python -m pytest --numprocesses logical --dist worksteal -m thorough

# What finds most per second: the rules of the code, the public page, the core, the laws of accounting,
# clipping, one training run and one command. The sampler of whole normals compiles for long: `make test` has it.
QUICK := tests/test_architecture.py tests/test_public_api.py tests/core tests/laws/test_accountants.py \
	--ignore=tests/core/test_whole_normals.py \
	tests/laws/test_exact_gaussians.py tests/laws/test_one_process.py tests/mechanisms/test_events.py \
	tests/ledger/test_chain.py tests/training/test_clipping.py \
	tests/training/test_train.py::test_neighbours_differ_by_at_most_the_clipping_norm_before_noise \
	tests/training/test_train.py::test_the_divisor_is_the_expected_batch_never_the_drawn_one \
	tests/cli/test_account_command.py::test_account_json_has_the_promised_shape

quick: .venv/dev ## The tests that find most in a minute, for every save
	$(BIN)/python -m pytest --quiet --numprocesses logical --dist worksteal $(QUICK)

# Environments of their own, in .venv: the oldest versions that pyproject.toml allows, and the newest there are.
WITHOUT_CONSTRAINTS := -m pip install --quiet --disable-pip-version-check
TOOLS := pytest pytest-xdist hypothesis beartype mpmath dp-accounting cryptography pandas

oldest: ## The quick tests with the oldest versions of everything (constraints-oldest.txt)
	$(PYTHON) -m venv .venv/oldest
	.venv/oldest/bin/python $(WITHOUT_CONSTRAINTS) --constraint constraints-oldest.txt --editable . $(TOOLS)
	.venv/oldest/bin/python -m pytest --quiet --numprocesses logical --dist worksteal $(QUICK)

newest: ## The quick tests with the newest versions of everything, as `pip install` finds them
	$(PYTHON) -m venv .venv/newest
	.venv/newest/bin/python $(WITHOUT_CONSTRAINTS) --upgrade --editable . $(TOOLS)
	.venv/newest/bin/python -m pytest --quiet --numprocesses logical --dist worksteal $(QUICK)

flower: ## The tests of federated learning over Flower, in an environment of its own (constraints-flower.txt)
	$(PYTHON) -m venv .venv/flower
	.venv/flower/bin/python $(WITHOUT_CONSTRAINTS) --constraint constraints-flower.txt \
		--editable '.[flower,federated]' pytest hypothesis beartype
	.venv/flower/bin/python -m pytest --quiet tests/federated/test_flower.py tests/federated/test_flower_loopback.py

wheel: .venv/dev ## What is published: dist/
	$(BIN)/python -m build

# The report is looked at in a real browser. Without one, those tests are skipped and say so.
browser:
	@command -v chromium chromium-browser >/dev/null \
		|| { (apt-get update && apt-get install --yes --no-install-recommends chromium) >/dev/null 2>&1; } \
		|| echo 'No chromium, and apt-get cannot install it: the tests in tests/report/test_page.py are skipped.'

# Ledgers are tried in a real server too, which the tests start. Without one, those tests are skipped and say so.
postgres:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null \
		|| { (apt-get update && apt-get install --yes --no-install-recommends postgresql) >/dev/null 2>&1; } \
		|| echo 'No postgresql, and apt-get cannot install it: the tests of ledgers in a database are skipped.'

check: .venv/dev ## Format, lint, types, import contracts and the site: what needs no run
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --site-dir .venv/site

format: .venv/dev ## Rewrites the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/dev ## The documentation as a site, to look at: .venv/site/index.html
	$(BIN)/mkdocs build --strict --site-dir .venv/site

reference: .venv/dev ## Writes docs/commands.md and docs/api/ anew, from the commands and the public names
	$(BIN)/python -m reticent.cli.reference docs/commands.md
	$(BIN)/python docs/_site/api_pages.py

pictures: .venv/dev browser ## Takes the pictures of README and the site from a demonstration
	$(BIN)/python docs/_site/pictures.py

bench: .venv/dev ## The short benchmarks: peers beside ours, in one run
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.startup --waiting
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.accounting

bench-certify: .venv/dev ## Proves the bounds of 500 random settings and of every benchmark (hours)
	$(BIN)/python -m benchmarks.certify --count 500

bench-finetune: .venv/dev ## Private heads on public features of CIFAR-10 and SST-2 (fetches two packages, an hour)
	$(BIN)/python -m benchmarks.finetuning

bench-training: .venv/dev ## Private training beside its peers, each in an environment of its own (half an hour)
	$(BIN)/python -m benchmarks.training --write docs/benchmarks/training.md

bench-accuracy: .venv/dev ## Accuracy at a given epsilon on MNIST and Fashion-MNIST, five seeds (half an hour)
	$(BIN)/python -m benchmarks.accuracy --figure docs/figures/training_mnist.svg

bench-tabular: .venv/dev ## Tables from a raw file to a model: accuracy, a peer, growth (half an hour)
	$(BIN)/python -m benchmarks.tabular --write docs/benchmarks/tabular.md

bench-convex: .venv/dev ## Private linear models on a9a and covtype beside a peer, and the theorems' rates (half an hour)
	$(BIN)/python -m benchmarks.convex_rates --figure docs/figures/convex_rates.svg
	$(BIN)/python -m benchmarks.nonconvex_rates --figure docs/figures/nonconvex_rates.svg
	$(BIN)/python -m benchmarks.convex --write docs/benchmarks/convex.md

bench-pate: .venv/dev ## PATE on MNIST and Adult beside other private methods (half an hour)
	$(BIN)/python -m benchmarks.pate --seeds 3 --figure docs/figures/pate.svg

bench-synthetic: .venv/dev ## Synthetic tables beside a peer, and synthetic images (an hour)
	$(BIN)/python -m benchmarks.synthetic --peer
	$(BIN)/python -m benchmarks.synthetic_images --figure docs/figures/synthetic_mnist.png

bench-federated: .venv/dev ## Federated learning: privacy, robust rules and a backdoor on images (hours)
	$(BIN)/python -m benchmarks.federated

bench-strangers: .venv/dev ## Tables as strangers bring them, beside a private peer and models without privacy (an hour)
	$(BIN)/python -m benchmarks.strangers --write docs/benchmarks/strangers.md

bench-noise: .venv/dev ## Correlated noise: error beside a peer's, accuracy beside independent noise (hours)
	$(BIN)/python -m benchmarks.correlated_noise

bench-sampling: .venv/dev ## Ways to draw batches at the same noise: epsilon, accuracy, speed, rows read (three minutes)
	$(BIN)/python -m benchmarks.sampling

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
