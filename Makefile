# Two commands are all a new user needs: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
OUT ?= out/demo

.PHONY: demo test test-all check format lock clean

demo: .venv/ready
	$(BIN)/phasetheory phases linear -L 64 -V 16 --out $(OUT)/linear
	$(BIN)/phasetheory phases softmax -L 64 -V 16 --out $(OUT)/softmax
	@echo "figures: $(OUT)/linear/phases.png and $(OUT)/softmax/phases.png"

# Style, types and the quick tests; `make test-all` adds the slow ones.
test: check
	$(BIN)/python -m pytest

test-all: check
	$(BIN)/python -m pytest -m ""

check: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright

format: .venv/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: .venv/ready
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --python-version 3.11 --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --output-file requirements.lock

clean:
	rm -rf .venv out build dist *.egg-info

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@
