#!/bin/bash
# SPDX-License-Identifier: MIT
# A private dockerd: its own data, socket, network, mounts and processes.
#
#   docker/engine.sh run COMMAND...     for the time of one command
#   docker/engine.sh start              prints ENGINE_DIR and DOCKER_HOST
#   docker/engine.sh stop|restart|kill DIR
#   . docker/engine.sh                  the functions engine_*
#
# Everything lives in namespaces below one small init process, so ending that
# process ends the engine whole: the kernel kills what is left in its pid
# namespace (containerd, shims, containers), and mounts, bridges and firewall
# rules vanish with theirs. The init holds the reading end of a pipe whose
# writing end is held by whoever started it: even a starter that was killed
# takes its engine along. Several engines can run beside each other.
#
# ENGINE_TMP       where the directory is made (default TMPDIR or /tmp)
# ENGINE_DOCKERD   the program, default dockerd
# ENGINE_FLAGS     more flags for it, split at spaces
# ENGINE_DIR is set by engine_start; all other functions need only that.

ENGINE_SELF=$(readlink -f "${BASH_SOURCE[0]}")
PATH=$PATH:/usr/sbin:/sbin

# Directories that container tools use whatever they are told. Each engine
# covers them with a tmpfs of its own; the host gets a missing one for that.
ENGINE_RUN="/run/docker /run/containerd"
ENGINE_LOCK=/run/lock/snapctl-engines

engine_say() { echo "engine: $*" >&2; }

# -- shared directories -------------------------------------------------------

# Every engine holds a shared lock on ENGINE_LOCK while it lives (descriptor 8
# of its init); the file lists the directories that were made. What opens or
# removes it holds the lock of the folder around it (descriptor 9).
engine_make_run() {
	local d
	exec 9<"${ENGINE_LOCK%/*}" && flock -x 9 || return 1
	exec 8>>"$ENGINE_LOCK" && flock -s 8 || return 1
	for d in $ENGINE_RUN; do
		[ -d "$d" ] && continue
		mkdir -m 700 "$d" && echo "$d" >>"$ENGINE_LOCK"
	done
	exec 9<&-
}

# The last engine removes what the first one had to make.
engine_drop_run() (
	exec 9<"${ENGINE_LOCK%/*}" && flock -x 9 || return 1
	[ -e "$ENGINE_LOCK" ] || return 0
	exec 8<>"$ENGINE_LOCK" && flock -n -x 8 || return 0
	while read -r d; do
		rmdir --ignore-fail-on-non-empty "$d"
	done <&8
	rm -f "$ENGINE_LOCK"
)

# -- the init process (pid 1 of the namespaces) -------------------------------

engine_init() {
	local dir=$1 life=$2 d
	trap '' INT HUP
	ip link set lo up || exit 1
	for d in $ENGINE_RUN; do
		mount -n -t tmpfs -o mode=711 engine "$d" || exit 1
	done
	# Docker 20.10 writes /etc/docker/key.json; it goes to our directory.
	mkdir -p "$dir"/etc/{up,work} "$dir"/probe/{low,up,work,at}
	mount -n -t overlay -o "lowerdir=/etc,upperdir=$dir/etc/up,workdir=$dir/etc/work" \
		engine /etc 2>/dev/null || true
	if mount -n -t overlay -o "lowerdir=$dir/probe/low,upperdir=$dir/probe/up,workdir=$dir/probe/work" \
		engine "$dir/probe/at" 2>/dev/null; then
		umount -n "$dir/probe/at"
		echo overlay2 >"$dir/driver"
	else
		echo vfs >"$dir/driver"
	fi
	rm -rf "$dir/probe"
	case $life in
	held)	exec 3<"$dir/life" ;;
	*)	exec 3<>"$dir/life" ;;
	esac
	echo ready >"$dir/ready"
	read -r d <&3
	# Asked to end, or the one who started us is gone.
	if d=$(cat "$dir/pid" 2>/dev/null) && kill -TERM "$d" 2>/dev/null; then
		timeout 10 tail -s 0.1 --pid="$d" -f /dev/null
	fi
	exit 0
}

# -- starting and stopping ----------------------------------------------------

# engine_enter COMMAND...: runs it in the namespaces of the engine.
engine_enter() {
	local u
	u=$(cat "$ENGINE_DIR/unshare") || return 1
	${ENGINE_EXEC-} nsenter --root="/proc/$u/root" --net="/proc/$u/ns/net" --mount="/proc/$u/ns/mnt" \
		--pid="/proc/$u/ns/pid_for_children" -- "$@"
}

# Starts dockerd inside and waits until it listens.
engine_up() {
	local dir=$ENGINE_DIR from pid follow tail
	from=$(($(stat -c %s "$dir/log") + 1))
	rm -f "$dir/pid"
	# cgroupfs: systemd could not place processes of another pid namespace.
	# shellcheck disable=SC2086 # flags are split on purpose
	(
		engine_close
		exec setsid "$ENGINE_SELF" --enter "$dir" \
			"${ENGINE_DOCKERD:-dockerd}" --data-root "$dir/data" \
			--exec-root "$dir/exec" --pidfile "$dir/pid" \
			-H "unix://$dir/docker.sock" \
			--storage-driver "$(cat "$dir/driver")" \
			--exec-opt native.cgroupdriver=cgroupfs \
			--cgroup-parent "/${dir##*/}" \
			${ENGINE_FLAGS-}
	) </dev/null >>"$dir/log" 2>&1 &
	pid=$!
	disown "$pid" 2>/dev/null || true
	echo "$pid" >"$dir/wrapper"
	exec {follow}< <(exec tail -c "+$from" -s 0.1 -f --pid="$pid" "$dir/log")
	tail=$!
	timeout 90 grep -q -m 1 "API listen on" <&"$follow"
	kill "$tail" 2>/dev/null
	exec {follow}<&-
	if ! curl -fsS --noproxy "*" --max-time 20 --unix-socket "$dir/docker.sock" \
		http://engine/_ping >/dev/null 2>&1; then
		engine_say "dockerd does not answer; the end of its log:"
		tail -n 15 "$dir/log" >&2
		return 1
	fi
}

