# Tributary: one dependency graph for the whole tree. Each folder adds its
# libraries, programs and tests in its build.mk with the macros below.
#
#   make              build everything into build/
#   make check        install what is needed, then every test
#   make demo         a volume larger than any node, on three hosts of this machine
#   make help         the other targets

VERSION   := 0.1.0
BUILD     ?= build
CC        ?= gcc
AR        ?= ar
PREFIX    ?= /usr/local
SBINDIR   ?= $(PREFIX)/sbin
LIBEXECDIR?= $(PREFIX)/libexec/tributary
MANDIR    ?= $(PREFIX)/share/man
SYSCONFDIR?= /etc
UNITDIR   ?= $(PREFIX)/lib/systemd/system
UDEVDIR   ?= $(PREFIX)/lib/udev/rules.d
COMPDIR   ?= $(PREFIX)/share/bash-completion/completions
DESTDIR   ?=
PKGCONFIG ?= pkg-config

# SAN=asan or SAN=tsan builds into a folder of its own.
SAN       ?=
SAN_FLAGS_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_FLAGS_tsan := -fsanitize=thread
OUT       := $(BUILD)$(if $(SAN),/$(SAN))

WERROR    ?=
# What only tests run is linked in a third of the time.
QUICK_LD  := -fuse-ld=lld
# A sanitizer needs lines for its reports, and compiles in half the time so.
OPT       ?= $(if $(SAN),-O1,-O2)
DEBUG     ?= $(if $(SAN),-g1,-g)
CFLAGS    ?= $(OPT) $(DEBUG)
# A test runs once for each time that it is compiled. (The warning guesses sizes by -O2.)
%_test.o: private OPT = -O0 -Wno-format-truncation
WARN      := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes \
             -Wstrict-prototypes -Wformat=2 -Wundef $(WERROR) \
             $(if $(SAN),-Wno-format-truncation) # which guesses sizes by -O2
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) $(SAN_FLAGS_$(SAN)) \
             -fno-omit-frame-pointer -fstack-protector-strong \
             -D_GNU_SOURCE -DTRIBUTARY_VERSION='"$(VERSION)"' \
             -DTRIBUTARY_SBINDIR='"$(SBINDIR)"' -I. -I$(OUT)/gen -pthread
ALL_LDFLAGS = $(LDFLAGS) $(SAN_FLAGS_$(SAN)) $(if $(SAN),$(QUICK_LD)) -pthread -Wl,-z,relro,-z,now

V ?= 0
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n'
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

LIBS         :=
PROGRAMS     :=
UNIT_TESTS   :=
TEST_HELPERS :=
SYSTEM_TESTS :=
FUZZERS      :=
FUZZ_OBJS    :=
OBJS         :=
INSTALLS     :=
GENERATED    :=
ALL_PKGS     :=

# The flags of pkg-config packages are asked for when first used, so that
# `make deps` works before the packages are there; and once, as asking takes
# longer than many a file takes to compile.
pkg_cflags = $(if $(1),$(call pkg_ask,--cflags $(1),$(subst $(space),_,pkg --cflags $(1))))
pkg_libs   = $(if $(1),$(call pkg_ask,--libs $(1),$(subst $(space),_,pkg --libs $(1))))
pkg_ask    = $(if $(filter undefined,$(origin $(2))),$(eval $(2) := $$(shell $(PKGCONFIG) $(1))))$($(2))
empty      :=
space      := $(empty) $(empty)

# Every library that the named libraries need, each after its users.
closure    = $(foreach l,$(1),$(l) $(call closure,$($(l)_DEPS)))
lib_files  = $(foreach l,$(call closure,$(1)),$(OUT)/lib/lib$(l).a)
lib_links  = $(lib_files) $(lib_files) \
             $(call pkg_libs,$(sort $(foreach l,$(call closure,$(1)),$($(l)_PKGS)))) \
             $(sort $(foreach l,$(call closure,$(1)),$($(l)_LDLIBS)))

