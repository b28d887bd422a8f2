#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What is in a volume comes back exactly (CASES F1 to F9).

load lib

# Snapshots the volume, wrecks it, restores it, compares.
round_trip() { # VOLUME
	local path want=$BATS_TEST_TMPDIR/tree.want
	path=$(volume_path "$1")
	tree_of "$path" >"$want"
	snap_ok create "$PROJECT"
	SNAPSHOT=$(newest)
	tree_equal "$want" "$path"
	chattr -R -i -a "$path" 2>/dev/null || true
	find "$path" -mindepth 1 -delete
	chown 12:34 "$path"
	chmod 1777 "$path"
	echo extra >"$path/extra"
	snap_ok restore "$PROJECT"
	tree_equal "$want" "$path"
}

@test "F1 the volume's root keeps owner and mode" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	tree_plain "$path"
	chown 999:999 "$path"
	chmod 0700 "$path"
	touch -d '2015-05-05 05:05:05.050505050' "$path"
	tree_of "$path" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"

	chown 0:0 "$path"
	chmod 0777 "$path"
	snap_ok restore "$PROJECT"
	same root "999:999 700" "$(stat -c '%u:%g %a' "$path")"
	tree_equal "$BATS_TEST_TMPDIR/want" "$path"
}

@test "F1 a removed volume comes back with its root, labels and options" {
	local v path before
	v=$(make_volume data --label a=b --label "odd= x=y ")
	path=$(volume_path "$v")
	tree_plain "$path"
	chown 999:999 "$path"
	chmod 0700 "$path"
	tree_of "$path" >"$BATS_TEST_TMPDIR/want"
	before=$(dk volume inspect "$v" | jq -S '.[0] | {Driver, Labels, Options}')
	snap_ok create "$PROJECT"

	dk volume rm "$v"
	snap_ok restore "$PROJECT"
	same volume "$before" \
		"$(dk volume inspect "$v" | jq -S '.[0] | {Driver, Labels, Options}')"
	tree_equal "$BATS_TEST_TMPDIR/want" "$(volume_path "$v")"
}

@test "F2 what was added is gone, what was edited is back" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	tree_plain "$path"
	tree_of "$path" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"

	echo x >"$path/extra"
	echo x >"$path/.hidden"
	mkdir "$path/..odd" "$path/a/another"
	echo x >"$path/..odd/x"
	echo edited >"$path/one"
	rm -r "$path/empty"
	chmod 600 "$path/a/two"
	rm -r "$path/a/b"
	echo 'a file where a directory was' >"$path/a/b"
	snap_ok restore "$PROJECT"
	tree_equal "$BATS_TEST_TMPDIR/want" "$path"
}

@test "F3 fifos, devices and dangling links do not hang; a socket is noted" {
	local v
	v=$(make_volume data)
	tree_specials "$(volume_path "$v")"
	SNAP_TIMEOUT=60 round_trip "$v"
	[ ! -e "$(volume_path "$v")/socket" ]
	snap_ok show "$SNAPSHOT" --json
	jq -e '[.. | .sockets? // empty] | add == 1' <<<"$output"
}

@test "F4 hard links and holes" {
	local v stored
	v=$(make_volume data)
	tree_links_and_holes "$(volume_path "$v")"
	round_trip "$v"
	stored=$(du -sm "$SNAPCTL_REPO" | cut -f 1)
	# 50 MiB of random bytes once; nothing of the holes
	[ "$stored" -ge 50 ] && [ "$stored" -lt 52 ]
	cd "$(volume_path "$v")"
	same inodes "$(stat -c %i big)" "$(stat -c %i zz-big)"
	[ "$(stat -c %b sparse)" -le 64 ]
	[ "$(stat -c %b hole)" -eq 0 ]
	[ "$(stat -c %b trailing)" -le 16 ]
}

@test "F4 GNU tar makes the same of the packs" {
	local v
	v=$(make_volume data)
	tree_links_and_holes "$(volume_path "$v")"
	tree_plain "$(volume_path "$v")"
	sync -f "$(volume_path "$v")"
	tree_of "$(volume_path "$v")" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"
	untar "$(newest)" "$v" "$BATS_TEST_TMPDIR/out"
	tree_equal "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/out"
	rm -rf "$BATS_TEST_TMPDIR/out"
}

