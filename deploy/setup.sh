#!/usr/bin/env bash
# Installs what building and running tandem needs on Debian 12. Does nothing when all of it is there.
#   deploy/setup.sh           compilers and libraries
#   deploy/setup.sh --tests   also the checkers, and a Python environment in .venv with tests/requirements.txt
set -euo pipefail

fail() {
  echo "setup: $1" >&2
  exit "${2:-1}"
}

usage() { sed -n '2,4s/^# \?//p' "${BASH_SOURCE[0]}"; }

with_tests=0
for argument in "$@"; do
  case "$argument" in
    --tests) with_tests=1 ;;
    -h | --help) usage; exit 0 ;;
    *) fail "unknown option '$argument'; see --help" 2 ;;
  esac
done

packages=(
  # Compiler and build.
  g++ cmake ninja-build ccache pkg-config ca-certificates
  # RPC: gRPC and what its CMake package asks for, the protocol compiler and its plugin.
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libssl-dev libc-ares-dev libre2-dev zlib1g-dev
  # Metrics and what their CMake package asks for.
  prometheus-cpp-dev libcurl4-openssl-dev
  # SIMD, hashes, zip archives, JSON, the command line.
  libhwy-dev libxxhash-dev libminizip-dev nlohmann-json3-dev libcli11-dev
  # Unit tests are part of the default build.
  libgtest-dev libgmock-dev
  # deploy/demo.sh prints its tables with it.
  python3
)
test_packages=(
  # Format, thread-safety pass, fuzzers under sanitizers, sizes of files and functions, fast links.
  clang-14 clang-format libclang-rt-14-dev universal-ctags lld mold
  git python3-venv procps
)
if ((with_tests)); then packages+=("${test_packages[@]}"); fi

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  fail "needs Debian 12 or a system with its packages (no apt-get found)"

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done

if ((${#missing[@]})); then
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "run as root or install sudo; missing: ${missing[*]}"
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  # A fresh machine may still hold the package lock for its own updates.
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update || fail "apt-get update failed; check the network and /etc/apt/sources.list"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get could not install: ${missing[*]}"
fi

if ((with_tests)); then
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  venv=$root/.venv
  requirements=$root/tests/requirements.txt
  if ! cmp -s "$requirements" "$venv/requirements.installed"; then
    echo "setup: Python packages into .venv"
    /usr/bin/python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" ||
      fail "pip could not install $requirements"
    cp "$requirements" "$venv/requirements.installed"
  fi
fi
echo "setup: ready"
