# SPDX-License-Identifier: MIT
# snapctl. `make help` lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
OPT     ?= -O2 -g
SAN     ?=
VERSION := 0.1.0
MAKEFLAGS += --no-builtin-rules
# `make V=1` shows every command whole.
Q := $(if $(V),,@)
say = $(if $(V),,@printf "  %-5s %s\n" $(1) $(2))

PKG_CONFIG ?= pkg-config
HOST_PKGS  := libarchive libzstd libcrypto libcurl jansson yaml-0.1
WARN       := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wvla \
              -Wmissing-prototypes -Wpointer-arith -Wformat=2
CPPFLAGS   += -Iinclude -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
              -DSNAPCTL_VERSION='"$(VERSION)"'
C_FLAGS     = -std=gnu11 $(OPT) $(WARN) -fstack-protector-strong -pthread \
              -ffunction-sections -fdata-sections -MMD -MP $(SAN) $(CFLAGS)
LD_FLAGS    = -pthread -Wl,--gc-sections $(SAN) $(LDFLAGS)
HOST_LIBS   = $(shell $(PKG_CONFIG) --libs $(HOST_PKGS))
# Only what the pax writer needs of libarchive's long list.
HELPER_LIBS := -larchive -lacl -lzstd -lcrypto

# A module links its own archive and those below it: an arrow that points up
# does not link.
below_base    := base
below_ui      := ui base
below_docker  := docker base
below_scan    := scan base
below_archive := archive scan base
below_restore := restore archive scan base
below_repo    := repo archive scan base
below_stack   := stack docker base
below_helper  := helper docker repo restore archive scan base
below_snapctl := stack helper repo restore archive scan docker ui base
below_fuzz    := stack helper repo restore archive scan docker base
FOLDERS := base ui docker scan archive restore repo stack helper

obj  = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
libs = $(foreach f,$(below_$(1)),$(BUILD)/lib/$(f).a)

HOST_OBJ   := $(call obj,$(wildcard cmd/snapctl/*.c))
HELPER_OBJ := $(call obj,$(wildcard cmd/snapctl-helper/*.c) src/helper/frames.c)
UNIT_SRC   := $(wildcard tests/unit/*/test_*.c)
UNIT_BIN   := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/unit/%)

.PHONY: all help
all: $(BUILD)/snapctl ## build snapctl and its helper

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-14s %s\n",$$1,$$2}' Makefile

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(C_FLAGS) -c $< -o $@

