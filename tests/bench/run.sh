#!/bin/bash
# SPDX-License-Identifier: MIT
# snapctl against what people use instead, on the same data, in one run, the
# contenders taking turns; medians. Prints a table, writes build/bench.json.
#
# RUNS=5        rounds
# SCALE=100     of pgbench: 100 makes a cluster of about 2.5 GB
# FILES=60000   small files, copies of /usr/share and /usr/include
# MILLION=1     also walk, and take, a million empty files
# BENCH_TMP     a directory with room for six times the cluster
# ONLY=REGEX    only rows whose name matches
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=docker/engine.sh
. "$root/docker/engine.sh"
runs=${RUNS:-5} scale=${SCALE:-100} files=${FILES:-60000}
build=${BUILD:-$root/build}
snapctl=$(readlink -f "${SNAPCTL:-$build/snapctl}")
docker=/usr/bin/docker
[ -x $docker ] || docker=docker
if [ "$(id -u)" -ne 0 ]; then
	echo "the benchmark needs root: private engine, dropping caches" >&2
	exit 1
fi

work=$(mktemp -d "${BENCH_TMP:-${TMPDIR:-/tmp}}/snapctl-bench.XXXXXX")
export ENGINE_TMP=$work
finish() {
	trap - EXIT
	engine_stop
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

note() { printf '%s\n' "$*" >&2; }

# -- the data -----------------------------------------------------------------

volume_path() { $docker volume inspect -f '{{.Mountpoint}}' "$1"; }

make_database() {
	local id
	note "database: initdb, pgbench -i -s $scale"
	$docker volume create bench-db >/dev/null
	id=$($docker run -d -v bench-db:/var/lib/postgresql/data \
		--shm-size 256m --stop-timeout 120 \
		--health-cmd 'pg_isready -q' --health-interval 1s \
		snapctl-test/postgres -c max_wal_size=1GB)
	grep -q -m 1 "health_status: healthy$" < <(timeout 120 $docker events \
		--since 0 -f "container=$id" --format "{{.Status}}")
	$docker exec "$id" pgbench -q -i -s "$scale" >&2
	# some history, so that not every page is as the load left it
	$docker exec "$id" pgbench -n -c 4 -t 2500 >"$work/pgbench" 2>&1 || { cat "$work/pgbench" >&2; exit 1; }
	$docker kill -s INT "$id" >/dev/null
	$docker wait "$id" >/dev/null
	$docker rm "$id" >/dev/null
}

make_files() {
	local path n=0
	$docker volume create bench-files >/dev/null
	path=$(volume_path bench-files)
	{ (cd /usr && find share include -type f -size -64k -print0) || true; } |
		head -z -n "$files" >"$work/list"
	while :; do
		mkdir "$path/$n"
		tar -C /usr -c --null -T "$work/list" | tar -C "$path/$n" -x
		n=$((n + 1))
		[ "$(find "$path" -type f -print0 | tr -dc '\0' | wc -c)" \
			-lt "$files" ] || break
	done
	note "files: $(find "$path" -type f | wc -l) in $(du -sm "$path" | cut -f 1) MiB"
}

# -- measuring ----------------------------------------------------------------

results=$work/results
: >"$results"

# measure ROW WHO COMMAND...: its wall time in seconds goes to the results.
# What came before has been written back, so nobody pays for another.
measure() {
	local row=$1 who=$2 from to
	shift 2
	sync
	case $row in
	*cold*)	echo 3 >/proc/sys/vm/drop_caches ;;
	esac
	from=$(date +%s%N)
	if ! "$@" >"$work/out" 2>&1; then
		note "$row: $who failed:"
		tail -n 20 "$work/out" >&2
		exit 1
	fi
	to=$(date +%s%N)
	awk -v r="$row" -v w="$who" -v n=$((to - from)) \
		'BEGIN { printf "%s\t%s\t%.3f\n", r, w, n / 1e9 }' |
		tee -a "$results" >&2
}
value() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$results"; }

wanted() { [[ $1 =~ ${ONLY:-.} ]]; }
warm() { tar -C "$1" -cf - . | cat >/dev/null; }

by_snapctl() { SNAPCTL_REPO=$2 "$snapctl" create -q --volume "$1"; }
by_tar() { tar -C "$1" -cf - . | zstd -q -T0 -3 -f -o "$2"; }
by_container() {
	$docker run --rm --network none -v "$1:/volume:ro" -v "$2:/out" \
		snapctl-test/tools sh -c \
		'/bin/tar -C /volume -cf - . | zstd -q -T0 -3 -f -o /out/archive'
}
export RESTIC_PASSWORD=bench BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
by_restic() { (cd "$1" && restic -q -r "$2" --cache-dir "$2.cache" backup .); }
by_borg() { (cd "$1" && BORG_BASE_DIR=$2.base borg create -C zstd,3 "$2::a" .); }

