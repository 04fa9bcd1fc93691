# Daily commands: `just --list`. Each is one line that can also be pasted. CONTRIBUTING.md explains them.

# Arguments reach the commands as they were quoted.
set positional-arguments

# Show the recipes
default:
    @just --list

# Type-check everything, tests included
check:
    cargo check --locked --workspace --all-targets

# Everything that must hold, as in CI; or only some parts: just test fmt clippy
test *parts:
    ./test "$@"

# Rust tests by name: just unit breaker
unit filter:
    cargo nextest run --locked --workspace -E 'test({{filter}})'

# Format and lint
lint:
    cargo fmt --all
    cargo clippy --locked --workspace --all-targets -- -D warnings

# The simulation: just sim, just sim --seed 206, just sim --broken-variants
sim *options:
    ./everypage dev sim "$@"

# A sample report is read while models fail
demo:
    ./everypage demo

# API, console and workers on http://127.0.0.1:8080
serve *options:
    ./everypage serve "$@"

# A provider on this machine that fails on command: just provider --script 'openai:*=503'
provider *options:
    ./everypage dev provider "$@"

# Rustdoc of all crates, and the links of all Markdown files
docs:
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps
    scripts/check-links
