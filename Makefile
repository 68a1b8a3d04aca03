# What a newcomer needs: `make demo` shows it, `make test` proves it. The rest is cargo.

PEERS = kafka rabbitmq activemq nats null bare

.PHONY: build build-bench check test test-all bench demo clean

build:
	cargo build --release --locked --package logway

# The broker, and the program that measures it, which finds it beside itself
build-bench: build
	cargo build --release --locked --package logway-bench

# What Rust alone tells: format, lints, structure, unit, property and simulator tests
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked

# The suites of tests/suites.toml; one of them: tests/run.py NAME
test:
	python3 tests/run.py

# The heavy ones among them as well
test-all:
	python3 tests/run.py --all

# Everything that docs/BENCHMARKS.md describes, in runs of seconds, beside all peers, which are fetched
bench: build-bench
	tests/harness/need peers >/dev/null
	target/release/logway-bench all --quick $(PEERS:%=--against %) --output $(or $(OUTPUT),target/bench)

# FILE=/path/to/a/text/file streams that one
demo: build
	FILE='$(FILE)' scripts/demo.sh

clean:
	cargo clean
	rm -rf tests/.work