# $(eval $(call library,NAME,SOURCES,PKGS,LIBRARIES IT USES))
define library
LIBS += $(1)
ALL_PKGS += $(3)
$(1)_PKGS := $(3)
$(1)_DEPS := $(4)
$(1)_OBJS := $(patsubst %.c,$(OUT)/obj/%.o,$(2))
OBJS += $$($(1)_OBJS)
$$($(1)_OBJS): private PKG_CFLAGS = $$(call pkg_cflags,$$(sort $$(foreach l,$$(call closure,$(1)),$$($$(l)_PKGS))))
$$($(1)_OBJS): | $$(GENERATED)
$(OUT)/lib/lib$(1).a: $$($(1)_OBJS)
endef

# $(eval $(call program,NAME,SOURCES,LIBRARIES,PKGS))
define program
PROGRAMS += $(1)
$(call executable,$(OUT)/bin/$(1),$(2),$(3),$(4))
endef

# $(eval $(call unit_test,FOLDER/NAME,LIBRARIES,MORE SOURCES)): FOLDER/NAME.c, cmocka
define unit_test
UNIT_TESTS += $(OUT)/test/$(1)
$(call executable,$(OUT)/test/$(1),$(1).c $(3),$(2),cmocka)
endef

# $(eval $(call test_helper,FOLDER/NAME,LIBRARIES,PKGS,MORE SOURCES)): a program
# only tests use
define test_helper
TEST_HELPERS += $(OUT)/test/$(1)
$(call executable,$(OUT)/test/$(1),$(1).c $(4),$(2),$(3))
endef

define executable
ALL_PKGS += $(4)
$(1)_OBJS := $(patsubst %.c,$(OUT)/obj/%.o,$(2))
OBJS += $$($(1)_OBJS)
$$($(1)_OBJS): private PKG_CFLAGS = $$(call pkg_cflags,$(4) $$(sort $$(foreach l,$$(call closure,$(3)),$$($$(l)_PKGS))))
$$($(1)_OBJS): | $$(GENERATED)
$(1): private LINK_LIBS = $$(call lib_links,$(3)) $$(call pkg_libs,$(4))
$(1): $$($(1)_OBJS) $$(call lib_files,$(3))
endef

# $(eval $(call fuzzer,FOLDER/NAME,SOURCES,LIBRARIES)): FOLDER/NAME.c, libFuzzer,
# clang. The sources are compiled once for all fuzzers, instrumented. Corpus:
# tests/corpus/NAME
FUZZ_FLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -pthread
define fuzzer
FUZZERS += $(BUILD)/fuzz/$(1)
$(1)_OBJS := $(patsubst %.c,$(BUILD)/fuzz/obj/%.o,$(1).c $(2))
FUZZ_OBJS += $$($(1)_OBJS)
$$($(1)_OBJS): | $$(GENERATED)
$(BUILD)/fuzz/$(1): $$($(1)_OBJS)
	$$(say) FUZZ $$@
	$(Q)mkdir -p $$(@D)
	$(Q)clang $(FUZZ_FLAGS) $(QUICK_LD) -o $$@ $$^ $(3)
endef

$(BUILD)/fuzz/obj/%.o: %.c
	$(Q)mkdir -p $(@D)
	$(Q)clang -std=gnu17 -gline-tables-only -O1 -D_GNU_SOURCE \
	  -DTRIBUTARY_VERSION='"$(VERSION)"' $(FUZZ_FLAGS) -I. -I$(BUILD)/gen \
	  -MMD -MP -c -o $@ $<

# Folders in the order of the arrows: a folder comes after those it includes.
FOLDERS := base proto rpc target blockd launch initiator union volume csi cli deploy \
           perf tests
include $(wildcard $(FOLDERS:%=%/build.mk))

$(OUT)/obj/%.o: %.c
	$(say) CC $<
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c -o $@ $<

$(OUT)/obj/%.o: $(OUT)/gen/%.c
	$(say) CC $<
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c -o $@ $<

$(LIBS:%=$(OUT)/lib/lib%.a):
	$(say) AR $@
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(PROGRAMS:%=$(OUT)/bin/%) $(UNIT_TESTS) $(TEST_HELPERS):
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LINK_LIBS)

