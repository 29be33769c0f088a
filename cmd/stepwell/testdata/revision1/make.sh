#!/usr/bin/env bash
# Makes fixture.tar.gz with the program of commit 959b842: ./make.sh PROGRAM. Needs python3 and curl.
#
# A server runs six pipelines and is killed (SIGKILL): one execution has ended, one has failed, one waits, one has
# attempts in flight, one stream has finished and one is between two checkpoints. The fixture is the folder as it is
# then: database, write-ahead log, blobs, streams, files. TestRevision1 (revision1_test.go) uses it.
set -euo pipefail
program=$(realpath "$1")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
cd "$work"
mkdir fixture && cd fixture
cp "$here"/*.yaml .
mkdir card && echo one >card/one.jpg && echo two >card/two.jpg
python3 - <<'PY'
import json
with open("small.ndjson", "w") as f:
    for i in range(9):
        f.write(json.dumps({"id": f"s{i}"} if i == 4 else {"id": f"s{i}", "n": i}) + "\n")
    f.write("{broken\n")
with open("many.ndjson", "w") as f:
    for i in range(1200):
        f.write('{"id":"m%d","n":%d}\n' % (i, i))
PY
touch -d 2026-11-01T00:00:00Z *.ndjson card/*
touch hold fault
"$program" serve --listen 127.0.0.1:0 >serve.out 2>serve.err &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do url=$(grep -ohs 'http://127.0.0.1:[0-9]*' serve.out serve.err | head -1 || true); [ -n "$url" ] && break; sleep 0.1; done
ask() { curl -sS "$url/api/v1/$1" -H 'Content-Type: application/json' "${@:2}"; }
begin() { # begin NAME: starts the pipeline and prints the execution's id
	ask execute -d "{\"workflow_id\": \"$1\"}" | python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["execution_id"])'
}
for f in *.yaml; do "$program" pipelines create "$f" --server "$url" >/dev/null; done
declare -A id
for name in ended failed streamed waiting flight; do id[$name]=$(begin "$name"); done
for _ in $(seq 100); do
	ended=0
	for name in ended failed streamed; do ask "executions/${id[$name]}" | grep -qE '"status": ?"(completed|completed_with_failures|failed)"' && ended=$((ended + 1)); done
	[ $ended = 3 ] && break
	sleep 0.1
done
sleep 1.5
id[streaming]=$(begin streaming)
sleep 2
kill -9 $server
wait $server 2>/dev/null || true
for name in "${!id[@]}"; do echo "$name ${id[$name]}"; done | sort >ids
rm -f serve.out serve.err
cd ..
tar --sort=name --owner=0 --group=0 --numeric-owner -czf "$here/fixture.tar.gz" -C fixture .
rm -rf "$work"