define folder_rule
$(BUILD)/lib/$(1).a: $(call obj,$(wildcard src/$(1)/*.c))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR,$$@)
	$$(Q)ar rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_rule,$(f))))

# The helper: static, small, and refused otherwise.
$(BUILD)/snapctl-helper: $(HELPER_OBJ) $(call libs,restore)
	$(call say,LD,$@)
	$(Q)$(CC) -static $(LD_FLAGS) -o $@.full $^ $(HELPER_LIBS)
	strip -o $@.tmp $@.full
	docker/check-helper.sh $@.tmp
	mv $@.tmp $@

$(BUILD)/obj/helper-blob.o: docker/helper-blob.S $(BUILD)/snapctl-helper
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -DHELPER='"$(BUILD)/snapctl-helper"' -c $< -o $@

$(BUILD)/snapctl: $(HOST_OBJ) $(BUILD)/obj/helper-blob.o $(call libs,snapctl)
	$(call say,LD,$@)
	$(Q)$(CC) $(LD_FLAGS) -o $@ $^ $(HOST_LIBS)

# -- tests --------------------------------------------------------------------
define unit_rule
$(BUILD)/tests/unit/$(1)/%: tests/unit/$(1)/%.c $(call libs,$(1))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(CPPFLAGS) -Itests/unit $$(C_FLAGS) $$(LD_FLAGS) -o $$@ $$< $(call libs,$(1)) $$(HOST_LIBS) -lcmocka
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_rule,$(f))))

# The helper as its tests run it: not static, so that sanitizers work.
$(BUILD)/tests/tools/snapctl-helper: $(HELPER_OBJ) $(call libs,restore)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LD_FLAGS) -o $@ $^ $(HOST_LIBS)

$(BUILD)/tests/unit/helper/test_serve: $(BUILD)/tests/tools/snapctl-helper

.PHONY: unit-bins check-unit clean
unit-bins: $(UNIT_BIN)

check-unit: unit-bins ## run the module tests
	tests/run-unit.sh $(UNIT_BIN)

# Fuzz targets. What `make fuzz` finds becomes a file in their corpus, which
# check-fuzz runs through them.
FUZZ      := $(filter-out run,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
FUZZ_MAIN ?= tests/fuzz/run.c
FUZZ_LINK ?=
FUZZ_TIME ?= 60

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(FUZZ_MAIN) $(call libs,fuzz)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS) $(C_FLAGS) $(LD_FLAGS) $(FUZZ_LINK) -o $@ \
		$< $(FUZZ_MAIN) $(call libs,fuzz) $(HOST_LIBS)

.PHONY: fuzz-bins check-fuzz fuzz
fuzz-bins: $(FUZZ:%=$(BUILD)/tests/fuzz/%)

check-fuzz: fuzz-bins ## run the fuzz targets on their corpora
	@for t in $(FUZZ); do \
		$(BUILD)/tests/fuzz/$$t tests/fuzz/corpus/$$t || exit 1; done

fuzz: ## let clang's fuzzer run on each target for FUZZ_TIME seconds
	docker/deps.sh lint
	$(MAKE) -j$(JOBS) CC=clang BUILD=$(BUILD)/fuzz FUZZ_MAIN= FUZZ_LINK=-fsanitize=fuzzer \
		SAN='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' fuzz-bins
	for t in $(FUZZ); do mkdir -p $(BUILD)/fuzz/found/$$t && \
		$(BUILD)/fuzz/tests/fuzz/$$t -max_total_time=$(FUZZ_TIME) -rss_limit_mb=3000 \
		-print_final_stats=1 -artifact_prefix=$(BUILD)/fuzz/$$t- \
		$(BUILD)/fuzz/found/$$t tests/fuzz/corpus/$$t || exit 1; done

# Tools of the engine tests and programs of the benchmark.
$(BUILD)/tests/tools/%: tests/tools/%.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS) $(C_FLAGS) $(LD_FLAGS) -o $@ $< -lcrypto

$(BUILD)/tests/bench/%: tests/bench/%.c $(call libs,archive)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS) $(C_FLAGS) $(LD_FLAGS) -o $@ $< $(call libs,archive) $(HOST_LIBS)

JOBS := $(shell nproc)
C_SRC := $(wildcard src/*/*.[ch] cmd/*/*.[ch] tests/*/*.[ch] tests/unit/*/*.[ch] \
         include/snapctl/*/*.h)
SH_SRC := $(wildcard .ci/run docker/*.sh tests/*.sh tests/*/*.sh tests/*/*.bash \
          tests/*/*.bats)

.PHONY: check check-engine asan tsan bench demo format lint install uninstall
check: ## install what is missing, build, run every test
	docker/deps.sh build test
	$(MAKE) -j$(JOBS) all unit-bins
	$(MAKE) -k check-unit check-fuzz asan tsan check-engine

check-engine: all $(BUILD)/tests/tools/treesum $(BUILD)/tests/unit/repo/test_manifest ## test the program, on a private engine
	tests/run-engine.sh

# With a sanitizer gcc sees ranges and paths that are not there.
SAN_QUIET := -Wno-error=format-truncation -Wno-error=maybe-uninitialized
asan: ## run the module tests under ASan and UBSan
	$(MAKE) -j$(JOBS) BUILD=$(BUILD)/asan CFLAGS='$(SAN_QUIET)' \
		SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' \
		check-unit check-fuzz

# The modules that use threads.
TSAN_DIRS := base ui scan archive repo restore helper
tsan: ## run the module tests of what uses threads under TSan
	$(MAKE) -j$(JOBS) BUILD=$(BUILD)/tsan CFLAGS='$(SAN_QUIET)' SAN=-fsanitize=thread \
		UNIT_SRC='$(wildcard $(TSAN_DIRS:%=tests/unit/%/test_*.c))' check-unit

demo: ## snapshot, wreck and roll back a real database
	docker/deps.sh demo
	$(MAKE) -j$(JOBS) all
	docker/demo.sh $(BUILD)/snapctl

bench: ## compare with tar and zstd, restic, borg
	docker/deps.sh bench
	$(MAKE) -j$(JOBS) all $(BUILD)/tests/bench/walk
	tests/bench/run.sh

format: ## format the sources
	docker/deps.sh lint
	clang-format -i $(C_SRC)

lint: ## clang-format, clang-tidy, shellcheck, clang's warnings
	docker/deps.sh build test lint
	clang-format --dry-run --Werror $(C_SRC)
	shellcheck -x $(SH_SRC)
	$(MAKE) -j$(JOBS) CC=clang BUILD=$(BUILD)/clang all unit-bins
	printf '%s\n' $(filter %.c,$(C_SRC)) | xargs -P $(JOBS) -n 1 \
		sh -c 'clang-tidy --quiet "$$@" -- -std=gnu11 $(subst ',,$(CPPFLAGS)) -Itests/unit' sh

BASHDIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
MANDIR  = $(DESTDIR)$(PREFIX)/share/man
MAN     = $(notdir $(wildcard cmd/snapctl/man/*.[1-8]))

install: all ## install beneath DESTDIR and PREFIX (/usr/local)
	install -D -m 755 $(BUILD)/snapctl $(DESTDIR)$(PREFIX)/bin/snapctl
	for m in $(MAN); do install -D -m 644 "cmd/snapctl/man/$$m" \
		"$(MANDIR)/man$${m##*.}/$$m" || exit 1; done
	$(BUILD)/snapctl completion bash >$(BUILD)/completion.bash
	$(BUILD)/snapctl completion zsh >$(BUILD)/completion.zsh
	$(BUILD)/snapctl completion fish >$(BUILD)/completion.fish
	install -D -m 644 $(BUILD)/completion.bash $(BASHDIR)/snapctl
	install -D -m 644 $(BUILD)/completion.zsh $(ZSHDIR)/_snapctl
	install -D -m 644 $(BUILD)/completion.fish $(FISHDIR)/snapctl.fish

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/snapctl $(BASHDIR)/snapctl \
		$(ZSHDIR)/_snapctl $(FISHDIR)/snapctl.fish
	for m in $(MAN); do rm -f "$(MANDIR)/man$${m##*.}/$$m"; done

clean: ## remove the build directory
	rm -rf $(BUILD)

-include $(shell [ -d $(BUILD) ] && find $(BUILD) -name '*.d')
