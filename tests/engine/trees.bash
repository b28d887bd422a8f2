# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Trees that are hard to keep. Each function fills the directory it is given.

# A bit of everything ordinary.
tree_plain() {
	local d=$1
	mkdir -p "$d"/a/b "$d"/empty
	echo one >"$d/one"
	echo two >"$d/a/two"
	head -c 300000 /dev/urandom >"$d/a/b/random"
	seq 1 200000 >"$d/a/numbers"
	: >"$d/none"
	chmod 640 "$d/a/two"
	chown 999:999 "$d/a" "$d/a/two"
	touch -d '2001-02-03 04:05:06.789012345' "$d/one" "$d/a/b"
}

# F3
tree_specials() {
	local d=$1
	echo text >"$d/text"
	mkfifo -m 640 "$d/fifo"
	mknod -m 660 "$d/null" c 1 3
	mknod -m 600 "$d/block" b 7 200
	ln -s /nowhere/at/all "$d/dangling"
	ln -s text "$d/link"
	chown -h 7:8 "$d/link" "$d/fifo"
	perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die $!;
		chdir shift or die $!; bind($s, sockaddr_un("socket")) or die $!' "$d"
}

# F4
tree_links_and_holes() {
	local d=$1
	head -c 50M /dev/urandom >"$d/big"
	mkdir "$d/sub"
	ln "$d/big" "$d/sub/big-too"
	ln "$d/big" "$d/zz-big"
	truncate -s 4G "$d/sparse"
	printf 'first' | dd of="$d/sparse" bs=4K seek=1000 conv=notrunc status=none
	printf 'last' | dd of="$d/sparse" bs=4K seek=900000 conv=notrunc status=none
	truncate -s 100M "$d/hole"
	head -c 1K /dev/urandom >"$d/trailing"
	truncate -s 10M "$d/trailing"
	sync -f "$d" # extents are settled when nothing is waiting to be written
}

# F5
tree_attributes() {
	local d=$1
	echo text >"$d/text"
	ln -s text "$d/beside"
	# NUL, newline, equals sign, a byte that is not UTF-8, and empty
	setfattr -n user.odd -v 0x61000a3d62ff00 "$d/text"
	setfattr -n user.empty "$d/text"
	setfattr -n user.long -v "0x$(head -c 2000 /dev/urandom | od -An -v -tx1 |
		tr -d ' \n')" "$d/text"
	mkdir "$d/acl"
	setfacl -m u:4242:rwx,g:4343:r-x,m::r-x "$d/acl" "$d/text"
	setfacl -d -m u:4242:rw-,o::--- "$d/acl"
	echo inherits >"$d/acl/below"
	cp /bin/true "$d/capable"
	chown 33:34 "$d/capable"
	setcap cap_net_bind_service,cap_chown=ep "$d/capable"
	cp /bin/true "$d/suid"
	chown 1000:1000 "$d/suid"
	chmod 6755 "$d/suid"
	mkdir "$d/sticky"
	chown 1001:1002 "$d/sticky"
	chmod 3777 "$d/sticky"
}

# F6
tree_names() {
	local d=$1 long
	long=$(printf 'n%.0s' {1..255})
	echo 1 >"$d/"$'new\nline'
	echo 2 >"$d/"$'invalid-\xff\xfe-utf8'
	echo 3 >"$d/-rf"
	echo 4 >"$d/$long"
	echo 5 >"$d/back\\slash"
	echo 6 >"$d/[x]*?"
	echo 7 >"$d/ü-日本"
	echo 8 >"$d/"$'\x01\x7f tab\t'
	echo 9 >"$d/ "
	mkdir "$d/..odd" && echo 10 >"$d/..odd/.hidden"
	(
		cd "$d" || exit
		# 15 of 255 and one more: 4000 bytes below the root
		for _ in {1..15}; do
			mkdir "d${long:1}" && cd -P "d${long:1}" || exit
		done
		echo deep >"$(printf 'x%.0s' {1..160})"
	)
}

# F7
tree_numbers() {
	local d=$1
	echo 1 >"$d/owner"
	chown 4000000000:4000000001 "$d/owner"
	echo 2 >"$d/before"
	touch -d '1960-01-01T00:00:00.25Z' "$d/before"
	echo 3 >"$d/nanoseconds"
	touch -d '2020-02-02T02:02:02.000000001Z' "$d/nanoseconds"
	echo 4 >"$d/later"
	touch -d '2100-12-31T23:59:59.999999999Z' "$d/later"
	truncate -s 9G "$d/nine"
	printf 'end' | dd of="$d/nine" bs=1M seek=9000 conv=notrunc status=none
	sync -f "$d"
}

# F8
tree_read_only() {
	local d=$1
	mkdir "$d/locked"
	echo old >"$d/locked/child"
	echo old >"$d/locked/other"
	chmod 0444 "$d/locked/child"
	touch -d '2010-01-01T00:00:00.5Z' "$d/locked/child"
	chmod 0555 "$d/locked"
	touch -d '2011-11-11T11:11:11.111111111Z' "$d/locked"
}
