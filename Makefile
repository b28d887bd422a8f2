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
	$(CC) $(CPPFLAGS) $(C_FLAGS) -c $< -o $@

define folder_rule
$(BUILD)/lib/$(1).a: $(call obj,$(wildcard src/$(1)/*.c))
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_rule,$(f))))

# The helper: static, small, and refused otherwise.
$(BUILD)/snapctl-helper: $(HELPER_OBJ) $(call libs,restore)
	$(CC) -static $(LD_FLAGS) -o $@.full $^ $(HELPER_LIBS)
	strip -o $@.tmp $@.full
	docker/check-helper.sh $@.tmp
	mv $@.tmp $@

$(BUILD)/obj/helper-blob.o: docker/helper-blob.S $(BUILD)/snapctl-helper
	@mkdir -p $(@D)
	$(CC) -DHELPER='"$(BUILD)/snapctl-helper"' -c $< -o $@

$(BUILD)/snapctl: $(HOST_OBJ) $(BUILD)/obj/helper-blob.o $(call libs,snapctl)
	$(CC) $(LD_FLAGS) -o $@ $^ $(HOST_LIBS)

# -- tests --------------------------------------------------------------------
define unit_rule
$(BUILD)/tests/unit/$(1)/%: tests/unit/$(1)/%.c $(call libs,$(1))
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) -Itests/unit $$(C_FLAGS) $$(LD_FLAGS) -o $$@ $$< $(call libs,$(1)) $$(HOST_LIBS) -lcmocka
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_rule,$(f))))

.PHONY: unit-bins check-unit clean
unit-bins: $(UNIT_BIN)

check-unit: unit-bins ## run the module tests
	tests/run-unit.sh $(UNIT_BIN)

clean: ## remove the build directory
	rm -rf $(BUILD)

-include $(shell [ -d $(BUILD) ] && find $(BUILD) -name '*.d')
