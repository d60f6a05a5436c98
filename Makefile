# The only front door. `make run` and `make test` install the packages they miss (tools/install-deps) before anything is built;
# everything built goes under $(BUILD), so several builds (plain, asan, tsan, fuzz) stand side by side.

VERSION    := 0.1.0
BUILD      ?= build
PREFIX     ?= /usr/local
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
PYTHON     ?= /usr/bin/python3
FORMAT     ?= clang-format
DATA       ?= ./data
JOBS       ?= $(shell nproc 2>/dev/null || echo 1)
# A part of src/ can be built alone while another part is under the knife: make ROOMS="base wire".
ROOMS      ?= *
# What -fsanitize= is given; set by the asan, tsan and fuzz builds.
SANITIZE   ?=
# A sanitizer's own code makes the compiler see ghosts; the plain build is the one that must be free of warnings.
WERROR     ?= $(if $(SANITIZE),,-Werror)
ifeq ($(origin CC),default)
CC         := gcc
endif

PACKAGES := libuv jansson libssl libcrypto libargon2 sqlite3 libcurl libmariadb hiredis librabbitmq rdkafka
PKG      := pkg-config
PKG_OK   := $(shell $(PKG) --exists $(PACKAGES) 2>/dev/null && echo yes)

# llhttp is a library of its own where the system has it. Debian 12 ships only its C sources, inside node-llhttp; those are
# compiled strictly, for a lenient 8.x lets a bare CR hide a header.
LLHTTP_SOURCES := /usr/share/llhttp
LLHTTP_HEADERS := /usr/share/include/llhttp
ifeq ($(shell $(PKG) --exists libllhttp 2>/dev/null && echo yes),yes)
LLHTTP_CFLAGS := $(shell $(PKG) --cflags libllhttp)
LLHTTP_LIBS   := $(shell $(PKG) --libs libllhttp)
LLHTTP_OBJECTS :=
else
LLHTTP_CFLAGS := -isystem $(LLHTTP_HEADERS) -DLLHTTP_STRICT_MODE=1
LLHTTP_LIBS   :=
LLHTTP_OBJECTS := $(addprefix $(BUILD)/obj/llhttp/,api.o http.o llhttp.o)
endif

WARNINGS := -Wall -Wextra -Wshadow -Wconversion $(WERROR)
# assert(!"why") is how a place is marked that is never reached; clang takes it for a slip.
ifneq ($(findstring clang,$(CC)),)
WARNINGS += -Wno-string-conversion
endif
# _FORTIFY_SOURCE is dropped under a sanitizer: the two check the same calls and hide each other's findings.
ifeq ($(SANITIZE),)
HARDEN  := -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
else
HARDEN  := -O1 -g1 -U_FORTIFY_SOURCE -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
endif
CFLAGS  ?=
LDFLAGS ?=
BASE_CFLAGS := -std=gnu11 -g $(HARDEN) -fPIE -fstack-protector-strong -fno-omit-frame-pointer -D_GNU_SOURCE \
               -DSTAMPEDE_VERSION='"$(VERSION)"' -pthread
OUR_CFLAGS  := $(BASE_CFLAGS) $(WARNINGS) -iquote src -iquote . $(LLHTTP_CFLAGS) $(shell $(PKG) --cflags $(PACKAGES) 2>/dev/null) $(CFLAGS)
OUR_LDFLAGS := -pie -pthread -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)
# There are more than a hundred test programs: they are linked by whoever is quickest. What is installed is linked by the system's own.
TEST_LDFLAGS := $(OUR_LDFLAGS) $(if $(shell command -v ld.gold),-fuse-ld=gold)
LIBS        := $(LLHTTP_LIBS) $(shell $(PKG) --libs $(PACKAGES) 2>/dev/null) -lm

