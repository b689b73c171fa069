#!/usr/bin/env bash
# From a bare Debian 12 machine to text: installs what is missing, builds, starts router, verifier and
# drafter with the demo model, generates from one prompt of each of eight tasks with accepted drafts
# marked, prints what was accepted, and ends everything. Needs no terminal.
#   deploy/demo.sh [BUILD_FOLDER]      default: build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build}
tokens=96

step() { printf '\n== %s\n' "$*"; }

work=$(mktemp -d)
group=
finish() {
  local code=$?
  trap - EXIT INT TERM
  if [[ -n $group ]] && kill -TERM "$group" 2>/dev/null; then wait "$group" || true; fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step "installing what is missing"
bash deploy/setup.sh

step "building (the first time takes some minutes)"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${launcher[@]}" >"$work/cmake.log" 2>&1 || {
  cat "$work/cmake.log" >&2
  exit 1
}
ninja -C "$build" tandem tandem-router tandem-verifier tandem-drafter
tandem=$build/bin/tandem

step "starting the group"
"$tandem" inspect deploy/demo-model
"$tandem" up --model deploy/demo-model --address 127.0.0.1:0 --ready-file "$work/ready.json" \
  >"$work/up.log" 2>&1 </dev/null &
group=$!
until [[ -s $work/ready.json ]]; do
  kill -0 "$group" 2>/dev/null || {
    cat "$work/up.log" >&2
    echo "demo: the group did not start; its log is above" >&2
    exit 1
  }
  sleep 0.1
done
sed -n '/^tandem is ready/,$p' "$work/up.log"

# One file per prompt: the text itself, so that nothing has to survive quoting.
python3 - deploy/demo-prompts.jsonl "$work" >"$work/tasks" <<'PYTHON'
import json
import sys

for line in open(sys.argv[1], encoding="utf-8"):
    case = json.loads(line)
    with open(f"{sys.argv[2]}/{case['name']}.txt", "w", encoding="utf-8") as file:
        file.write(case["prompt"])
    print(case["name"])
PYTHON
address=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$work/ready.json")

ask() { # task, more options
  local task=$1
  shift
  "$tandem" generate - --address "$address" --temperature 0 --max-tokens "$tokens" "$@" <"$work/$task.txt"
}

while read -r task; do
  step "$task: text of accepted drafts is marked"
  printf '%s\n---\n' "$(tail -n 2 "$work/$task.txt")"
  ask "$task" --show-drafts
  ask "$task" --json >"$work/$task.json"
done <"$work/tasks"

step "acceptance by task (greedy, up to $tokens tokens)"
mapfile -t replies < <(sed "s|.*|$work/&.json|" "$work/tasks")
python3 deploy/acceptance_table.py "${replies[@]}"

step "ending"
kill -TERM "$group"
code=0
wait "$group" || code=$?
group=
if ((code != 0)); then
  tail -n 20 "$work/up.log" >&2
  echo "demo: the group ended with code $code" >&2
  exit 1
fi
echo "router, verifier and drafter have ended"
