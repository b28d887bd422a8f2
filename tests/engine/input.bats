#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Wrong names, no engine, no permission (CASES F10 and "bad input").

load lib

@test "F10 a mistyped stack: near names, nothing created" {
	local before
	make_volume data
	before=$(objects)
	snap_rc 1 create "${PROJECT}x"
	says "$PROJECT([^x]|$)"
	same objects "$before" "$(objects)"
	[ ! -e "$SNAPCTL_REPO/index.json" ] || same listed "" "$(snapshot_ids)"
}

@test "F10 a mistyped volume: near names, nothing created" {
	local before v
	v=$(make_volume database)
	before=$(objects)
	snap_rc 1 create --volume "${v%e}"
	says "$v"
	same objects "$before" "$(objects)"
	snap_rc 1 create "$PROJECT" --volume "${v%e}"
	says "$v"
	same objects "$before" "$(objects)"
}

@test "restore of what does not exist: near names, nothing created" {
	local before
	make_volume data
	snap_ok create "$PROJECT"
	before=$(objects)
	snap_rc 1 restore "${PROJECT}x"
	says "$PROJECT"
	snap_rc 1 restore "$PROJECT" "$(newest)9"
	says "$(newest)"
	snap_rc 1 restore "$PROJECT" --volume "${PROJECT}_dat"
	says "${PROJECT}_data"
	same objects "$before" "$(objects)"
}

@test "no engine: what was tried and how to go on" {
	DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock snap_rc 1 create "$PROJECT"
	says "$BATS_TEST_TMPDIR/none.sock"
	says 'running|DOCKER_HOST|--host'
}

@test "a socket nobody listens on" {
	perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
		chdir shift or die; bind($s, sockaddr_un("dead.sock")) or die' \
		"$BATS_TEST_TMPDIR"
	DOCKER_HOST=unix://$BATS_TEST_TMPDIR/dead.sock snap_rc 1 create "$PROJECT"
	says 'dead\.sock'
}

@test "permission denied on the socket is said" {
	local open
	open=$(mktemp -d /tmp/snapctl-test.XXXXXX)
	chmod 755 "$open"
	cp "$SNAPCTL" "$open/snapctl"
	run timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups \
		env HOME=/nonexistent XDG_STATE_HOME=/nonexistent \
		"$open/snapctl" create "$PROJECT"
	rm -rf "$open"
	echo "$output"
	same exit 1 "$status"
	grep -qi 'permission denied' <<<"$output"
	grep -qi 'group\|root\|sudo' <<<"$output"
}

@test "unknown options and stray arguments: exit 2, before the engine is asked" {
	local c
	export DOCKER_HOST=unix:///nonexistent.sock
	for c in create restore list show verify version; do
		snap_rc 2 $c --no-such-option
		says 'no-such-option'
		same stdout "" "$output"
	done
	snap_rc 2 version stray
	snap_rc 2 list one two
	snap_rc 2 create one two
	snap_rc 2 restore one two three
	snap_rc 2 show
	snap_rc 2 no-such-command
	says 'no-such-command'
	snap_rc 2
}

@test "a repository that is none" {
	mkdir "$SNAPCTL_REPO"
	echo mine >"$SNAPCTL_REPO/file"
	make_volume data
	snap_rc 1 create "$PROJECT"
	says 'repository'
	same files file "$(ls -A "$SNAPCTL_REPO")"
	snap_rc 1 list
	SNAPCTL_REPO=$BATS_TEST_TMPDIR/absent snap_rc 1 restore "$PROJECT"
	[ ! -e "$BATS_TEST_TMPDIR/absent" ]
}

@test "list, show and verify print JSON" {
	local v
	v=$(make_volume data)
	tree_plain "$(volume_path "$v")"
	snap_ok create "$PROJECT" -m "a note" --json
	same created "$(newest)" "$(jq -r .id <<<"$output")"
	snap_ok list --json
	jq -e --arg id "$(newest)" '.snapshots | length == 1 and .[0].id == $id' \
		<<<"$output"
	snap_ok show latest --json
	jq -e --arg v "$v" '.note == "a note" and .clean == true and
		.volumes[0].name == $v and .volumes[0].kind == "full"' <<<"$output"
	snap_ok verify --json
	jq -e . <<<"$output"
	snap_ok version --json
	jq -e '.version | length > 0' <<<"$output"
	snap_ok restore "$PROJECT" --json
	jq -e . <<<"$output"
}

@test "a snapshot's id: stack, time, and a number on a clash" {
	make_volume data
	for _ in 1 2 3; do
		snap_ok create "$PROJECT"
	done
	same "three ids" 3 "$(snapshot_ids | sort -u |
		grep -c -E "^$PROJECT-20[0-9]{6}T[0-9]{6}Z(-[0-9]+)?$")"
	snap_ok show "$(newest)"
	says "$(newest)"
}

@test "a .snapctl-stage of the user's own: refused, not left out in silence" {
	local vol
	make_volume data >/dev/null
	vol=$(volume_path "${PROJECT}_data")
	echo one >"$vol/f"
	snap_ok create "$PROJECT"
	mkdir "$vol/.snapctl-stage"
	echo mine >"$vol/.snapctl-stage/x"
	echo two >"$vol/f"
	for command in create restore; do
		snap_rc 1 "$command" "$PROJECT"
		says "snapctl-stage that is not snapctl's"
	done
	same kept mine "$(cat "$vol/.snapctl-stage/x")"
	same file two "$(cat "$vol/f")"
	same snapshots 1 "$(snapshot_ids | wc -l)"
}
