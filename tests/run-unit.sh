#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs each cmocka program; prints what failed whole and one closing line.
set -u
passed=0 failed=0
for bin in "$@"; do
	out=$(CMOCKA_MESSAGE_OUTPUT=STDOUT "$bin" 2>&1) && rc=0 || rc=$?
	ok=$(printf '%s\n' "$out" | grep -c '^\[       OK \]')
	passed=$((passed + ok))
	if [ "$rc" -ne 0 ] || [ "$ok" -eq 0 ]; then
		printf '%s\n' "$out"
		echo "FAILED: $bin (exit $rc)"
		bad=$(printf '%s\n' "$out" | sed -n \
			's/^\[  FAILED  \] \([0-9]*\) test(s), listed below:$/\1/p' |
			awk '{ n += $1 } END { print n + 0 }')
		failed=$((failed + (bad > 0 ? bad : 1)))
	else
		echo "ok $bin ($ok)"
	fi
done
echo "unit: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
