#!/bin/bash
# SPDX-License-Identifier: MIT
# The main job once, for real: a stack with PostgreSQL and Redis is
# snapshotted, wrecked, and rolled back; its rows are compared.
#
#   docker/demo.sh [SNAPCTL]
#
# Runs on the engine at DOCKER_HOST or the default socket if it answers, else
# on a private one. Removes everything that it made.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=docker/engine.sh
. "$here/engine.sh"

snapctl=$(readlink -f "${1:-$here/../build/snapctl}")
project=snapctl-demo-$$
work=$(mktemp -d "${TMPDIR:-/tmp}/snapctl-demo.XXXXXX")
export SNAPCTL_REPO=$work/repo
export COMPOSE_PROJECT_NAME=$project COMPOSE_FILE=$here/demo/docker-compose.yml
export COMPOSE_IGNORE_ORPHANS=1 DOCKER_CLI_HINTS=false
docker=/usr/bin/docker
[ -x $docker ] || docker=docker
started=$(date +%s)
images=

# -- what is printed ----------------------------------------------------------

say() { printf '\n== %s\n' "$*"; }

# Prints a command as one would type it, runs it, prints how long it took.
run() {
	local from to rc=0 shown
	shown=$(printf "%q " "$@")
	shown=${shown//"$snapctl"/snapctl}
	shown=${shown/#compose /docker-compose }
	printf '$ %s\n' "${shown//"$docker "/docker }"
	from=$(date +%s%N)
	"$@" || rc=$?
	to=$(date +%s%N)
	printf '  [%d.%02d s%s]\n' $(((to - from) / 1000000000)) \
		$(((to - from) / 10000000 % 100)) \
		"$([ $rc -eq 0 ] || echo ", exit $rc")"
	return $rc
}

compose() {
	if command -v docker-compose >/dev/null; then
		docker-compose "$@"
	else
		$docker compose "$@"
	fi
}
sql() { compose exec -T db psql -q -At -v ON_ERROR_STOP=1 -c "$1"; }
redis() { compose exec -T cache redis-cli "$@"; }

# What must be the same before and after: counts and digests of all rows. (The
# worker's own table is left out: it writes all the time.)
rows() {
	sql "select 'orders', count(*), md5(string_agg(o::text, '|' order by id))
		from orders o
	     union all
	     select 'accounts', count(*), md5(string_agg(aid||':'||abalance,
		'|' order by aid)) from pgbench_accounts"
	echo "redis|$(redis dbsize)|$(redis eval "
		local all, ks = '', redis.call('keys', '*')
		table.sort(ks)
		for _, k in ipairs(ks) do
			all = redis.sha1hex(all .. k .. redis.call('get', k))
		end
		return all" 0)"
}

clean_up() {
	local rc=$?
	trap - EXIT INT TERM HUP
	set +e
	if [ -n "${DOCKER_READY-}" ]; then
		say "Cleaning up"
		compose down -v -t 1 >/dev/null 2>&1
		if [ -n "$images" ] && [ -z "${ENGINE_DIR-}" ]; then
			# shellcheck disable=SC2086 # a list
			$docker image rm $images >/dev/null 2>&1
		fi
	fi
	engine_stop
	rm -rf "$work"
	exit $rc
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# -- the engine and the stack -------------------------------------------------

if $docker version >/dev/null 2>&1; then
	say "Using the engine at ${DOCKER_HOST:-the default socket}"
else
	say "No engine answers: starting a private one"
	run engine_start
fi
DOCKER_READY=1
for i in base postgres redis; do
	$docker image inspect "snapctl-test/$i" >/dev/null 2>&1 ||
		images+=" snapctl-test/$i"
done
run "$here/image.sh" base postgres redis

say "A stack with PostgreSQL, Redis, a web server and a worker"
run compose --ansi never up -d 2>&1 | sed '/\.\.\. $/d'

say "Writing rows"
run compose exec -T db pgbench -q -i -s 10 2>&1 | tail -n 2
sql "create table beats (at timestamptz default now());
	create table orders as select id, md5(id::text) as item,
	now() - id * interval '1 minute' as at from generate_series(1, 200000) id"
redis eval "for i = 1, 20000 do redis.call('set', 'session:' .. i,
	string.rep(redis.sha1hex(i), 5)) end" 0 >/dev/null
rows | tee "$work/before"

say "Snapshot"
run "$snapctl" create "$project"
run "$snapctl" list "$project"
run "$snapctl" show latest
run du -sh "$SNAPCTL_REPO"

say "Wrecking it: a table dropped, rows changed, the database's files deleted"
sql "drop table orders; update pgbench_accounts set abalance = -1"
redis flushall >/dev/null
run compose exec -T db sh -c "rm -rf \$PGDATA/base \$PGDATA/pg_hba.conf"
run compose exec -T db psql -c "select count(*) from orders" &&
	{ echo "the database was not wrecked"; exit 1; }

say "Rolling back"
run "$snapctl" restore "$project"
run "$snapctl" verify
run compose ps

say "Comparing rows"
rows | tee "$work/after"
if ! diff "$work/before" "$work/after"; then
	echo "The rows differ."
	exit 1
fi
echo "All rows are as they were. ($(($(date +%s) - started)) s in all)"
