/* SPDX-License-Identifier: MIT */
/* The tables. Texts end without a full stop and avoid quotes: they are also
 * printed into shell scripts. */
#include "cli.h"
#include "commands.h"

#define MIB ((uint64_t)1 << 20)
#define DAY 86400ull

#define TAKE	(CMD(CREATE) | CMD(RESTORE))
#define RESULTS (CMD_ALL & ~CMD(COMPLETION))

const struct cli_option cli_options[OPT_COUNT] = {
	[OPT_PROJECT] = {
		"project", 'p', KIND_NAME, "NAME", .commands = TAKE | CMD(LIST),
		.help = "the compose project; with --volume the name of the stack",
	},
	[OPT_VOLUME] = {
		"volume", 0, KIND_LIST, "NAME", .commands = TAKE,
		.help = "only this volume; may be repeated",
	},
	[OPT_EXCLUDE_VOLUME] = {
		"exclude-volume", 0, KIND_LIST, "NAME", .commands = CMD(CREATE),
		.help = "all volumes but this one; may be repeated",
	},
	[OPT_BIND] = {
		"bind", 0, KIND_LIST, "PATH", .commands = CMD(CREATE),
		.help = "also the bind mount of this host path; may be repeated",
	},
	[OPT_TAG] = {
		"tag", 0, KIND_LIST, "TAG", .commands = CMD(CREATE),
		.help = "a word kept with the snapshot; may be repeated",
	},
	[OPT_MESSAGE] = {
		"message", 'm', KIND_TEXT, "NOTE", .commands = CMD(CREATE),
		.help = "a note kept with the snapshot and shown by list",
	},
	[OPT_FULL] = {
		"full", 0, KIND_FLAG, .commands = CMD(CREATE),
		.help = "store every file again, as one plain archive per volume",
	},
	[OPT_NO_STOP] = {
		"no-stop", 0, KIND_FLAG, .commands = CMD(CREATE),
		.help = "read while the stack runs; the snapshot is not clean",
	},
	[OPT_NO_START] = {
		"no-start", 0, KIND_FLAG, .commands = CMD(RESTORE),
		.help = "leave the stack stopped afterwards",
	},
	[OPT_NO_SAFETY] = {
		"no-safety", 0, KIND_FLAG, .commands = CMD(RESTORE),
		.help = "take no pre-restore snapshot: there is no way back",
	},
	[OPT_ALLOW_INCOMPLETE] = {
		"allow-incomplete", 0, KIND_FLAG, .commands = CMD(CREATE),
		.help = "record what cannot be read instead of failing",
	},
	[OPT_LEVEL] = {
		"level", 0, KIND_NUMBER, "N", .min = 1, .max = 19,
		.commands = CMD(CREATE),
		.help = "zstd level, 1 to 19 (default 3)",
	},
	[OPT_THREADS] = {
		"threads", 0, KIND_NUMBER, "N", .min = 1, .max = 256,
		.commands = TAKE,
		.help = "threads of the helper (default: the cores of the engine)",
	},
	[OPT_MAX_PACK_SIZE] = {
		"max-pack-size", 0, KIND_SIZE, "SIZE", .min = 8 * MIB,
		.max = MIB * MIB, .commands = CMD(CREATE),
		.help = "start another pack above this size, like 512M (default 4G)",
	},
	[OPT_STOP_TIMEOUT] = {
		"stop-timeout", 0, KIND_NUMBER, "SECONDS", .max = DAY,
		.commands = TAKE,
		.help = "wait so long before a container is killed (default: its own)",
	},
	[OPT_HEALTH_TIMEOUT] = {
		"health-timeout", 0, KIND_NUMBER, "SECONDS", .max = DAY,
		.commands = TAKE,
		.help = "wait so long for a container to be healthy (default: from its check)",
	},
	[OPT_TRANSPORT] = {
		"transport", 0, KIND_CHOICE, "HOW", .choices = "socket|attach",
		.commands = TAKE,
		.help = "reach the helper only by socket or by attach (default: what works)",
	},
	[OPT_ALLOW_RM] = {
		"allow-rm", 0, KIND_FLAG, .commands = TAKE,
		.help = "also stop containers that vanish when stopped (--rm)",
	},
	[OPT_IGNORE_SHARING] = {
		"ignore-sharing", 0, KIND_FLAG, .commands = TAKE,
		.help = "go on although a container outside the stack writes to a volume",
	},
	[OPT_STOP_SHARING] = {
		"stop-sharing", 0, KIND_FLAG, .commands = TAKE,
		.help = "also stop, and start, such containers",
	},
	[OPT_STOP_ONEOFF] = {
		"stop-oneoff", 0, KIND_FLAG, .commands = TAKE,
		.help = "also stop one-off containers (compose run); they stay stopped",
	},
	[OPT_CAP_SYS_ADMIN] = {
		"cap-sys-admin", 0, KIND_FLAG, .commands = CMD(CREATE),
		.help = "give the helper CAP_SYS_ADMIN, to see trusted.* attributes",
	},
	[OPT_DEEP] = {
		"deep", 0, KIND_FLAG, .commands = CMD(VERIFY),
		.help = "also unpack every chunk and compare its hash",
	},
	[OPT_DRY_RUN] = {
		"dry-run", 0, KIND_FLAG, .commands = TAKE,
		.help = "say what would be done; stop, start and write nothing",
	},
	[OPT_JSON] = {
		"json", 0, KIND_FLAG, .commands = RESULTS,
		.help = "print the result as JSON, see snapctl-json(5)",
	},
	[OPT_REPO] = {
		"repo", 0, KIND_DIR, "DIR", .commands = CMD_ALL,
		.help = "the repository (SNAPCTL_REPO; default /var/lib/snapctl for "
			"root, else ~/.local/state/snapctl)",
	},
	[OPT_HOST] = {
		"host", 'H', KIND_NAME, "URL", .commands = CMD_ALL,
		.help = "the engine, unix:// or tcp:// (DOCKER_HOST)",
	},
	[OPT_WAIT] = {
		"wait", 0, KIND_NUMBER, "SECONDS", .max = 365 * DAY,
		.commands = CMD_ALL,
		.help = "wait so long for a lock that another run holds (default 0)",
	},
	[OPT_PROGRESS] = {
		"progress", 0, KIND_CHOICE, "MODE",
		.choices = "auto|tty|plain|json|none", .commands = CMD_ALL,
		.help = "auto, tty, plain, json or none",
	},
	[OPT_VERBOSE] = {
		"verbose", 'v', KIND_FLAG, .commands = CMD_ALL,
		.help = "say more",
	},
	[OPT_QUIET] = {
		"quiet", 'q', KIND_FLAG, .commands = CMD_ALL,
		.help = "only warnings and errors, no progress",
	},
	[OPT_HELP] = {
		"help", 'h', KIND_FLAG, .commands = CMD_ALL,
		.help = "print this and exit",
	},
	[OPT_VERSION] = {
		"version", 0, KIND_FLAG, .commands = CMD_ALL,
		.help = "print the version and exit",
	},
};

