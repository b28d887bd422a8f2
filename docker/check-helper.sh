#!/bin/sh
# SPDX-License-Identifier: MIT
# Refuses a helper that is not static or is over 6 MB.
set -eu
size=$(stat -c %s "$1")
if readelf -lW "$1" | grep -q INTERP || readelf -dW "$1" | grep -q NEEDED; then
	echo "$1 is dynamically linked; it must run in an empty image" >&2
	exit 1
fi
if [ "$size" -gt 6000000 ]; then
	echo "$1 is $size bytes; at most 6000000 are allowed" >&2
	exit 1
fi
