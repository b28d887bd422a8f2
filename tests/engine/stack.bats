#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Stopping and starting a stack (CASES S1, S3, S9, S10).

load lib

# db is healthy some seconds after each start; web and idle need it or not.
three_services() { # SECONDS
	stack <<-END
	services:
	  db:
	    image: snapctl-test/base
	    labels: &mine {io.snapctl.test: "$TEST_RUN"}
	    command:
	      - sh
	      - -c
	      - |
	        trap 'exit 0' TERM
	        rm -f /tmp/up
	        sleep $1 & wait \$\$!
	        touch /tmp/up
	        sleep 1000000 & wait \$\$!
	    volumes: ["data:/data"]
	    healthcheck:
	      test: ["CMD", "test", "-f", "/tmp/up"]
	      interval: 1s
	      timeout: 5s
	      retries: 30
	  web:
	    image: snapctl-test/base
	    labels: *mine
	    command: ["sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]
	    depends_on:
	      db: {condition: service_healthy}
	  idle:
	    image: snapctl-test/base
	    labels: *mine
	    command: ["sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]
	    volumes: ["other:/other"]
	volumes:
	  data: {labels: *mine}
	  other: {labels: *mine}
	END
}

position() { # LINE: of the first such line in the recorded events
	grep -n -m 1 -xF "$1" "$BATS_TEST_TMPDIR/order" | cut -d : -f 1 |
		grep . || fail "no event: $1" "$(cat "$BATS_TEST_TMPDIR/order")"
}

before() { # LINE LINE
	[ "$(position "$1")" -lt "$(position "$2")" ] ||
		fail "not in this order: $1, $2" "$(cat "$BATS_TEST_TMPDIR/order")"
}

@test "S1 dependents stop first; what they need is healthy before they start" {
	three_services 8
	echo kept >"$(volume_path "${PROJECT}_data")/file"
	record_events
	snap_ok create "$PROJECT"
	events >"$BATS_TEST_TMPDIR/order"
	before "die web" "die db"
	before "die db" "start db"
	before "start db" "health_status: healthy db"
	before "health_status: healthy db" "start web"
	same db "running healthy" \
		"$(state_of db '{{.State.Status}} {{.State.Health.Status}}')"
	same web running "$(state_of web)"
	same idle running "$(state_of idle)"
	snap_ok list "$PROJECT" --json
	jq -e '.snapshots | length == 1 and .[0].clean' <<<"$output"
}

@test "S1 restore stops and starts in the same order" {
	three_services 2
	echo kept >"$(volume_path "${PROJECT}_data")/file"
	snap_ok create "$PROJECT"
	echo changed >"$(volume_path "${PROJECT}_data")/file"
	record_events
	snap_ok restore "$PROJECT"
	events >"$BATS_TEST_TMPDIR/order"
	before "die web" "die db"
	before "health_status: healthy db" "start web"
	same content kept "$(cat "$(volume_path "${PROJECT}_data")/file")"
	same web running "$(state_of web)"
}

@test "S3 what had exited stays so" {
	three_services 0
	dk stop -t 1 "$(container_of idle)"
	finished=$(state_of idle '{{.State.FinishedAt}}')
	record_events
	snap_ok create "$PROJECT"
	events >"$BATS_TEST_TMPDIR/order"
	same idle exited "$(state_of idle)"
	same finished "$finished" "$(state_of idle '{{.State.FinishedAt}}')"
	none grep -x 'start idle' "$BATS_TEST_TMPDIR/order"
	same db running "$(state_of db)"
	same web running "$(state_of web)"
}

@test "S3 a paused one is paused again" {
	three_services 0
	dk pause "$(container_of idle)"
	snap_ok create "$PROJECT"
	same idle paused "$(state_of idle)"
	dk unpause "$(container_of idle)"
}

@test "S9 --dry-run says what would be stopped and changes nothing" {
	local objects started
	three_services 0
	objects=$(objects)
	started=$(state_of db '{{.State.StartedAt}}')
	record_events
	snap_ok create "$PROJECT" --dry-run
	says '(^|[^a-z])db([^a-z]|$)'
	says "web"
	says "${PROJECT}_data"
	events >"$BATS_TEST_TMPDIR/order"
	none grep -v -E '^(exec_|health_status)' "$BATS_TEST_TMPDIR/order"
	same objects "$objects" "$(objects)"
	same started "$started" "$(state_of db '{{.State.StartedAt}}')"
	[ ! -e "$SNAPCTL_REPO/index.json" ] ||
		same snapshots "" "$(snapshot_ids)"
}

@test "S10 the helper's image is loaded from the binary, before any stop" {
	local ids
	three_services 0
	ids=$(dk image ls -q -f label=io.snapctl.helper)
	# shellcheck disable=SC2086 # a list
	[ -z "$ids" ] || dk image rm -f $ids
	record_events
	snap_ok create "$PROJECT"
	dk events --since "$EVENTS_SINCE" --until "$(date +%s.%N)" \
		--format '{{.Type}} {{.Action}} {{index .Actor.Attributes "com.docker.compose.service"}}' \
		>"$BATS_TEST_TMPDIR/order"
	none grep '^image pull' "$BATS_TEST_TMPDIR/order"
	before "image load " "container die web"
	before "image load " "container die db"
	ids=$(dk image ls -q -f label=io.snapctl.helper)
	[ -n "$ids" ]
	# a second run finds it there
	record_events
	snap_ok create "$PROJECT"
	same "image events" "" "$(dk events --since "$EVENTS_SINCE" \
		--until "$(date +%s.%N)" -f type=image -f event=load)"
}

@test "a stack that is down can be snapshotted and rolled back" {
	three_services 0
	echo kept >"$(volume_path "${PROJECT}_data")/file"
	compose down
	snap_ok create "$PROJECT"
	echo lost >"$(volume_path "${PROJECT}_data")/file"
	snap_ok restore "$PROJECT"
	same content kept "$(cat "$(volume_path "${PROJECT}_data")/file")"
	same containers "" "$(container_of db)"
}

@test "INT while it works: the stack is up again, the helper gone" {
	local pid rc=0
	three_services 0
	head -c 600M /dev/urandom >"$(volume_path "${PROJECT}_data")/large"
	record_events
	# a background job of a script ignores INT unless told otherwise
	env --default-signal=INT "$SNAPCTL" create "$PROJECT" \
		>"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	pid=$!
	# the moment both are down
	grep -q -m 1 -x db < <(timeout 60 "$DOCKER" events --since "$EVENTS_SINCE" -f type=container \
		-f event=die --format \
		'{{index .Actor.Attributes "com.docker.compose.service"}}' 3>&-)
	kill -INT "$pid"
	wait "$pid" || rc=$?
	cat "$BATS_TEST_TMPDIR/out"
	same exit 130 "$rc"
	same db running "$(state_of db)"
	same web running "$(state_of web)"
	same idle running "$(state_of idle)"
	same helpers "" "$(dk ps -aq -f label=io.snapctl.helper)"
	[ ! -e "$SNAPCTL_REPO/index.json" ] || same listed "" "$(snapshot_ids)"
}
