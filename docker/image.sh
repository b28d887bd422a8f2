#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes images without any registry: programs of installed Debian packages
# with the libraries they need, imported into the engine at DOCKER_HOST.
#
#   docker/image.sh base postgres redis tools
#
# snapctl-test/base      busybox
# snapctl-test/postgres  PostgreSQL, its own user, initdb on an empty volume
#                        (stop it with SIGINT: TERM waits for its clients)
# snapctl-test/redis     Redis with its append-only file
# snapctl-test/tools     GNU tar and zstd (for the benchmark)
#
# An image that the engine has already is kept, unless FORCE is set.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

docker=/usr/bin/docker
[ -x $docker ] || docker=docker

# -- putting a root together --------------------------------------------------

# put FILE...: copies files (links followed) to the same place beneath root.
put() {
	local f
	for f; do
		[ -e "$root$f" ] && continue
		mkdir -p "$root${f%/*}"
		cp -pL "$f" "$root$f"
	done
}

# program FILE...: the files and every library the loader would bring.
program() {
	local f lib
	for f; do
		put "$f"
		while read -r lib; do
			put "$lib"
		done < <(ldd "$f" 2>/dev/null | grep -oE '/[^ ]+')
	done
}

shell_root() {
	local applet busybox
	busybox=$(command -v busybox)
	program "$busybox"
	mkdir -p "$root"/{bin,dev,etc,proc,root,run,sys,var,tmp}
	[ "$busybox" = /bin/busybox ] || ln -s "$busybox" "$root/bin/busybox"
	chmod 1777 "$root/tmp"
	for applet in $(busybox --list); do
		[ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"
	done
	cat >"$root/etc/passwd" <<-END
	root:x:0:0:root:/root:/bin/sh
	service:x:999:999:service:/:/bin/sh
	END
	printf 'root:x:0:\nservice:x:999:\n' >"$root/etc/group"
	echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
}

# load NAME CHANGE...: imports root under a name, with Dockerfile lines.
load() {
	local name=snapctl-test/$1 changes=() c
	shift
	for c in 'ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin' \
		'LABEL io.snapctl.test=image' "$@"; do
		changes+=(--change "$c")
	done
	tar -C "$root" --numeric-owner -cf - . |
		"$docker" import "${changes[@]}" - "$name:latest" >/dev/null
	echo "$name: $(du -sm "$root" | cut -f 1) MiB" >&2
}

# -- the images ---------------------------------------------------------------

image_base() {
	shell_root
	load base 'CMD ["sh"]'
}

image_tools() {
	shell_root
	rm -f "$root/bin/tar"
	program /bin/tar /usr/bin/zstd
	load tools 'CMD ["sh"]'
}

image_postgres() {
	local bin lib share
	bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
	lib=${bin%/bin}/lib
	share=/usr/share/postgresql/$(basename "${bin%/bin}")
	shell_root
	program "$bin"/{postgres,initdb,pg_ctl,pg_isready,psql,pgbench,pg_dump}
	# The just-in-time compiler would bring 100 MB of LLVM.
	program "$lib"/{plpgsql,dict_snowball,utf8_and*}.so
	mkdir -p "$root$share"
	cp -RpL "$share"/. "$root$share/"
	rm -rf "$root$share"/{man,contrib}
	mkdir -p "$root/usr/share" "$root/usr/lib/locale"
	cp -Rp /usr/share/zoneinfo "$root/usr/share/"
	cp -Rp /usr/lib/locale/C.utf8 "$root/usr/lib/locale/"
	install -d -o 999 -g 999 -m 700 "$root/var/lib/postgresql/data"
	install -d -o 999 -g 999 "$root/run/postgresql"
	install -D -m 755 /dev/stdin "$root/usr/local/bin/run-postgres" <<-'END'
	#!/bin/sh
	set -e
	if [ ! -s "$PGDATA/PG_VERSION" ]; then
		initdb -D "$PGDATA" -U postgres --auth=trust -E UTF8 \
			--locale=C.UTF-8 >/dev/null
		echo 'host all all all trust' >>"$PGDATA/pg_hba.conf"
	fi
	exec postgres -D "$PGDATA" -c "listen_addresses=*" \
		-c unix_socket_directories=/run/postgresql "$@"
	END
	load postgres 'USER 999:999' \
		"ENV PATH=$bin:/usr/local/bin:/usr/bin:/bin" \
		'ENV PGDATA=/var/lib/postgresql/data' \
		'ENV PGHOST=/run/postgresql' 'ENV PGUSER=postgres' \
		'VOLUME /var/lib/postgresql/data' 'EXPOSE 5432' \
		'ENTRYPOINT ["run-postgres"]'
}

image_redis() {
	shell_root
	program /usr/bin/redis-server /usr/bin/redis-cli
	install -d -o 999 -g 999 -m 755 "$root/data"
	load redis 'USER 999:999' 'WORKDIR /data' 'VOLUME /data' 'EXPOSE 6379' \
		'ENTRYPOINT ["redis-server", "--dir", "/data", "--appendonly", "yes", "--bind", "0.0.0.0", "--protected-mode", "no"]'
}

if [ $# -eq 0 ]; then
	sed -n '6s/^# *//p' "$0" >&2
	exit 2
fi
umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/snapctl-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
for name; do
	if [ "$(type -t "image_$name")" != function ]; then
		echo "image.sh: no image named $name" >&2
		exit 2
	fi
	if [ -z "${FORCE-}" ] &&
		"$docker" image inspect "snapctl-test/$name" >/dev/null 2>&1; then
		continue
	fi
	root=$work/$name
	mkdir "$root"
	"image_$name"
	rm -rf "$root"
done
