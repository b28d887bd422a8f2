#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs cmocka programs, as many at once as there are cores; prints what failed
# whole and one closing line.
#
#   tests/run-unit.sh PROGRAM...
#
# CI=true            a test that was skipped counts as failed
set -u
out=$(mktemp -d "${TMPDIR:-/tmp}/snapctl-unit.XXXXXX")
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Lines of the log that match, or for failures cmocka's own count of them.
lines() { grep -c "$1" "$log"; }
failures() {
	sed -n 's/^\[  FAILED  \] \([0-9]*\) test(s), listed below:$/\1/p' "$log" |
		awk '{ n += $1 } END { print n + 0 }'
}

run() { # NUMBER PROGRAM
	local rc=0
	CMOCKA_MESSAGE_OUTPUT=STDOUT "$2" >"$out/$1" 2>&1 || rc=$?
	echo $rc >"$out/$1.rc"
}
running=0 cores=$(nproc)
for i in $(seq $#); do
	if [ $running -ge "$cores" ]; then
		wait -n
		running=$((running - 1))
	fi
	run "$i" "${!i}" &
	running=$((running + 1))
done
wait

passed=0 failed=0 skipped=0
for i in $(seq $#); do
	bin=${!i} log=$out/$i rc=$(cat "$out/$i.rc")
	ok=$(lines '^\[       OK \]')
	passed=$((passed + ok))
	skipped=$((skipped + $(lines '^\[  SKIPPED \] [^ ]*$')))
	if [ "$rc" -ne 0 ] || [ "$ok" -eq 0 ]; then
		cat "$log"
		echo "FAILED: $bin (exit $rc)"
		bad=$(failures)
		failed=$((failed + (bad > 0 ? bad : 1)))
	else
		echo "ok $bin ($ok)"
	fi
done
if [ "${CI-}" = true ]; then
	failed=$((failed + skipped))
fi
[ "$skipped" -eq 0 ] || echo "unit: $skipped skipped"
echo "unit: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