.PHONY: all programs tests help deps clean install uninstall generated \
        lint-flags \
        check check-quick check-work times check-unit check-asan check-asan-long check-tsan \
        check-system check-system-long check-vm check-vm-long check-engine check-engine-long \
        check-union check-union-long check-debian13 check-debian13-long check-libraries \
        check-wire check-kube check-csi check-csi-full \
        fuzz fuzz-long lint format perf demo demo-keep

all: programs tests

programs: $(PROGRAMS:%=$(OUT)/bin/%)

tests: $(UNIT_TESTS) $(TEST_HELPERS)

help:
	@sed -n 's/^#   //p' Makefile | head -n 4
	@printf '%s\n' \
	  'make deps         install the Debian packages the build and tests need' \
	  'make check-quick  the unit tests and the main system tests: under five minutes (root)' \
	  'make check-unit   unit tests;  make check-asan: the same under ASan+UBSan; check-asan-long: each step' \
	  'make check-tsan   unit tests under ThreadSanitizer' \
	  'make check-engine pools: models, power failures, images; SEEDS=N (10), SEED=N' \
	  'make check-union  the union, also beside one directory: SEEDS=N (100), SEED=N (root)' \
	  'make check-union-long  thousands of seeds of every variant: kills, drains, losses, full branches (hours)' \
	  'make check-debian13  programs, the union and a volume on Debian 13 (root; debootstrap); -long: more of the union' \
	  'make check-system wire and whole-system tests (root);  make check-system-long: volumes, killed at each step' \
	  'make check-work   instructions and system calls of the hot paths, by perf/work.recorded (root)' \
	  'make check-wire   the servers of the wire before the clients of others (root)' \
	  'make check-csi    the driver against every rule of CSI, on hosts of this machine (root)' \
	  'make check-csi-full  the same, with every kill and its victims: hours' \
	  'make check-vm     the tests in a virtual machine;  make check-vm-long: the long ones, too' \
	  'make check-kube   a real Kubernetes API server (root; built at first use)' \
	  'make manifests    what a Kubernetes cluster is given, rendered and checked' \
	  'make sidecars     which sidecars of Kubernetes have a newer version' \
	  'make image        all programs as a container image' \
	  'make fuzz         each fuzz target, or T=NAME, for SECONDS (default 30);  make fuzz-long: a minute' \
	  'make lint         include arrows, rooms, cppcheck, clang-tidy, clang-format' \
	  'make perf         every benchmark beside its peer' \
	  'make demo-keep    the demo, left running' \
	  'make install      DESTDIR, PREFIX;  V=1 shows the commands'

deps:
	$(Q)tests/deps

check-unit: tests programs
	$(Q)tests/run --name unit$(if $(SAN),-$(SAN)) --jobs 4 $(UNIT_TESTS)

# Every fourth step of what check-unit tries at each (base/testkit/every.h).
check-asan:
	$(Q)EVERY=4 $(MAKE) --no-print-directory SAN=asan check-unit

# The same at each step.
check-asan-long:
	$(Q)$(MAKE) --no-print-directory SAN=asan check-unit

check-tsan:
	$(Q)$(MAKE) --no-print-directory SAN=tsan check-unit

# Four at a time, for most of them mostly wait.
check-system: all
	$(Q)tests/run --name system --timeout 2400 --jobs 4 $(SYSTEM_TESTS)

# Each step of what check-system kills at one of three.
check-system-long: all
	$(Q)LONG_TESTS=1 tests/run --name system-long --timeout 7200 --jobs 4 \
	  $(filter tests/system/volume% $(addprefix tests/system/,snapshot.sh initiator.sh csi.sh),$(SYSTEM_TESTS))

# What finds most in under five minutes of two processors.
QUICK_TESTS = $(addprefix tests/system/,union.sh union_names.sh union_mount.sh \
  union_strict.sh nbd_wire.sh nbd_tls.sh iscsi_wire.sh raw_pool.sh pool_dir.sh \
  snapshot.sh launch.sh trib.sh check_csi.sh check_csi_pairs.sh testing.sh) \
  "tests/system/volume.sh test_a_volume_larger_than_a_node_moves_between_hosts \
    test_xfs_branches_work_too test_a_union_goes_on_when_its_server_is_killed_or_replaced" \
  "tests/system/union_model.sh test_is_as_one_plain_directory \
    test_is_so_too_while_its_server_is_killed"
