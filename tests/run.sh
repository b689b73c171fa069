#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test, cheapest first. Debian 12; no GPU needed.
#
#   tests/run.sh            everything
#   tests/run.sh quick      lints, Release build and unit tests only
#
# Build trees: build/ (Release), build-archs/ (kernels for other GPUs), build-asan/ (ASan and UBSan: everything), build-tsan/
# (TSan: what uses threads, without gRPC).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=${1:-all}
jobs=$(nproc)
# 1,000 concurrent streams need more descriptors than the usual soft limit.
ulimit -n "$(ulimit -Hn)" || true

step() { printf '\n=== %s (%ds)\n' "$*" "$SECONDS"; }

configure() { # folder, cmake options
  local folder=$1
  shift
  local launcher
  launcher=$(command -v ccache || true)
  CMAKE_CXX_COMPILER_LAUNCHER=$launcher CMAKE_CUDA_COMPILER_LAUNCHER=$launcher cmake -S . -B "$folder" -G Ninja "$@" | grep -E 'tandem:|error|Error' || true
  test -f "$folder/build.ninja"
}

step "install"
bash deploy/setup.sh --tests

step "lint"
git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 --dry-run -Werror
python3 tests/lint/check.py

step "build (Release)"
configure build -DCMAKE_BUILD_TYPE=Release
ninja -C build -j "$jobs"

step "machine code of the CUDA kernels"
python3 tests/lint/check_cubin.py build

if grep -q 'CMAKE_CUDA_COMPILER:' build/CMakeCache.txt; then
  step "machine code of the largest kernels for other GPUs"
  # Spilling a little is allowed there: nothing is tuned for them.
  configure build-archs -DCMAKE_BUILD_TYPE=Release -DTANDEM_TESTS=OFF '-DTANDEM_CUDA_ARCHITECTURES=80;89;100a;120'
  for op in linear/linear linear/sparse shift time_mix_core/time_mix_core; do
    echo "kernels/CMakeFiles/tandem_kernels.dir/${op}_cuda.cu.o"
  done | xargs ninja -C build-archs -j "$jobs"
  python3 tests/lint/check_cubin.py build-archs 64
fi

step "thread-safety annotations"
bash tests/lint/thread_safety.sh build

step "unit tests (Release)"
ctest --test-dir build --output-on-failure -j "$jobs"
[ "$mode" = quick ] && exit 0

step "integration tests: the real processes"
.venv/bin/python -m pytest tests/integration -q --build-dir build

step "build (ASan, UBSan)"
configure build-asan -DTANDEM_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=None
ninja -C build-asan -j "$jobs"
step "unit tests (ASan, UBSan)"
ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  ctest --test-dir build-asan --output-on-failure -j "$jobs"
step "integration tests (ASan, UBSan): API, faults, sessions, load"
.venv/bin/python -m pytest tests/integration -q --build-dir build-asan -m sanitize

step "build (TSan)"
configure build-tsan -DTANDEM_SANITIZE=thread -DCMAKE_BUILD_TYPE=None
ninja -C build-tsan -j "$jobs" tsan_tests
step "engine, stream, channel, hand-off and thread pool (TSan), three times"
TSAN_OPTIONS=halt_on_error=1 ctest --test-dir build-tsan --output-on-failure --repeat until-fail:3 -L tsan

step "all passed"
