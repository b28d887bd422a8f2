#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the tests of the program: its command line, and what it does on a real
# engine, one private one for all of them.
#
#   tests/run-engine.sh [FILE.bats...]
#
# SNAPCTL_TEST_HOST  use this engine (unix://…) instead of a private one
# FILTER             only tests whose name matches this regular expression
# SNAPCTL            the program, default build/snapctl
# CI=true            a test that was skipped counts as failed
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=docker/engine.sh
. "$root/docker/engine.sh"
export ROOT=$root
export SNAPCTL=${SNAPCTL:-$root/build/snapctl}
export TREESUM=${TREESUM:-$root/build/tests/tools/treesum}
export DOCKER=/usr/bin/docker
[ -x $DOCKER ] || DOCKER=docker
export TEST_RUN=run-$$-$RANDOM

# Whatever the tests made and did not remove, by label.
sweep() {
	local kind ids
	for kind in container volume network; do
		ids=$(list_objects "$kind" 2>/dev/null)
		[ -n "$ids" ] || continue
		# shellcheck disable=SC2086 # a list
		case $kind in
		container)	$DOCKER rm -f -v $ids ;;
		*)		$DOCKER "$kind" rm $ids ;;
		esac >/dev/null
	done
}
list_objects() {
	local label=label=io.snapctl.test=$TEST_RUN
	case $1 in
	container)	$DOCKER ps -aq -f "$label" ;;
	*)		$DOCKER "$1" ls -q -f "$label" ;;
	esac
}
finish() {
	trap - EXIT
	if [ -n "${DOCKER_HOST-}" ]; then
		sweep
	fi
	engine_stop
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ -n "${SNAPCTL_TEST_HOST-}" ]; then
	export DOCKER_HOST=$SNAPCTL_TEST_HOST
	unset DOCKER_CONTEXT
else
	engine_start || exit 1
fi
echo "engine: $($DOCKER version -f '{{.Server.Version}}, API {{.Server.APIVersion}}') at $DOCKER_HOST"
"$root/docker/image.sh" base || exit 1

[ $# -gt 0 ] || set -- "$root"/tests/{cli,engine}/*.bats
results=$(mktemp "${TMPDIR:-/tmp}/snapctl-bats.XXXXXX")
bats --tap --timing ${FILTER:+--filter "$FILTER"} "$@" | tee "$results"
rc=${PIPESTATUS[0]}
skipped=$(grep -c '^ok .*# skip' "$results")
passed=$(($(grep -c '^ok ' "$results") - skipped))
failed=$(grep -c '^not ok ' "$results")
planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$results" | head -n 1)
rm -f "$results"
# A test that never reported is a failure too.
missing=$((${planned:-0} - passed - failed - skipped))
[ $missing -le 0 ] || failed=$((failed + missing))
if [ "${CI-}" = true ]; then
	failed=$((failed + skipped))
elif [ "$skipped" -gt 0 ]; then
	echo "engine: $skipped skipped"
fi
[ "$rc" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "engine: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
