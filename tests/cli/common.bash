# SPDX-License-Identifier: MIT
# For every test of the command line: the program, and a home of its own.
snapctl_setup()
{
	SNAPCTL=${SNAPCTL:-$BATS_TEST_DIRNAME/../../build/snapctl}
	[ -x "$SNAPCTL" ] || {
		echo "not built: $SNAPCTL" >&2
		return 1
	}
	export HOME=$BATS_TEST_TMPDIR
	# No engine answers here, no repository is there.
	export SNAPCTL_REPO=$BATS_TEST_TMPDIR/repo
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	unset COMPOSE_PROJECT_NAME XDG_STATE_HOME
}

# Runs snapctl; $status, and what it wrote in $out and $err.
# shellcheck disable=SC2034 # the tests read them
snapctl()
{
	status=0
	"$SNAPCTL" "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" ||
		status=$?
	out=$(cat "$BATS_TEST_TMPDIR/out")
	err=$(cat "$BATS_TEST_TMPDIR/err")
}

# equal WANT GOT
equal()
{
	[ "$1" = "$2" ] || {
		printf 'wanted: %s\ngot:    %s\n' "$1" "$2" >&2
		return 1
	}
}

# The commands that snapctl --help lists.
commands()
{
	"$SNAPCTL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}