size_of() { du -s -B1 --apparent-size "$1" | cut -f 1; }

# create_round ROW VOLUME WHO...
create_round() {
	local row=$1 volume=$2 path who at
	path=$(volume_path "$volume")
	shift 2
	for who; do
		at=$work/$volume.$who
		rm -rf "$at" "$at".*
		case $who in
		snapctl)
			measure "$row" "$who" by_snapctl "$volume" "$at"
			value "size $volume" "$who" "$(size_of "$at/blobs")" ;;
		tar-zstd)
			measure "$row" "$who" by_tar "$path" "$at"
			value "size $volume" "$who" "$(size_of "$at")" ;;
		container)
			mkdir "$at"
			measure "$row" "$who" by_container "$volume" "$at" ;;
		restic)
			restic -q init -r "$at" --cache-dir "$at.cache" >/dev/null
			measure "$row" "$who" by_restic "$path" "$at" ;;
		borg)
			BORG_BASE_DIR=$at.base borg init -e none "$at"
			measure "$row" "$who" by_borg "$path" "$at" ;;
		esac
	done
}

# Moved away, not deleted: ext4 keeps off inodes that were freed in the last
# minutes, and looking for others then is all that is measured.
wipe() {
	mkdir -p "$work/trash"
	find "${1:?}" -mindepth 1 -maxdepth 1 -print0 |
		xargs -0r mv -t "$(mktemp -d "$work/trash/XXXXXX")"
}
from_snapctl() { SNAPCTL_REPO=$1 "$snapctl" restore -q "$2"; }
from_tar() { zstd -dcq "$1" | tar -C "$2" -xpf - && sync; }
from_restic() {
	restic -q -r "$1" --cache-dir "$1.cache" restore latest --target "$2" &&
		sync
}

# Everything was emptied before; all end with the data on disk.
restore_round() { # ROW VOLUME WHO...
	local row=$1 volume=$2 path who out=$work/out.d
	path=$(volume_path "$volume")
	shift 2
	for who; do
		mkdir -p "$out"
		wipe "$out"
		case $who in
		snapctl)
			wipe "$path"
			measure "$row" "$who" from_snapctl \
				"$work/$volume.snapctl" "$volume" ;;
		tar-zstd)
			measure "$row" "$who" from_tar \
				"$work/$volume.tar-zstd" "$out" ;;
		restic)
			measure "$row" "$who" from_restic \
				"$work/$volume.restic" "$out" ;;
		esac
	done
	rm -rf "$out"
	# files: the next round's are made while these are forgotten
	[ "$row" = "restore files" ] || rm -rf "$work/trash"
}

# The largest resident size of the helper, read from inside the engine while
# it runs.
watch_helper() {
	local id pid
	read -r id < <(timeout 60 $docker events -f type=container \
		-f event=start -f label=io.snapctl.helper --format "{{.ID}}")
	pid=$($docker inspect -f '{{.State.Pid}}' "$id")
	# shellcheck disable=SC2016 # expanded inside
	engine_enter sh -c 'while grep VmHWM "/proc/$1/status" 2>/dev/null; do
		sleep 0.05; done' sh "$pid" | awk '{ most = $2 } END { print most * 1024 }'
}

million() {
	local path
	$docker volume create bench-million >/dev/null
	path=$(volume_path bench-million)
	if wanted walk; then
		note "walk: a million files"
		"$build/tests/bench/walk" "$path" >"$work/walk.json"
	fi
	if wanted memory && [ -d "$path/walk-1m" ]; then
		watch_helper >"$work/helper.rss" &
		SNAPCTL_REPO=$work/million /usr/bin/time -f '%M' -o "$work/rss" \
			"$snapctl" create -q --volume bench-million
		wait $!
		value memory snapctl $(($(tail -n 1 "$work/rss") * 1024))
		value memory helper "$(cat "$work/helper.rss")"
	fi
}

# -- the table ----------------------------------------------------------------

