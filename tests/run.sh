#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test, cheapest first. Debian 12; no GPU needed.
#
#   tests/run.sh            everything
#   tests/run.sh quick      lints, Release build and unit tests only
#
# Build trees: build/ (Release), build-asan/ (ASan and UBSan).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=${1:-all}
jobs=$(nproc)
# 1,000 concurrent streams need more descriptors than the usual soft limit.
ulimit -n "$(ulimit -Hn)" || true

# What runs under the sanitizers.
sanitized='^(base|ipc|metrics|model_fuzz|mtp_file|rpc|stream_core|tokenizer|kernels_accept|kernels_attend|kernels_channel|kernels_draft|kernels_residual|kernels_time|model_golden|model_invariance|model_state|model_verify|drafter_kinds|drafter_mtp)[a-z_]*_test$'
sanitized_targets() { ctest --test-dir build-asan -N -R "$sanitized" | sed -n 's/.*Test *#[0-9]*: //p'; }

step() { printf '\n=== %s (%ds)\n' "$*" "$SECONDS"; }

configure() { # folder, cmake options
  local folder=$1
  shift
  CMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache || true) cmake -S . -B "$folder" -G Ninja "$@" | grep -E 'tandem:|error|Error' || true
  test -f "$folder/build.ninja"
}

step "install"
bash deploy/setup.sh --tests

step "lint"
git ls-files '*.h' '*.cc' | xargs clang-format-14 --dry-run -Werror
python3 tests/lint/check.py

step "build (Release)"
configure build -DCMAKE_BUILD_TYPE=Release
ninja -C build -j "$jobs"

step "thread-safety annotations"
bash tests/lint/thread_safety.sh build

step "unit tests (Release)"
ctest --test-dir build --output-on-failure -j "$jobs"
[ "$mode" = quick ] && exit 0

step "integration tests: the real processes"
.venv/bin/python -m pytest tests/integration -q --build-dir build

step "build (ASan, UBSan)"
configure build-asan -DTANDEM_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=None
ninja -C build-asan -j "$jobs" $(sanitized_targets)
step "unit tests (ASan, UBSan): readers, kernels, model, drafter, ipc, tokenizer, rpc"
ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir build-asan --output-on-failure -j "$jobs" -R "$sanitized"

step "all passed"
