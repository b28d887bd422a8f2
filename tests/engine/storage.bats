#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The repository: room, damage, and what other tools make of it (CASES I1, I2,
# I7).

load lib

tear_down() {
	if mountpoint -q "$SNAPCTL_REPO"; then
		umount "$SNAPCTL_REPO"
	fi
}

@test "I1 a full disk: nothing half-written, the older snapshot is whole" {
	local v path before id
	stack <<-END
	services:
	  db:
	    image: snapctl-test/base
	    labels: &mine {io.snapctl.test: "$TEST_RUN"}
	    command: ["sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]
	    volumes: ["data:/data"]
	volumes:
	  data: {labels: *mine}
	END
	v=${PROJECT}_data
	path=$(volume_path "$v")
	mkdir "$SNAPCTL_REPO"
	mount -t tmpfs -o size=20m,mode=700 test "$SNAPCTL_REPO"
	tree_plain "$path"
	snap_ok create "$PROJECT"
	id=$(newest)
	before=$(repo_files)

	head -c 50M /dev/urandom >"$path/random"
	snap_rc 1 create "$PROJECT" --full
	says 'no space|room|full|space'
	same repository "$before" "$(repo_files)"
	same partial "" "$(find "$SNAPCTL_REPO/state/partial" -type f -size +0)"
	snap_ok list "$PROJECT" --json
	same listed "$id" "$(jq -r '.snapshots[].id' <<<"$output")"
	snap_ok verify
	same db running "$(state_of db)"
}

# damage HOW FILE
damage() {
	local size at
	size=$(stat -c %s "$2")
	at=$((size / 2))
	case $1 in
	flip)
		flip_byte "$2" $at ;;
	cut)
		truncate -s $((size - 1)) "$2" ;;
	empty)
		: >"$2" ;;
	swap)
		while [ "$(byte "$2" $at)" = "$(byte "$2" $((at + 1)))" ]; do
			at=$((at + 1))
		done
		perl -e 'open my $f, "+<", $ARGV[0] or die; seek $f, $ARGV[1], 0;
			read $f, my $b, 2; seek $f, $ARGV[1], 0;
			print $f scalar reverse $b' "$2" $at ;;
	gone)
		rm "$2" ;;
	esac
}
flip_byte() {
	printf "%b" "\\x$(printf %02x $(($(byte "$1" "$2") ^ 1)))" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
byte() { od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' '; }

# Each way to damage FILE is found by verify, which names NAME, and restore
# refuses, leaving the volume as it is.
every_damage() { # FILE NAME
	local how path
	path=$(volume_path "${PROJECT}_data")
	cp -a "$SNAPCTL_REPO" "$BATS_TEST_TMPDIR/sound"
	for how in flip cut empty swap gone; do
		rm -rf "$SNAPCTL_REPO"
		cp -a "$BATS_TEST_TMPDIR/sound" "$SNAPCTL_REPO"
		chmod u+w "$1"
		damage $how "$1"
		echo "== $how $1"
		snap_rc 1 verify
		says "$2"
		snap_rc 1 restore "$PROJECT" --no-safety
		says "$2"
		tree_equal "$BATS_TEST_TMPDIR/live" "$path"
	done
	rm -rf "$SNAPCTL_REPO"
	cp -a "$BATS_TEST_TMPDIR/sound" "$SNAPCTL_REPO"
	snap_ok verify
}

# A snapshot, and a volume that differs from it.
snapshot_and_drift() {
	local path
	path=$(volume_path "$(make_volume data)")
	tree_plain "$path"
	snap_ok create "$PROJECT"
	rm "$path/a/numbers"
	echo edited >"$path/a/b/random"
	touch -d '2012-12-12 12:12:12.5' "$path"
	tree_of "$path" >"$BATS_TEST_TMPDIR/live"
}

layer() { # MEDIATYPE-ENDING
	jq -r --arg m "$1" '[.layers[] | select(.mediaType | endswith($m))][0].digest' \
		"$(manifest_of "$(newest)")"
}

@test "I2 a damaged pack" {
	snapshot_and_drift
	digest=$(layer pack.v1.tar+zstd)
	every_damage "$(blob "$digest")" "${digest:7:12}"
}

@test "I2 a damaged index" {
	snapshot_and_drift
	digest=$(layer index.v1)
	every_damage "$(blob "$digest")" "${digest:7:12}"
}

@test "I2 a damaged manifest" {
	snapshot_and_drift
	file=$(manifest_of "$(newest)")
	digest=${file##*/}
	every_damage "$file" "${digest:0:12}"
}

@test "I2 a damaged config" {
	snapshot_and_drift
	digest=$(jq -r .config.digest "$(manifest_of "$(newest)")")
	every_damage "$(blob "$digest")" "${digest:7:12}"
}

@test "I2 a damaged index.json" {
	local how path
	snapshot_and_drift
	path=$(volume_path "${PROJECT}_data")
	cp "$SNAPCTL_REPO/index.json" "$BATS_TEST_TMPDIR/sound.json"
	digest=$(jq -r '.manifests[0].digest' "$SNAPCTL_REPO/index.json")
	for how in cut empty digest gone; do
		case $how in
		digest)
			sed -i "s/${digest:7:8}/00000000/" "$SNAPCTL_REPO/index.json" ;;
		*)
			damage $how "$SNAPCTL_REPO/index.json" ;;
		esac
		echo "== $how"
		snap_rc 1 verify
		says 'index\.json|00000000'
		snap_rc 1 restore "$PROJECT" --no-safety
		tree_equal "$BATS_TEST_TMPDIR/live" "$path"
		# and a run that writes does not make it worse
		if [ $how = cut ]; then
			snap_rc 1 create "$PROJECT"
		fi
		cp "$BATS_TEST_TMPDIR/sound.json" "$SNAPCTL_REPO/index.json"
	done
	snap_ok verify
}

