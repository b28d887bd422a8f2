# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the engine tests share. Every test has its own project name, repository
# and label, and removes what carries that label, also when it failed.

bats_require_minimum_version 1.5.0
# shellcheck source=tests/engine/trees.bash
. "$BATS_TEST_DIRNAME/trees.bash"

dk() { "$DOCKER" "$@"; }

# -- around each test ---------------------------------------------------------

setup() {
	[ -x "$SNAPCTL" ] || fail "$SNAPCTL is not built"
	[ -x "$TREESUM" ] || fail "$TREESUM is not built"
	PROJECT=t$(od -An -N5 -tx1 /dev/urandom | tr -d ' \n')
	export PROJECT
	export SNAPCTL_REPO=$BATS_TEST_TMPDIR/repo
	export LC_ALL=C.UTF-8
	LABEL=io.snapctl.test=$TEST_RUN
	# Docker's own count, to see afterwards that nothing was left.
	HELPERS_BEFORE=$(dk ps -aq -f label=io.snapctl.helper)
	if [ "$(type -t set_up)" = function ]; then
		set_up
	fi
}

teardown() {
	local rc=0 left
	if [ "$(type -t tear_down)" = function ]; then
		tear_down
	fi
	stop_events
	left=$(dk ps -aq -f label=io.snapctl.helper)
	if [ -n "$left" ] && [ "$left" != "$HELPERS_BEFORE" ]; then
		echo "# a helper container was left: $left" >&3
		# shellcheck disable=SC2086 # a list
		dk rm -f $left >/dev/null 2>&1
		rc=1
	fi
	remove_objects
	return $rc
}

remove_objects() {
	local ids
	ids=$(dk ps -aq -f "label=$LABEL"
		dk ps -aq -f "label=com.docker.compose.project=$PROJECT")
	# shellcheck disable=SC2086 # lists
	[ -z "$ids" ] || dk rm -f -v $ids >/dev/null 2>&1
	ids=$(dk volume ls -q -f "label=$LABEL"
		dk volume ls -q -f "label=com.docker.compose.project=$PROJECT"
		dk volume ls -q | grep "^$PROJECT")
	# shellcheck disable=SC2086
	[ -z "$ids" ] || dk volume rm -f $ids >/dev/null 2>&1
	ids=$(dk network ls -q -f "label=$LABEL"
		dk network ls -q -f "label=com.docker.compose.project=$PROJECT")
	# shellcheck disable=SC2086
	[ -z "$ids" ] || dk network rm $ids >/dev/null 2>&1
	return 0
}

fail() {
	printf '%s\n' "$@" >&2
	return 1
}

# -- running snapctl ----------------------------------------------------------

# snap ARGS...: runs it within bounds; sets status, output and stderr.
snap() {
	run --separate-stderr timeout -k 5 "${SNAP_TIMEOUT:-120}" \
		"$SNAPCTL" "$@"
	# shown by bats only when the test fails
	# shellcheck disable=SC2154 # set by run
	printf '$ snapctl %s\n[exit %s]\n%s\n%s\n' "$*" "$status" "$output" \
		"$stderr"
}

# snap_ok / snap_rc N: and the exit code must be this.
snap_ok() { snap_rc 0 "$@"; }
snap_rc() {
	local want=$1
	shift
	snap "$@"
	[ "$status" -eq "$want" ] || fail "exit $status, not $want: snapctl $*"
}

# Everything it said, both streams.
said() { printf '%s\n%s\n' "$output" "$stderr"; }
says() {
	said | grep -qiE -- "$1" || fail "not said: $1"
}

# none COMMAND...: it must not succeed (a bare "!" does not fail a test).
none() {
	if "$@"; then
		fail "unexpected: $*"
	fi
}

same() { # WHAT WANT GOT
	[ "$2" = "$3" ] || fail "$1: want" "$2" "got" "$3"
}

# -- volumes ------------------------------------------------------------------

# make_volume NAME [OPTION...]: also prints its full name.
make_volume() {
	local name=${PROJECT}_$1
	shift
	dk volume create --label "$LABEL" \
		--label "com.docker.compose.project=$PROJECT" \
		--label "com.docker.compose.volume=${name#*_}" "$@" "$name"
}

# in_volume NAME COMMAND...: in a container with the volume at /v.
in_volume() {
	local name=$1
	shift
	dk run --rm --network none --label "$LABEL" -v "$name:/v" -w /v \
		snapctl-test/base "$@"
}