@test "F5 extended attributes, ACLs, capabilities, setuid with foreign owners" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	tree_attributes "$path"
	round_trip "$v"
	getcap "$path/capable" | grep -q 'cap_chown,cap_net_bind_service=ep'
	same owner 33:34 "$(stat -c %u:%g "$path/capable")"
	same setuid 6755 "$(stat -c %a "$path/suid")"
}

@test "F5 inode flags" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	echo x >"$path/nodump"
	chattr +d "$path/nodump" || skip "no inode flags here"
	mkdir "$path/noatime"
	chattr +A "$path/noatime"
	round_trip "$v"
}

@test "F6 names are bytes, in any locale" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	tree_names "$path"
	export LC_ALL=C
	round_trip "$v"
}

@test "F6 GNU tar finds the same names in the packs" {
	local v
	v=$(make_volume data)
	tree_names "$(volume_path "$v")"
	tree_of "$(volume_path "$v")" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"
	untar "$(newest)" "$v" "$BATS_TEST_TMPDIR/out"
	tree_equal "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/out"
}

@test "F7 large ids, old and far times, a 9 GiB sparse file" {
	local v
	v=$(make_volume data)
	tree_numbers "$(volume_path "$v")"
	round_trip "$v"
}

@test "F7 GNU tar makes the same of the packs" {
	local v
	v=$(make_volume data)
	tree_numbers "$(volume_path "$v")"
	tree_of "$(volume_path "$v")" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"
	untar "$(newest)" "$v" "$BATS_TEST_TMPDIR/out"
	tree_equal "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/out"
}

@test "F8 a read-only directory keeps mode and time though its children change" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	tree_read_only "$path"
	tree_of "$path" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"
	chmod 755 "$path/locked"
	echo new >"$path/locked/child"
	rm "$path/locked/other"
	snap_ok restore "$PROJECT"
	tree_equal "$BATS_TEST_TMPDIR/want" "$path"
	same mode 555 "$(stat -c %a "$path/locked")"
	same time 1321009871 "$(stat -c %Y "$path/locked")"
}

@test "F9 an empty volume, ten times" {
	local v path before
	v=$(make_volume data)
	path=$(volume_path "$v")
	snap_ok create "$PROJECT"
	before=$(objects)
	tree_of "$path" >"$BATS_TEST_TMPDIR/want"
	for _ in {2..10}; do
		snap_ok create "$PROJECT"
	done
	same snapshots 10 "$(snapshot_ids | sort -u | wc -l)"
	echo x >"$path/x"
	snap_ok restore "$PROJECT"
	tree_equal "$BATS_TEST_TMPDIR/want" "$path"
	same objects "$before" "$(objects)"
}

@test "two volumes of a stack are kept apart" {
	local a b
	a=$(make_volume aa)
	b=$(make_volume bb)
	tree_plain "$(volume_path "$a")"
	tree_attributes "$(volume_path "$b")"
	tree_of "$(volume_path "$a")" >"$BATS_TEST_TMPDIR/a"
	tree_of "$(volume_path "$b")" >"$BATS_TEST_TMPDIR/b"
	snap_ok create "$PROJECT"
	wipe "$(volume_path "$a")"
	wipe "$(volume_path "$b")"
	snap_ok restore "$PROJECT"
	tree_equal "$BATS_TEST_TMPDIR/a" "$(volume_path "$a")"
	tree_equal "$BATS_TEST_TMPDIR/b" "$(volume_path "$b")"
}

@test "the attach transport carries the same" {
	local v path
	v=$(make_volume data)
	path=$(volume_path "$v")
	tree_plain "$path"
	head -c 40M /dev/urandom >"$path/large"
	tree_of "$path" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT" --transport attach
	wipe "$path"
	snap_ok restore "$PROJECT" --transport attach
	tree_equal "$BATS_TEST_TMPDIR/want" "$path"
}