check-quick: all
	$(Q)tests/lint arrows format shell
	$(Q)SEEDS=$(or $(SEEDS),6) tests/run --name quick --timeout 300 --jobs 4 $(UNIT_TESTS) $(QUICK_TESTS)

# The seconds of the last make check, for the order of the next ones. Not those in a
# virtual machine: they run one by one, and some have the name of a system test.
times:
	$(Q)sort -rn $(filter-out %/vm.times %/vm-long.times,$(wildcard $(BUILD)/log/*.times)) | \
	  cat - tests/times | \
	  awk '!seen[$$2]++ && $$1 >= 5 {print $$1, $$2}' | sort -k1,1rn -k2 >tests/times~
	$(Q)mv tests/times~ tests/times

# The tests that SEED changes, and those that are always the same. Then the images,
# a second of new ones for each seed.
ENGINE_SEEDED = $(addprefix $(OUT)/test/blockd/,raw/store/raw_state_test raw/store/raw_power_test raw/dev/raw_dev_test \
  raw/dev/raw_dev_power_test raw/dev/raw_partial_test \
  raw/store/raw_check_load_test raw/pool_raw_model_test \
  dir/pool_dir_model_test direct/direct_model_test)
ENGINE_TESTS = $(addprefix $(OUT)/test/blockd/,raw/store/raw_state_refuse_test raw/store/raw_store_test \
  raw/store/raw_store_room_test raw/store/raw_retry_test \
  raw/store/raw_damage_test raw/store/raw_check_test \
  dir/pool_dir_copy_test dir/pool_dir_kill_test \
  dir/pool_dir_sharing_test direct/direct_test direct/direct_cut_test \
  direct/direct_fail_test)
ENGINE_FUZZERS = $(filter %/raw_image_fuzz %/raw_state_fuzz,$(FUZZERS))
check-engine-long: check-engine
check-engine: $(ENGINE_SEEDED) $(ENGINE_TESTS) $(ENGINE_FUZZERS)
	$(Q)tests/engine $(ENGINE_SEEDED) --once $(ENGINE_TESTS)$(if $(ENGINE_FUZZERS),; r=$$?; \
	  tests/fuzz $(or $(SEEDS),10) $(ENGINE_FUZZERS) && exit $$r)

UNION_TESTS = $(filter tests/system/union%,$(SYSTEM_TESTS))
check-union: all
	$(Q)tests/run --name union --timeout 2400 --jobs 2 $(UNION_TESTS)

# In a root of Debian 13: what other libraries and another compiler may change.
# All programs are built, and the tests that depend on the libraries. No debug data,
# as nobody debugs there. check-debian13-long: more of the union, each step.
in_debian13 = tests/debian13 make -j$$(nproc) --no-print-directory WERROR=-Werror CFLAGS=-O2 \
	  check-libraries || [ $$? = 77 ]
check-debian13:
	$(Q)EVERY=4 $(in_debian13)
check-debian13-long:
	$(Q)LONG_TESTS=1 $(in_debian13)

LIBRARY_UNITS = $(filter $(foreach f,base launch initiator union volume,$(OUT)/test/$(f)/%),$(UNIT_TESTS))
LIBRARY_HELPERS = $(filter $(foreach f,union tests/union volume,$(OUT)/test/$(f)/%) $(OUT)/test/tests/apart,$(TEST_HELPERS))
LIBRARY_TESTS = tests/system/union.sh \
  $(if $(LONG_TESTS),tests/system/union_data.sh tests/system/union_survive.sh) \
  "tests/system/volume.sh test_a_volume_larger_than_a_node_moves_between_hosts \
    test_a_union_goes_on_when_its_server_is_killed_or_replaced"
LIBRARY_ALONE = "tests/system/union_model.sh test_is_as_one_plain_directory \
  test_is_so_too_while_its_server_is_killed"
check-libraries: programs $(LIBRARY_UNITS) $(LIBRARY_HELPERS)
	$(Q)tests/deps -s
	$(Q)SEEDS=6 tests/run --name debian13 --timeout 2400 --jobs 3 $(LIBRARY_TESTS) \
	  $(LIBRARY_UNITS) --alone $(LIBRARY_ALONE)

check-union-long: all
	$(Q)SEEDS=$(or $(SEEDS),3000) KILL_SEEDS=$(or $(SEEDS),1500) DRAIN_SEEDS=$(or $(SEEDS),1000) \
	  HURT_SEEDS=$(or $(SEEDS),500) LITTLE_SEEDS=$(or $(SEEDS),500) KILL_DRAIN_SEEDS=$(or $(SEEDS),1000) \
	  KILL_LITTLE_SEEDS=$(or $(SEEDS),300) KILL_HURT_SEEDS=$(or $(SEEDS),1000) \
	  ERR_SEEDS=$(or $(SEEDS),1000) KILL_ERR_SEEDS=$(or $(SEEDS),300) tests/run --name union-long \
	  --timeout 36000 tests/system/union_model.sh
	$(Q)QUOTA_SEEDS=$(or $(SEEDS),100) VM_SECONDS=36000 tests/run --name union-long --timeout 36000 \
	  tests/vm/union_quotas.sh
	$(Q)KILLS=200 STEP=4 tests/run --name union-long --timeout 36000 tests/system/union_once.sh
	$(Q)LONG=1 LONG_TESTS=1 tests/run --name union-long --timeout 36000 tests/system/union_programs.sh
	$(Q)LONG=1 KILLS=$(or $(SEEDS),30000) tests/run --name union-long --timeout 36000 \
	  "tests/system/union_programs.sh test_rsync_while_servers_are_killed"

check-wire: all
	$(Q)tests/run --name wire --timeout 2400 $(WIRE_TESTS)

# Instructions and system calls of the hot paths, against perf/work.recorded.
check-work: all
	$(Q)tests/run --name work --timeout 2400 perf/work

check-vm: all
	$(Q)tests/run --name vm --timeout 2400 $(VM_TESTS)

check-vm-long: all
	$(Q)LONG_TESTS=1 VM_CPUS=2 VM_SECONDS=7000 tests/run --name vm-long --timeout 7200 $(VM_TESTS)

check-csi: all
	$(Q)tests/run --name csi --timeout 2400 --jobs 3 $(CSI_TESTS)

check-csi-full: all
	$(Q)CSI_FULL=1 tests/run --name csi-full --timeout 36000 $(CSI_TESTS)

# A target of its own: building the API server takes 5 to 15 minutes, once.
check-kube: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tests/kube/fetch || echo "what needs the API server is skipped"
	$(Q)tests/run --name kube --timeout 2400 $(KUBE_TESTS)

# Everything, with one tally at the end. LONGER=1: what takes hours, too.
check: deps
	$(Q)tests/check

# T=NAME: only that one.
FUZZ_THESE = $(if $(T),$(filter %/$(T),$(FUZZERS)),$(FUZZERS))
fuzz: $(FUZZ_THESE)
	$(Q)tests/fuzz $(or $(SECONDS),$(FUZZ_SECONDS),30) $(FUZZ_THESE)

lint:
	$(Q)tests/lint

# A minute of each fuzz target.
fuzz-long:
	$(Q)$(MAKE) --no-print-directory FUZZ_SECONDS=60 fuzz

generated: $(GENERATED)

# What an analyzer must know to read any file of the tree.
lint-flags:
	@echo $(ALL_CFLAGS) $(call pkg_cflags,$(sort $(ALL_PKGS)))

format:
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i

perf: all
	$(Q)perf/run all

demo: deps
	$(Q)$(MAKE) --no-print-directory programs
	$(Q)tests/demo

demo-keep: deps
	$(Q)$(MAKE) --no-print-directory programs
	$(Q)tests/demo --keep

install: programs $(INSTALLS)
	install -d $(DESTDIR)$(SBINDIR)
	install -m 755 $(PROGRAMS:%=$(OUT)/bin/%) $(DESTDIR)$(SBINDIR)

clean:
	rm -rf $(BUILD)

-include $(OBJS:.o=.d) $(sort $(FUZZ_OBJS:.o=.d))
