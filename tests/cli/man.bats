#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# snapctl(1) against --help: the same synopsis, commands and options.

load common

setup()
{
	snapctl_setup
	MAN=$BATS_TEST_DIRNAME/../../cmd/snapctl/man/snapctl.1
}

# Options as --help prints them, "-p, --project NAME", of one part of it.
# $1: the title of the part; the help text on stdin.
help_options()
{
	awk -v title="$1:" '
		/^[^ ]/ { on = $0 == title; next }
		on && match($0, /^  (-., |    )--[a-z-]+( [A-Z]+)?/) {
			s = substr($0, 1, RLENGTH)
			sub(/^ +/, "", s)
			print s
		}' | sort
}

# The same from the man page's section or subsection $1.
man_options()
{
	awk -v title="$1" '
		/^\.S[hs] / { on = substr($0, 5) == title; next }
		on && /^\.It Fl / {
			s = $0
			sub(/^\.It /, "", s)
			sub(/ , /, ", ", s)
			gsub(/Fl /, "-", s)
			sub(/Ar /, "", s)
			print s
		}' "$MAN" | sort
}

@test "every command has its section, in the same order" {
	equal "$(commands)" "$(awk '
		/^\.Sh / { on = $0 == ".Sh COMMANDS" }
		on && /^\.Ss / { print $2 }' "$MAN")"
}

@test "every option of a command stands in its section, and no other" {
	for c in $(commands); do
		want=$("$SNAPCTL" "$c" --help | help_options Options)
		equal "$c: $want" "$c: $(man_options "$c")"
	done
	# The comparison did compare something.
	[[ $(man_options create) == *"-m, --message NOTE"* ]]
}

@test "the global options are those of --help" {
	want=$("$SNAPCTL" --help | help_options 'Global options')
	equal "$want" "$(man_options 'GLOBAL OPTIONS')"
	[[ $want == *"-H, --host URL"* ]]
}

@test "the synopsis is that of --help" {
	want=$(for c in '' $(commands); do
		"$SNAPCTL" ${c:+"$c"} --help | sed -n '1s/^Usage: //p'
	done)
	equal "$want" "$(awk '
		/^\.Sh / { on = $0 == ".Sh SYNOPSIS"; next }
		on && $1 == ".Nm" { printf "%ssnapctl", n++ ? "\n" : "" }
		on && $1 == ".Op" { printf " [%s]", $3 }
		on && ($1 == ".Cm" || $1 == ".Ar") { printf " %s", $2 }
		END { print "" }' "$MAN")"
}

@test "every exit status is explained" {
	equal '0 1 2 3 4 5 130' "$(awk '
		/^\.Sh / { on = $0 == ".Sh EXIT STATUS" }
		on && $1 == ".It" { printf "%s%s", n++ ? " " : "", $2 }' "$MAN")"
}

@test "the JSON examples of snapctl-json(5) are JSON" {
	page=${MAN%snapctl.1}snapctl-json.5
	n=0
	while IFS= read -r -d '' doc; do
		printf '%s' "$doc" | jq -e 'type == "object"'
		n=$((n + 1))
	done < <(awk '
		/^\.Bd/ { on = 1; next }
		/^\.Ed/ { on = 0; printf "%c", 0; next }
		on' "$page")
	equal 9 "$n"
}

@test "mandoc finds nothing wrong with the pages" {
	mandoc -T lint -W warning "${MAN%snapctl.1}"*
}
