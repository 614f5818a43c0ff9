# Every target makes the virtual environment it needs, from nothing but python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp

.PHONY: help setup demo test check proto proto-check lock drill cockroach-check bench fix clean
help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v=sys.version_info; sys.exit(f"isoline needs Python 3.11 or newer; {sys.executable} is {v[0]}.{v[1]}. Say which: make PYTHON=python3.12" if v < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

setup: $(STAMP) ## make .venv with every pinned package
demo: $(STAMP) ## three regions on this machine: append, fork, kill one, prove the prefix equal
	$(BIN)/isoline demo $(ARGS)
test: $(STAMP) ## the whole test suite
	$(BIN)/python -m pytest $(ARGS)
check: $(STAMP) proto-check ## format, lint, types, import contracts, proto rules, staleness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint proto
proto: $(STAMP) ## generate the code beside the .proto files
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=proto --pyi_out=proto --grpc_python_out=proto $(wildcard proto/isoline/v1/*.proto)
proto-check: $(STAMP) ## is the committed generated code what the .proto files give?
	@rm -rf build/proto && mkdir -p build/proto
	@$(BIN)/python -m grpc_tools.protoc -I proto --python_out=build/proto --pyi_out=build/proto --grpc_python_out=build/proto $(wildcard proto/isoline/v1/*.proto)
	@for f in $$(cd build/proto && find . -name '*_pb2*'); do cmp -s build/proto/$$f proto/$$f || { echo "stale: proto/$$f (run make proto)"; exit 1; }; done
drill: $(STAMP) ## lose a region of three on this machine, and prove what came of it
	$(BIN)/isoline drill $(or $(DRILL),region-loss) $(ARGS)
cockroach-check: $(STAMP) ## ask a real CockroachDB what only it can answer, then run the suite on it: make cockroach-check URL=...
	$(BIN)/python -m isoline_drill.cockroach_check '$(URL)' $(ARGS)
bench: $(STAMP) ## measure against the floors; writes benchmarks/results.json and benchmarks/README.md
	$(BIN)/python -m benchmarks $(ARGS)
fix: $(STAMP) ## format and repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
PINS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q
lock: ## resolve requirements.lock anew, and what the image takes of it
	$(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet uv
	{ echo "# Every package of a development setup, pinned with hashes. Written by 'make lock'; installed by 'make setup'."; \
	  build/lock/bin/uv pip compile pyproject.toml --extra drill --group dev $(PINS); } > build/requirements.lock
	mv build/requirements.lock requirements.lock
	{ echo "# What the image installs: isoline[server] alone, a part of requirements.lock. Written by 'make lock'."; \
	  build/lock/bin/uv pip compile pyproject.toml --extra server -c requirements.lock $(PINS); } > deploy/requirements-server.lock
	{ echo "# What builds the wheel in the image, a part of requirements.lock. Written by 'make lock'."; \
	  echo hatchling | build/lock/bin/uv pip compile - -c requirements.lock $(PINS); } > deploy/requirements-build.lock
clean: ## remove what the targets made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
