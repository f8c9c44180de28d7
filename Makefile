# One word per job. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo release test test-matrix lint bench bench-compare drivers fuzz-smoke docs clean

CARGO ?= cargo
PORT ?= 6432

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what Debian has to give (quick when done before)
	@scripts/setup.sh

demo: setup ## a private primary and two replicas behind pgsluice on port $(PORT); Ctrl-C removes everything
	$(CARGO) build
	target/debug/pgsluice demo --port $(PORT) $(ARGS)

release: ## the executable to ship, target/ship/pgsluice: optimized by counts of a minute under load
	@scripts/release.sh

test: setup ## unit tests, and the black-box tests against real servers
	$(CARGO) test --lib --bins --tests --examples

test-matrix: setup ## the black-box tests on PostgreSQL 14, 16, 17 and 18
	@scripts/setup.sh matrix
	scripts/matrix.sh $(ARGS)

lint: setup ## formatting, clippy, the floors, dependencies
	@scripts/lint.sh

bench: setup ## micro-benchmarks
	$(CARGO) bench --benches

bench-compare: ## whole-system comparison with peers
	@scripts/setup.sh compare
	benches/compare/run.py $(ARGS)

drivers: ## programs for many client drivers through pgsluice; ONLY="django pgx" for some
	@scripts/setup.sh drivers
	scripts/drivers.sh $(ARGS) $(ONLY)

fuzz-smoke: setup ## a short run of every fuzz target; ARGS=--long adds five minutes of random clients
	scripts/fuzz-smoke.sh $(ARGS)

docs: setup ## the library's documentation
	$(CARGO) doc --no-deps --lib

clean: ## remove what was built and cached
	$(CARGO) clean
	rm -rf .cache
