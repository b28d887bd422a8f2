#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages that a target needs and are not there yet.
#
#   docker/deps.sh [build] [demo] [test] [lint] [bench]     (default: build test)
#
# Nothing is started by the installation and nothing is removed. A tool that
# is there already, from whatever source, is taken as it is. Without root it
# prints the command and stops.
set -euo pipefail

# One row per need: group, package, and the file or command that shows it is
# there ("-": ask dpkg). An alternative in the third column is tried too.
needs() {
	cat <<-'TABLE'
	build gcc              gcc
	build make             make
	build libc6-dev        /usr/include/stdio.h
	build binutils         readelf
	build pkg-config       pkg-config
	build libcurl4-openssl-dev -
	build libjansson-dev   -
	build libzstd-dev      -
	build libarchive-dev   -
	build libssl-dev       -
	build libyaml-dev      -
	build libacl1-dev      -
	demo  docker.io        dockerd
	demo  docker-compose   docker-compose
	demo  iptables         iptables
	demo  iproute2         ip
	demo  util-linux       unshare
	demo  curl             curl
	demo  jq               jq
	demo  zstd             zstd
	demo  postgresql       /usr/lib/postgresql/*/bin/postgres
	demo  redis-server     redis-server
	demo  busybox-static   busybox
	test  libcmocka-dev    -
	test  bats             bats
	test  attr             setfattr
	test  acl              setfacl
	test  libcap2-bin      setcap
	test  e2fsprogs        chattr
	test  skopeo           skopeo
	test  shellcheck       shellcheck
	test  mandoc           mandoc
	lint  clang            clang
	lint  clang-format     clang-format
	lint  clang-tidy       clang-tidy
	lint  shellcheck       shellcheck
	bench restic           restic
	bench borgbackup       borg
	bench time             /usr/bin/time
	TABLE
}

installed() { # PACKAGE SIGN
	case $2 in
	-)	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" \
			= installed ] ;;
	/*)	compgen -G "$2" >/dev/null ;;
	*)	command -v "$2" >/dev/null ;;
	esac
}

groups=" ${*:-build test} "
case $groups in
*" test "*|*" bench "*) groups+="demo build " ;;
*" demo "*) groups+="build " ;;
esac

PATH=$PATH:/usr/sbin:/sbin
missing=()
while read -r group package sign; do
	case $groups in
	*" $group "*) ;;
	*) continue ;;
	esac
	installed "$package" "$sign" && continue
	missing+=("$package")
done < <(needs)
[ ${#missing[@]} -gt 0 ] || exit 0

options=(-y --no-install-recommends --no-remove -o DPkg::Lock::Timeout=600)
if ! command -v apt-get >/dev/null; then
	echo "missing, and there is no apt-get here: ${missing[*]}" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	cat >&2 <<-END
	Packages are missing. Install them as root and run this again:

	  apt-get update && apt-get install ${options[*]:0:2} ${missing[*]}

	END
	exit 1
fi

# Debian asks this file before a package starts its service; 101 forbids.
# One that exists belongs to the administrator and stays, unless it is left
# over from a run of ours that was killed (the lock says nobody holds it).
policy=/usr/sbin/policy-rc.d
mark='# written by snapctl docker/deps.sh, removed when it ends'
exec {lock}>/run/lock/snapctl-deps
flock "$lock"
policy_ours() { [ -f $policy ] && grep -qxF "$mark" $policy; }
policy_drop() { if policy_ours; then rm -f $policy; fi; }
if [ ! -e $policy ] || policy_ours; then
	trap policy_drop EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >$policy.snapctl
	chmod 755 $policy.snapctl
	mv $policy.snapctl $policy
fi

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q || echo "package lists could not be refreshed; going on" >&2
apt-get install -q "${options[@]}" "${missing[@]}" </dev/null