# Descriptors above 2 are the caller's (bats waits for 3 to close; ours is
# the lifeline).
engine_close() {
	local fd
	for fd in /proc/self/fd/*; do
		fd=${fd##*/}
		if [ "$fd" -gt 2 ] && [ -e "/proc/self/fd/$fd" ]; then
			eval "exec $fd>&-"
		fi
	done
}

# engine_start [held|free]: held (default) ends with the calling shell.
engine_start() {
	local life=${1:-held} ready line="" tries=0
	if [ "$(id -u)" -ne 0 ]; then
		engine_say "a private engine needs root"
		return 1
	fi
	ENGINE_DIR=$(mktemp -d "${ENGINE_TMP:-${TMPDIR:-/tmp}}/snapctl-engine.XXXXXX") ||
		return 1
	export ENGINE_DIR
	chmod 711 "$ENGINE_DIR"
	mkfifo -m 600 "$ENGINE_DIR/life" "$ENGINE_DIR/ready"
	: >"$ENGINE_DIR/log"
	exec {ready}<>"$ENGINE_DIR/ready"
	[ "$life" = free ] || exec {ENGINE_LIFE}<>"$ENGINE_DIR/life"
	(
		engine_close
		engine_make_run || exit 1
		exec setsid unshare --net --mount --propagation slave --pid --fork \
			--mount-proc --kill-child=KILL -- \
			"$ENGINE_SELF" --init "$ENGINE_DIR" "$life"
	) </dev/null >>"$ENGINE_DIR/log" 2>&1 &
	echo $! >"$ENGINE_DIR/unshare"
	disown $! 2>/dev/null || true
	until read -r -t 0.5 -u "$ready" line || ! kill -0 "$(cat "$ENGINE_DIR/unshare")" 2>/dev/null; do
		[ $((tries += 1)) -lt 60 ] || break
	done
	exec {ready}>&-
	if [ "$line" != ready ]; then
		engine_say "namespaces could not be set up:"
		cat "$ENGINE_DIR/log" >&2
		engine_stop
		return 1
	fi
	if ! engine_up; then
		engine_stop
		return 1
	fi
	export DOCKER_HOST=unix://$ENGINE_DIR/docker.sock
	unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH
}

# Ends the engine of ENGINE_DIR whole and removes every trace. Safe to repeat.
engine_stop() {
	local dir=${ENGINE_DIR-} u d
	[ -n "$dir" ] && [ -d "$dir" ] || return 0
	if u=$(cat "$dir/unshare" 2>/dev/null) && engine_is_ours "$u"; then
		if [ -p "$dir/life" ]; then
			# Opened for both: never blocks, also without a reader.
			echo end 1<>"$dir/life"
		fi
		timeout 20 tail -s 0.1 --pid="$u" -f /dev/null ||
			kill -KILL "$u" 2>/dev/null
		timeout 20 tail -s 0.1 --pid="$u" -f /dev/null
		u=$(cat "$dir/wrapper" 2>/dev/null) &&
			timeout 5 tail -s 0.1 --pid="$u" -f /dev/null
	fi
	if [ -n "${ENGINE_LIFE-}" ]; then
		exec {ENGINE_LIFE}>&-
		unset ENGINE_LIFE
	fi
	while read -r d; do
		[ -d "$d/${dir##*/}" ] || continue
		find "$d/${dir##*/}" -depth -type d -exec rmdir {} + 2>/dev/null
	done < <(awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/self/mounts)
	rm -rf --one-file-system "$dir" || engine_say "cannot remove $dir"
	engine_drop_run
	unset ENGINE_DIR
}

# The pid in the file is ours only while it runs our init for this directory.
engine_is_ours() {
	local args
	mapfile -d "" -t args 2>/dev/null <"/proc/$1/cmdline"
	case " ${args[*]-} " in
	*" $ENGINE_DIR "*) return 0 ;;
	esac
	return 1
}

# engine_signal SIGNAL: sends it to dockerd and waits until that is gone.
engine_signal() {
	local pid wrapper
	pid=$(cat "$ENGINE_DIR/pid") && wrapper=$(cat "$ENGINE_DIR/wrapper") ||
		return 1
	engine_enter kill "-$1" "$pid" || return 1
	timeout 60 tail -s 0.1 --pid="$wrapper" -f /dev/null
}

# As `systemctl restart docker` and as a crash of dockerd followed by a start.
engine_restart() { engine_signal TERM && engine_up; }
engine_kill() { engine_signal KILL && engine_up; }

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	set -u
	case ${1-} in
	--init)
		engine_init "$2" "$3" ;;
	--enter)
		ENGINE_DIR=$2 ENGINE_EXEC=exec
		shift 2
		engine_enter "$@" ;;
	run)
		shift
		trap engine_stop EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM HUP
		engine_start || exit 1
		"$@" ;;
	start)
		engine_start free || exit 1
		echo "export ENGINE_DIR=$ENGINE_DIR DOCKER_HOST=$DOCKER_HOST" ;;
	stop|restart|kill)
		ENGINE_DIR=$2
		"engine_$1" ;;
	*)
		sed -n '5,8s/^# *//p' "$0" >&2
		exit 2 ;;
	esac
fi