@test "I2 any byte of index.json flipped is found, or makes no difference" {
	local at size sound missed=""
	snapshot_and_drift
	cp "$SNAPCTL_REPO/index.json" "$BATS_TEST_TMPDIR/sound.json"
	sound=$(jq -S . "$BATS_TEST_TMPDIR/sound.json")
	size=$(stat -c %s "$SNAPCTL_REPO/index.json")
	for ((at = 0; at < size; at += 3)); do
		cp "$BATS_TEST_TMPDIR/sound.json" "$SNAPCTL_REPO/index.json"
		flip_byte "$SNAPCTL_REPO/index.json" $at
		if "$SNAPCTL" verify -q >/dev/null 2>&1 && [ "$sound" != \
			"$(jq -S . "$SNAPCTL_REPO/index.json" 2>&1)" ]; then
			missed+=" $at"
		fi
	done
	same missed "" "$missed"
}

@test "I2 verify --deep finds what verify finds" {
	snapshot_and_drift
	snap_ok verify --deep
	damage flip "$(blob "$(layer pack.v1.tar+zstd)")"
	snap_rc 1 verify --deep
}

@test "I7 the engine stores nothing of what is read, nor does /tmp" {
	local v path data before after most=0 pid now
	data=${ENGINE_DIR-}/data
	[ -d "$data" ] || skip "needs the private engine"
	v=$(make_volume data)
	path=$(volume_path "$v")
	snap_ok create "$PROJECT" # the image is loaded now
	head -c 1G /dev/urandom >"$path/large"
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
	usage() { du -skc --exclude=volumes "$data" "$TMPDIR" 2>/dev/null |
		tail -n 1 | cut -f 1; }
	before=$(usage)
	"$SNAPCTL" create "$PROJECT" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		now=$(usage)
		[ "$now" -le "$most" ] || most=$now
		timeout 0.2 tail -s 0.05 --pid=$pid -f /dev/null || true
	done
	wait $pid
	after=$(usage)
	echo "before $before KiB, most $most, after $after"
	# a container's own bookkeeping, far from 1 GiB
	[ $((most - before)) -lt 1024 ]
	[ $((after - before)) -lt 64 ]
	same "temporary files" "" "$(find "$TMPDIR" -type f)"
}

@test "permissions: the repository is the caller's alone" {
	make_volume data
	(umask 000 && snap_ok create "$PROJECT")
	same directories 700 "$(find "$SNAPCTL_REPO" -type d -printf '%m\n' |
		sort -u)"
	same files 600 "$(find "$SNAPCTL_REPO" -type f -printf '%m\n' | sort -u)"
}

@test "a plain .tar.zst: zstd and GNU tar give the tree" {
	local v
	v=$(make_volume data)
	tree_plain "$(volume_path "$v")"
	tree_of "$(volume_path "$v")" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"
	untar "$(newest)" "$v" "$BATS_TEST_TMPDIR/out"
	tree_equal "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/out"
	head -c 30M /dev/urandom >"$(volume_path "$v")/large"
	tree_of "$(volume_path "$v")" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT" --full --max-pack-size 10M
	[ "$(packs_of "$(newest)" "$v" | wc -l)" -ge 3 ]
	untar "$(newest)" "$v" "$BATS_TEST_TMPDIR/out2"
	tree_equal "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/out2"
}

@test "skopeo reads the repository and copies a snapshot" {
	local v id
	v=$(make_volume data)
	tree_plain "$(volume_path "$v")"
	tree_of "$(volume_path "$v")" >"$BATS_TEST_TMPDIR/want"
	snap_ok create "$PROJECT"
	id=$(newest)
	run --separate-stderr skopeo inspect --raw "oci:$SNAPCTL_REPO:$id"
	[ "$status" -eq 0 ]
	same artifact application/vnd.snapctl.snapshot.v1 \
		"$(jq -r .artifactType <<<"$output")"
	mkdir "$BATS_TEST_TMPDIR/copy"
	skopeo copy -q "oci:$SNAPCTL_REPO:$id" \
		"oci:$BATS_TEST_TMPDIR/copy:$id" 3>&-
	while read -r digest; do
		cmp "$(blob "$digest")" \
			"$BATS_TEST_TMPDIR/copy/blobs/sha256/${digest#sha256:}"
	done < <(jq -r '.config.digest, .layers[].digest' "$(manifest_of "$id")")
	# and the copy is a repository to restore from
	wipe "$(volume_path "$v")"
	chmod 700 "$BATS_TEST_TMPDIR/copy"
	snap_ok --repo "$BATS_TEST_TMPDIR/copy" verify
	snap_ok --repo "$BATS_TEST_TMPDIR/copy" restore "$PROJECT"
	tree_equal "$BATS_TEST_TMPDIR/want" "$(volume_path "$v")"
}
