#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# list, show, verify on a repository, and what other tools make of it.

# shellcheck disable=SC2154 # out, err, status: set by snapctl() in common
load common

setup()
{
	snapctl_setup
	maker=$BATS_TEST_DIRNAME/../../build/tests/unit/repo/test_manifest
	[ -x "$maker" ]
	blobs=$SNAPCTL_REPO/blobs/sha256
	id=$("$maker" --make "$SNAPCTL_REPO" web)
	equal web-20260921T141320Z "$id"
}

# damage FILE OFFSET: flips the lowest bit of one byte.
damage()
{
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	# shellcheck disable=SC2059 # an octal escape is the format
	printf "\\$(printf '%03o' $((byte ^ 1)))" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# json FILTER: what jq makes of the document, compact.
json()
{
	jq -cr "$1" <<<"$out"
}

pack()
{
	snapctl show --json "$id"
	json '.volumes[0].packs[1].digest[7:]'
}

manifest()
{
	out=$(cat "$SNAPCTL_REPO/index.json")
	json '.manifests[0].digest[7:]'
}

@test "no repository" {
	for command in list 'show x' verify; do
		# shellcheck disable=SC2086
		snapctl $command --repo "$BATS_TEST_TMPDIR/none"
		equal 1 "$status"
		equal '' "$out"
		[[ $err == 'error: no repository at '* ]]
	done
	[ ! -e "$BATS_TEST_TMPDIR/none" ]
}

@test "list: newest first, by stack, escaped" {
	"$maker" --make "$SNAPCTL_REPO" web
	"$maker" --make "$SNAPCTL_REPO" mail
	snapctl list --json
	equal 0 "$status"
	equal '["web-20260921T141320Z-2","web-20260921T141320Z","mail-20260921T141320Z"]' \
		"$(json '[.snapshots[].id]')"
	snapctl list mail
	equal 0 "$status"
	equal 2 "$(wc -l <<<"$out")"
	[[ $out == *mail-20260921T141320Z*'before\n2.0'* ]]
	snapctl list -p mail --json
	equal 1 "$(json '.snapshots | length')"
	equal ok "$(json '.snapshots[0].status')"
	equal '["data","logs"]' "$(json '.snapshots[0].volumes')"
	snapctl list wbe
	equal 1 "$status"
	equal 'error: no snapshot of stack wbe; near names: web' "$err"
}

@test "show: all of it, by prefix" {
	snapctl show web
	equal 0 "$status"
	[[ $out == *'Snapshot  web-20260921T141320Z'* ]]
	[[ $out == *'Note      before\n2.0'* ]]
	snapctl show --json latest
	equal 'web' "$(json '.stack')"
	equal 'full' "$(json '.volumes[1].kind')"
	equal '3' "$(json '.volumes[0].packs | length')"
	snapctl show web-20260921T141321Z
	equal 1 "$status"
	[[ $err == *'near names: web-20260921T141320Z' ]]
}

@test "verify: clean" {
	snapctl verify
	equal 0 "$status"
	[[ $out == '1 snapshot, 8 blobs, '*': no damage' ]]
	snapctl verify --deep --json "$id"
	equal 0 "$status"
	equal '[]' "$(json '.problems')"
}

@test "verify: a flipped byte in a pack, two snapshots" {
	"$maker" --make "$SNAPCTL_REPO" web
	hex=$(pack)
	damage "$blobs/$hex" 100
	snapctl verify --json
	equal 1 "$status"
	equal "sha256:$hex" "$(json '.problems[0].blob')"
	equal "[\"$id\",\"$id-2\"]" "$(json '.problems[0].snapshots | sort')"
	snapctl verify
	equal 1 "$status"
	[[ $out == "blob sha256:$hex is damaged"* ]]
}

@test "a damaged manifest is listed, shown as damaged" {
	hex=$(manifest)
	damage "$blobs/$hex" 100
	snapctl list --json
	equal 3 "$status"
	equal "$id damaged null" \
		"$(json '.snapshots[0] | "\(.id) \(.status) \(.volumes)"')"
	snapctl list web
	equal 3 "$status"
	[[ $out == *"$id"*damaged* ]]
	[[ $err == *"blob sha256:$hex is damaged"* ]]
	snapctl show "$id"
	equal 1 "$status"
	equal '' "$out"
	[[ $err == *"sha256:$hex"* ]]
	snapctl verify
	equal 1 "$status"
	[[ $out == *"sha256:$hex"*"[$id]"* ]]
}

@test "index.json cut: named, with a way out" {
	truncate -s -1 "$SNAPCTL_REPO/index.json"
	for command in list "show $id" "verify $id"; do
		# shellcheck disable=SC2086
		snapctl $command
		equal 1 "$status"
		[[ $err == *'index.json is damaged'*index.json.previous* ]]
	done
	snapctl verify
	equal 1 "$status"
	[[ $out == *'index.json is damaged'* ]]
}

@test "skopeo reads it and copies a snapshot byte for byte" {
	snapshot=oci:$SNAPCTL_REPO:$id
	copy=$BATS_TEST_TMPDIR/copy
	out=$(skopeo inspect --raw "$snapshot")
	equal application/vnd.snapctl.snapshot.v1 "$(json '.artifactType')"
	equal "$(manifest)" "$(skopeo inspect --raw "$snapshot" |
		sha256sum | cut -d ' ' -f 1)"
	skopeo copy -q "$snapshot" "oci:$copy:kept"
	diff -r "$SNAPCTL_REPO/blobs" "$copy/blobs"
	# which is a repository again
	snapctl verify --deep --repo "$copy"
	equal 0 "$status"
	snapctl list --json web --repo "$copy"
	equal kept "$(json '.snapshots[0].id')"
	"$maker" --make "$copy" web
	snapctl verify --repo "$copy"
	equal 0 "$status"
	[[ $out == '2 snapshots, '*': no damage' ]]
}