# Where the volume lies on this host; a place where nothing can be made if
# there is none.
volume_path() {
	dk volume inspect -f "{{.Mountpoint}}" "$1" 2>/dev/null ||
		echo "/dev/null/no-volume-$1"
}

# Everything in a directory, never what an empty name would mean.
wipe() { find "${1:?}" -mindepth 1 -delete; }

tree_of() { "$TREESUM" -s "$@"; }

# tree_equal WANT_FILE DIR [OPTION]: the tree is the one printed before.
tree_equal() {
	local want=$1 dir=$2
	shift 2
	tree_of "$@" "$dir" >"$BATS_TEST_TMPDIR/tree.now"
	diff "$want" "$BATS_TEST_TMPDIR/tree.now" >&2 || fail "$dir differs"
}

objects() {
	dk volume ls -q | sort
	dk ps -aq --no-trunc | sort
	dk network ls -q --no-trunc | sort
}

# -- stacks -------------------------------------------------------------------

# compose ARGS...: on the file in the test's own directory.
compose() {
	(cd "$BATS_TEST_TMPDIR" &&
		docker-compose --ansi never -p "$PROJECT" "$@" 3>&-)
}

# A service that writes its start into its volume and then waits.
# `stack <<END` writes the compose file and starts it; TEST_LABELS in it
# becomes the label of the run.
stack() {
	sed "s|TEST_LABEL|$LABEL|" >"$BATS_TEST_TMPDIR/docker-compose.yml"
	compose up -d >&2
}

container_of() { # SERVICE
	dk ps -aq --no-trunc -f "label=com.docker.compose.project=$PROJECT" \
		-f "label=com.docker.compose.service=$1"
}
state_of() { # SERVICE [FORMAT]
	dk inspect -f "${2:-{{.State.Status\}\}}" "$(container_of "$1")"
}

# -- the engine's events ------------------------------------------------------

# record_events: from now until stop_events into the file that events reads.
# The engine is asked by its own clock, so nothing is missed at the start.
record_events() {
	EVENTS=$BATS_TEST_TMPDIR/events
	EVENTS_SINCE=$(date +%s.%N)
}
stop_events() { :; }

# events [FILTER...]: lines "ACTION SERVICE-OR-NAME" in order.
events() {
	dk events --since "$EVENTS_SINCE" --until "$(date +%s.%N)" \
		-f type=container "$@" --format '{{json .}}' >"$EVENTS"
	jq -r '"\(.Action) \(.Actor.Attributes["com.docker.compose.service"]
		// .Actor.Attributes.name)"' "$EVENTS"
}

# -- the repository -----------------------------------------------------------

snapshot_ids() {
	jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"]' \
		"$SNAPCTL_REPO/index.json"
}
newest() { snapshot_ids | tail -n 1; }

blob() { echo "$SNAPCTL_REPO/blobs/sha256/${1#sha256:}"; }

manifest_of() { # SNAPSHOT
	local digest
	digest=$(jq -r --arg id "$1" '.manifests[] | select(.annotations
		["org.opencontainers.image.ref.name"] == $id) | .digest' \
		"$SNAPCTL_REPO/index.json")
	blob "$digest"
}

# The files of a volume's packs, in order.
packs_of() { # SNAPSHOT VOLUME
	local d
	jq -r --arg v "$2" '.layers[] | select(.mediaType ==
		"application/vnd.snapctl.pack.v1.tar+zstd") |
		select(.annotations["org.opencontainers.image.title"] |
		startswith($v + ".")) | .digest' "$(manifest_of "$1")" |
	while read -r d; do blob "$d"; done
}

# The archive of a volume, as anybody without snapctl would read it.
untar() { # SNAPSHOT VOLUME DIR
	local packs
	mapfile -t packs < <(packs_of "$1" "$2")
	[ ${#packs[@]} -gt 0 ] || fail "no packs of $2"
	mkdir -p "$3"
	cat "${packs[@]}" | zstd -dcq |
		tar -C "$3" --xattrs --xattrs-include='*' --acls \
		--numeric-owner -xpf -
}

repo_files() { # everything that can be seen of the repository
	(cd "$SNAPCTL_REPO" && find . -type f ! -path './locks/*' \
		! -path './state/*' -exec sha256sum {} + | sort -k 2)
}