median() { # ROW WHO
	awk -F '\t' -v r="$1" -v w="$2" '$1 == r && $2 == w { print $3 }' \
		"$results" | sort -g | awk '{ v[NR] = $1 }
		END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# row TITLE ROW AGAINST AT-MOST
row() {
	local mine other
	mine=$(median "$2" snapctl) other=$(median "$2" "$3")
	[ -n "$mine" ] && [ -n "$other" ] || return 0
	awk -v OFS='\t' -v t="$1" -v a="$3" -v m="$mine" -v o="$other" -v l="$4" \
		'BEGIN {
		r = m / o
		if (l == "-") said = ""; else said = r <= l ? "yes" : "NO"
		print t, a, m, o, sprintf("%.3f", r), l, said }'
}

table() {
	printf 'work\tagainst\tsnapctl\tother\tratio\tat most\treached\n'
	row 'create database, warm' 'db warm' tar-zstd 1.05
	row 'create database, warm' 'db warm' container 0.95
	row 'create database, warm' 'db warm' restic 0.50
	row 'create database, warm' 'db warm' borg 0.60
	row 'create database, cold' 'db cold' tar-zstd -
	row 'create files, cold' 'files cold' tar-zstd 0.60
	row 'create files, warm' 'files warm' tar-zstd -
	row 'size of database' 'size bench-db' tar-zstd 1.03
	row 'size of files' 'size bench-files' tar-zstd 1.03
	row 'restore database' 'restore db' tar-zstd 0.70
	row 'restore database' 'restore db' restic -
	row 'restore files' 'restore files' tar-zstd -
	if [ -s "$work/walk.json" ]; then
		jq -r '["walk of a million", "bare loop", .walk_s, .bare_s, .ratio, 1.3,
			(if .ratio <= 1.3 then "yes" else "NO" end)] | @tsv' \
			"$work/walk.json"
	fi
	local who n
	for who in snapctl helper; do
		n=$(median memory $who)
		[ -n "$n" ] || continue
		printf 'memory, a million\t%s\t%s MB\t\t\t150 MB\t%s\n' $who \
			$((n / 1000000)) "$([ $((n / 1000000)) -le 150 ] && echo yes || echo NO)"
	done
}

sha_instructions() {
	if grep -qwE 'sha_ni|sha2' /proc/cpuinfo; then echo yes; else echo no; fi
}

# -- the run ------------------------------------------------------------------

engine_start
"$root/docker/image.sh" base tools postgres
make_database
make_files
db=$(volume_path bench-db) small=$(volume_path bench-files)
note "database: $(du -sm "$db" | cut -f 1) MiB"

for ((i = 1; i <= runs; i++)); do
	note "-- round $i of $runs"
	if wanted 'db warm'; then
		warm "$db"
		create_round 'db warm' bench-db snapctl tar-zstd container restic borg
	fi
	if wanted 'db cold'; then
		create_round 'db cold' bench-db tar-zstd snapctl
	fi
	if wanted 'restore db'; then
		restore_round 'restore db' bench-db tar-zstd snapctl restic
	fi
	if wanted 'files cold'; then
		create_round 'files cold' bench-files snapctl tar-zstd
	fi
	if wanted 'files warm'; then
		warm "$small"
		create_round 'files warm' bench-files tar-zstd snapctl
	fi
	if wanted 'restore files'; then
		restore_round 'restore files' bench-files tar-zstd snapctl
	fi
done
[ "${MILLION:-1}" = 0 ] || million

table >"$work/table"
mkdir -p "$build"
jq -n --rawfile results "$results" --rawfile table "$work/table" \
	--arg sha "$(sha_instructions)" --arg cores "$(nproc)" \
	--arg kernel "$(uname -r)" --arg runs "$runs" \
	--argjson walk "$(cat "$work/walk.json" 2>/dev/null || echo null)" '
	def lines: split("\n") | map(select(. != "") | split("\t"));
	{ cores: ($cores | tonumber), kernel: $kernel, runs: ($runs | tonumber),
	  sha_instructions: ($sha == "yes"), walk: $walk,
	  rows: ($table | lines | .[1:] | map({work: .[0], against: .[1],
	    snapctl: .[2], other: .[3], ratio: .[4], at_most: .[5],
	    reached: .[6]})),
	  results: ($results | lines | map({row: .[0], who: .[1],
	    value: (.[2] | tonumber)})) }' >"$build/bench.json"
echo "CPU with SHA instructions: $(sha_instructions); $(nproc) cores; medians of $runs"
awk -F '\t' '{ printf "%-22s %-10s %12s %12s %7s %8s %s\n", $1, $2, $3, $4, $5, $6, $7 }' \
	"$work/table"
echo "all values: $build/bench.json"