BINARY   := $(BUILD)/stampede
ARCHIVE  := $(BUILD)/libstampede.a
SOURCES  := $(sort $(wildcard $(ROOMS:%=src/%/*.c) $(ROOMS:%=src/%/*/*.c)))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/openapi.o $(BUILD)/obj/scripts.o $(BUILD)/obj/pages.o $(LLHTTP_OBJECTS)
PAGES    := $(sort $(shell find pages))
LUA      := $(addprefix $(BUILD)/lua/,$(sort $(notdir $(wildcard src/*/scripts/*.lua))))

UNIT_TESTS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c)))
SIM_TESTS  := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/sim/test_*.c)))
PROBES     := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/e2e/*_probe.c)))
FUZZERS    := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# A make inside this one shares its job slots; only the outermost chooses how many there are.
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))

.DELETE_ON_ERROR:
.SECONDARY:
.SECONDEXPANSION:
.DEFAULT_GOAL := all
.PHONY: all demo run cluster cluster-stop test bench campaign asan tsan fuzz fmt install clean deps help unit-tests sim-tests probes fuzzers archive

all: $(BINARY)
archive: $(ARCHIVE)
unit-tests: $(UNIT_TESTS)
sim-tests: $(SIM_TESTS)
probes: $(PROBES)
fuzzers: $(FUZZERS)

help:
	@echo 'make            build $(BINARY)'
	@echo 'make demo       install what is missing, build, and show a sale with a crowd; ARGS="--keep --buyers 20000" chooses'
	@echo 'make run        install what is missing, build, serve with the data in $(DATA)'
	@echo 'make cluster    several machines on this one: MariaDB, a Redis Cluster, three nodes, nginx; make cluster-stop ends it'
	@echo 'make test       every test; the last line is "N passed, N failed"'
	@echo 'make bench      throughput and latency against nginx, interleaved'
	@echo 'make campaign   the long runs: kill -9 of one machine and of several, power loss, a receiver dead for minutes'
	@echo 'make asan|tsan  the tests under AddressSanitizer + UBSan, or ThreadSanitizer'
	@echo 'make fuzz T=http [SECONDS=60]'
	@echo 'make fmt        clang-format over every C file'
	@echo 'make install    PREFIX=$(PREFIX) DESTDIR='
	@echo 'make deps       packages for running; G="run test bench cluster" for more'
	@echo 'make clean      remove $(BUILD)'

deps:
	@tools/install-deps $(or $(G),run)

# Recursive, because on a fresh machine the compiler and pkg-config only exist once the first line has been done.
run:
	@tools/install-deps run
	@$(SUBMAKE) all
	@tools/try
	@exec $(BINARY) serve --data $(DATA)

demo:
	@tools/install-deps run
	@$(SUBMAKE) all
	@exec $(BINARY) demo $(ARGS)

# ARGS="--port 8080 --nodes 5" chooses. Only what was started by it is ended, whatever else runs here.
cluster:
	@tools/install-deps run cluster
	@$(SUBMAKE) all
	@$(PYTHON) tools/cluster start --binary $(BINARY) --state $(BUILD)/cluster.json $(ARGS)

cluster-stop:
	@$(PYTHON) tools/cluster stop --state $(BUILD)/cluster.json $(ARGS)

test:
	@tools/install-deps run test
	@$(PYTHON) tests/run

bench:
	@tools/install-deps run test bench
	@$(SUBMAKE) all
	@$(PYTHON) tests/bench/run.py $(ARGS)

campaign:
	@tools/install-deps run test
	@$(SUBMAKE) all
	@$(PYTHON) tests/crash/campaign.py $(ARGS)

asan tsan:
	@tools/install-deps run test
	@$(PYTHON) tests/run $@

SECONDS ?= 60
fuzz:
	@test -n "$(T)" || { echo 'make fuzz T=NAME, one of: $(patsubst fuzz_%,%,$(notdir $(FUZZERS)))' >&2; exit 2; }
	@tools/install-deps run test
	@$(SUBMAKE) BUILD=$(BUILD)/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined $(BUILD)/fuzz/tests/fuzz/fuzz_$(T)
	@mkdir -p tests/fuzz/corpus/$(T)
	$(BUILD)/fuzz/tests/fuzz/fuzz_$(T) -max_total_time=$(SECONDS) -artifact_prefix=$(BUILD)/fuzz/ tests/fuzz/corpus/$(T)

fmt:
	@$(FORMAT) -i $(wildcard src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] tests/*/*.[ch] tests/*/*/*.[ch] tests/*/*/*/*.[ch])

install: $(BINARY)
	install -D -m 0755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/stampede
	install -d $(DESTDIR)$(SYSCONFDIR)/stampede $(DESTDIR)$(PREFIX)/share/doc/stampede/doors $(DESTDIR)$(PREFIX)/share/doc/stampede/conf
	if [ -e $(DESTDIR)$(SYSCONFDIR)/stampede/stampede.conf ]; then \
	    install -m 0644 conf/stampede.conf $(DESTDIR)$(SYSCONFDIR)/stampede/stampede.conf.new; \
	else \
	    install -m 0644 conf/stampede.conf $(DESTDIR)$(SYSCONFDIR)/stampede/stampede.conf; \
	fi
	install -m 0644 $(wildcard *.md LICENSE docs/*.md docs/*.yaml) $(DESTDIR)$(PREFIX)/share/doc/stampede
	install -m 0644 $(wildcard conf/*.conf) $(DESTDIR)$(PREFIX)/share/doc/stampede/conf
	install -m 0644 $(wildcard docs/doors/*.md) $(DESTDIR)$(PREFIX)/share/doc/stampede/doors

clean:
	rm -rf $(BUILD)

# These two are rewritten only when what they hold has changed: objects of other flags are never mixed, and an object whose
# source is gone leaves the archive.
keep = @printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(1))' > $@

$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@test -n "$(PKG_OK)" && command -v $(CC) >/dev/null || { \
	    echo 'A compiler or a library is missing ($(PACKAGES)): run "make deps".' >&2; exit 1; }
	$(call keep,$(CC) $(OUR_CFLAGS) $(OUR_LDFLAGS) $(LIBS))

$(BUILD)/members: FORCE
	@mkdir -p $(@D)
	$(call keep,$(OBJECTS))

.PHONY: FORCE

$(BINARY): $(BUILD)/obj/src/main.o $(ARCHIVE)
	@echo "  LINK  $@"
	@$(CC) $(OUR_LDFLAGS) -o $@ $(BUILD)/obj/src/main.o $(ARCHIVE) $(LIBS)

$(ARCHIVE): $(OBJECTS) $(BUILD)/members
	@echo "  AR    $@"
	@rm -f $@
	@ar rcs $@ $(OBJECTS)

$(BUILD)/obj/llhttp/%.o: $(LLHTTP_SOURCES)/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(BASE_CFLAGS) -w $(LLHTTP_CFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(OUR_CFLAGS) -MMD -MP -c -o $@ $<

# The interface description is part of the binary, so that what /openapi.yaml answers is of the same version as the code.
$(BUILD)/openapi.c: docs/openapi.yaml
	@mkdir -p $(@D)
	@{ echo '#include <stddef.h>'; echo 'const unsigned char openapi_yaml[] = {'; \
	   od -An -v -tx1 $< | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; \
	   echo '};'; echo 'const size_t openapi_yaml_len = sizeof(openapi_yaml);'; } > $@

# So are the scripts that run inside Redis. They stand under lua/ as Redis gets them, which is what the tests run.
vpath %.lua $(sort $(wildcard src/*/scripts))
$(LUA): $(BUILD)/lua/%.lua: %.lua $(wildcard src/*/scripts/parts/*.lua) src/bounds.h src/gate/scripts.h tools/lua-join
	@mkdir -p $(@D)
	@tools/lua-join $< > $@.new && mv $@.new $@

$(BUILD)/scripts.c: $(LUA)
	@for file in $(LUA); do \
	     echo "extern const char lua_$$(basename $$file .lua)[];"; \
	     echo "const char lua_$$(basename $$file .lua)[] = {"; \
	     od -An -v -tx1 $$file | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; \
	     echo '0 };'; \
	 done > $@

# And the storefront and the console.
$(BUILD)/pages.c: $(PAGES) tools/embed-pages
	@mkdir -p $(@D)
	@$(PYTHON) tools/embed-pages pages $@

$(BUILD)/obj/openapi.o $(BUILD)/obj/scripts.o $(BUILD)/obj/pages.o: $(BUILD)/obj/%.o: $(BUILD)/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(OUR_CFLAGS) -c -o $@ $<

# A test program is its own file, the files beside it that are not tests, and whatever of the archive these need. A file beside a
# test that defines the symbols of one in src/ therefore takes its place: that is how the simulated disk gets in.
beside = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(1)test_% $(1)fuzz_%,$(wildcard $(1)*.c)))

$(UNIT_TESTS) $(SIM_TESTS): $(BUILD)/%: $(BUILD)/obj/%.o $$(call beside,$$(dir $$*)) $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(ARCHIVE) -lcmocka $(LIBS)

# A part of the server as a program, which an end-to-end test drives.
$(PROBES): $(BUILD)/%: $(BUILD)/obj/%.o $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(OUR_LDFLAGS) -o $@ $(filter %.o,$^) $(ARCHIVE) $(LIBS)

$(FUZZERS): $(BUILD)/%: $(BUILD)/obj/%.o $$(call beside,$$(dir $$*)) $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(OUR_LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(ARCHIVE) $(LIBS)

-include $(wildcard $(foreach depth,* */* */*/* */*/*/*,$(BUILD)/obj/src/$(depth).d $(BUILD)/obj/tests/$(depth).d))
