#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The command line without an engine: usage, help, completion, version.
# shellcheck disable=SC2154 # $out and $err are set by snapctl()

load common

setup()
{
	snapctl_setup
}

# usage MESSAGE HINT ARGUMENT...: exit 2, these two lines, nothing on stdout.
usage()
{
	local message=$1 hint=$2

	shift 2
	snapctl "$@"
	equal 2 "$status"
	equal '' "$out"
	equal "error: $message
snapctl: usage: $hint" "$err"
}

create='snapctl create [OPTION...] [STACK]; see snapctl create --help'
program='snapctl [OPTION...] COMMAND [ARGUMENT...]; see snapctl --help'

@test "no command" {
	usage 'a command is missing' "$program"
}

@test "unknown command, with the near one" {
	usage 'unknown command crate (did you mean create?)' "$program" crate
	usage 'unknown command frobnicate' "$program" frobnicate
}

@test "unknown option, with the near one" {
	usage 'unknown option --ful (did you mean full?)' "$create" \
		create --ful
	usage 'unknown option -x' "$create" create -x
}

@test "option of another command" {
	usage 'create has no option --deep' "$create" create --deep
	usage 'create has no option --deep' "$create" --deep create
}

@test "stray argument" {
	usage 'stray argument b' "$create" create a b
}

@test "empty argument, as from an unset variable" {
	usage 'an argument is empty' "$create" create ''
	usage '--volume: NAME is empty' "$create" create --volume ''
}

@test "missing argument" {
	usage 'show: SNAPSHOT is missing' \
		'snapctl show [OPTION...] SNAPSHOT; see snapctl show --help' show
	usage '--volume: NAME is missing' "$create" create --volume
}

@test "bad number, size, choice" {
	usage '--level 20: a number from 1 to 19 is wanted' "$create" \
		create --level 20
	usage '--level three: a number from 1 to 19 is wanted' "$create" \
		create --level=three
	usage '--max-pack-size 4GB: a size from 8.00 MiB to 1.00 TiB is wanted, like 512M or 4G' \
		"$create" create --max-pack-size 4GB
	usage '--transport bus: one of socket|attach is wanted' "$create" \
		create --transport bus
}

@test "control characters in an argument do not reach the terminal" {
	usage 'stray argument a\n\x1b[2J' "$create" create a $'a\n\e[2J'
}

@test "--help goes to stdout and exits 0, also amid other arguments" {
	snapctl --help
	equal 0 "$status"
	equal '' "$err"
	[ "${out%%$'\n'*}" = 'Usage: snapctl [OPTION...] COMMAND [ARGUMENT...]' ]
	for c in $(commands); do
		snapctl "$c" --help
		equal 0 "$status"
		equal '' "$err"
		[[ $out == "Usage: snapctl $c [OPTION...]"* ]]
	done
	snapctl -h show --full
	equal 0 "$status"
}

@test "no line of help is longer than 80 columns" {
	for c in '' $(commands); do
		snapctl ${c:+"$c"} --help
		equal '' "$(printf '%s\n' "$out" | grep -E '^.{80}' || true)"
	done
}

@test "global options stand before and after the command" {
	snapctl version
	equal 0 "$status"
	plain=$out
	snapctl -q --wait 3 version --repo /nowhere --progress none
	equal 0 "$status"
	equal "$plain" "$out"
}

@test "version prints its own and the libraries' versions" {
	snapctl --version
	equal 0 "$status"
	one=$out
	snapctl version
	equal "$one" "${out%%$'\n'*}"
	[[ $out =~ library\ zstd\ [0-9]+\.[0-9]+\.[0-9]+ ]]
	snapctl version --json
	equal "$one" "snapctl $(printf '%s' "$out" | jq -r .version)"
	equal '["libarchive","libcurl","jansson","libyaml","openssl","zstd"]' \
		"$(printf '%s' "$out" | jq -c '.libraries | keys_unsorted')"
	equal 1 "$(printf '%s' "$out" | jq .formats.index)"
}

@test "a full disk under stdout is an error" {
	status=0
	err=$("$SNAPCTL" version 2>&1 >/dev/full) || status=$?
	equal 1 "$status"
	equal 'error: write standard output: No space left on device' "$err"
}

@test "standard descriptors may be closed" {
	status=0
	"$SNAPCTL" version <&- >/dev/null 2>&- || status=$?
	equal 0 "$status"
}

@test "completion scripts parse and know every command and option" {
	for shell in bash zsh fish; do
		snapctl completion $shell
		equal 0 "$status"
		for c in $(commands); do
			[[ $out == *"$c"* ]]
		done
	done
	"$SNAPCTL" completion bash | bash -n
}

# complete WORD...: what bash offers for the last one.
complete_words()
{
	bash -c 'compopt() { :; }
		source <("$0" completion bash)
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_snapctl
		echo "${COMPREPLY[@]}"' "$SNAPCTL" "$@"
}

@test "bash completion offers commands, options and values" {
	equal 'create' "$(complete_words snapctl cr)"
	equal 'restore' "$(complete_words snapctl --repo /x re)"
	equal 'verify version' "$(complete_words snapctl --repo = /x ver)"
	equal 'socket attach' "$(complete_words snapctl create --transport '')"
	equal 'socket' "$(complete_words snapctl create --transport = so)"
	equal '--project --progress' "$(complete_words snapctl list --p)"
	equal '--deep' "$(complete_words snapctl -p create verify --d)"
}

@test "bash completion offers exactly the options of --help" {
	for c in $(commands); do
		equal "$("$SNAPCTL" "$c" --help | grep -oE '^ {2}(-., | {4})--[a-z-]+' |
			grep -oE '\-\-[a-z-]+' | sort)" \
			"$(complete_words snapctl "$c" -- | tr ' ' '\n' | sort)"
	done
}