const struct cli_command cli_commands[CMD_COUNT] = {
	[CMD_CREATE] = {
		.name = "create", .words = "[STACK]", .max_words = 1,
		.needs = NEED_REPO, .run = cmd_create,
		.summary = "take a snapshot of a stack",
		.about = "Stops the containers that write to the volumes, reads the "
			 "volumes, starts the containers again and stores a snapshot. "
			 "STACK is a compose project; without it COMPOSE_PROJECT_NAME "
			 "or the project of the current directory is taken. With "
			 "--volume and no project, the volumes need not belong to one.",
	},
	[CMD_RESTORE] = {
		.name = "restore", .words = "[STACK] [SNAPSHOT]", .max_words = 2,
		.needs = NEED_REPO, .run = cmd_restore,
		.summary = "roll a stack back to a snapshot",
		.about = "Stages what differs while the stack runs, stops it, takes a "
			 "pre-restore snapshot, puts the old state in place and starts "
			 "the stack. SNAPSHOT is an id, a unique beginning of one, or "
			 "latest, which is the default. Nothing is changed unless all "
			 "of the snapshot is there and undamaged.",
	},
	[CMD_LIST] = {
		.name = "list", .words = "[STACK]", .max_words = 1,
		.needs = NEED_REPO, .run = cmd_list,
		.summary = "list snapshots",
		.about = "Lists the snapshots of a stack, or all, newest first. Damaged "
			 "ones are shown as such.",
	},
	[CMD_SHOW] = {
		.name = "show", .words = "SNAPSHOT", .min_words = 1, .max_words = 1,
		.needs = NEED_REPO, .run = cmd_show,
		.summary = "show one snapshot whole",
		.about = "Shows what was taken of each volume, from which containers "
			 "and images, and what was noted on the way.",
	},
	[CMD_VERIFY] = {
		.name = "verify", .words = "[SNAPSHOT...]", .max_words = SIZE_MAX,
		.needs = NEED_REPO, .run = cmd_verify,
		.summary = "check stored snapshots for damage",
		.about = "Reads every blob of the snapshots, or of the whole "
			 "repository, and compares its digest. Damage is named, with the "
			 "snapshots it touches; the exit status is then 1.",
	},
	[CMD_COMPLETION] = {
		.name = "completion", .words = "SHELL", .min_words = 1,
		.max_words = 1, .choices = "bash|zsh|fish", .run = cmd_completion,
		.summary = "print a completion script",
		.about = "Prints a script for bash, zsh or fish.",
	},
	[CMD_VERSION] = {
		.name = "version", .words = "", .run = cmd_version,
		.summary = "print versions of snapctl, its formats and libraries",
		.about = "Prints the versions of snapctl, of the formats it writes and "
			 "of the libraries it runs with.",
	},
};
