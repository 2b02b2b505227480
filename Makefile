# Forebay: build, demonstrate, test, check, install. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

CARGO ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
FOREBAY := $(TARGET)/release/forebay
COMMANDS := $(TARGET)/release/forebay-commands
AGENT := $(TARGET)/agent/libforebay_agent.so
LIBRARY := $(TARGET)/release/libforebay.so
REPOSITORY := $(shell sed -n 's/^repository = "\(.*\)"$$/\1/p' Cargo.toml)
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml)
WORKLOAD := $(TARGET)/release/forebay-share-workload

# The agent has a panic handler of its own and no unwinding, so only its own profile can build it.
AGENT_ONLY := -p forebay-agent --profile agent
BUT_AGENT := --workspace --exclude forebay-agent

# Clippy links no fuzz target, so the crate of libFuzzer gets a library that is not there, and compiles none.
FUZZ_UNLINKED := CUSTOM_LIBFUZZER_PATH=$(TARGET)/libfuzzer.a

STATIC := -C target-feature=+crt-static -C relocation-model=static

# Where things are installed, below DESTDIR. A distribution's package sets the second group, too.
DESTDIR ?=
PREFIX ?= /usr/local
LIBRARYDIR ?= $(PREFIX)/lib
ZSH_PREFIX ?= $(PREFIX)/share/zsh/site-functions
PKGCONFIG_PREFIX ?= $(PREFIX)
BINDIR := $(DESTDIR)$(PREFIX)/bin
LIBDIR := $(DESTDIR)$(PREFIX)/lib/forebay
CLIBDIR := $(DESTDIR)$(LIBRARYDIR)
PKGCONFIGDIR := $(CLIBDIR)/pkgconfig
INCLUDEDIR := $(DESTDIR)$(PREFIX)/include
MANDIR := $(DESTDIR)$(PREFIX)/share/man/man1
MAN3DIR := $(DESTDIR)$(PREFIX)/share/man/man3
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR := $(DESTDIR)$(ZSH_PREFIX)
FISHDIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

.PHONY: help build agent library workload wheel demo test test-long check format lint deny doc docs rules miri advisories install
.PHONY: uninstall dist deb test-packages clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# Linked statically, because the dynamic loader would be a third of what `forebay run` adds to a program's start, and for a
# fixed address, because relocations would be a third of the memory that it takes where the program has little. What
# the kernel reads of it is charged to the program, too, and it reads much at a time: so no symbols lie in between.
# `forebay-commands` is optimised in parts (thin LTO): it takes half the time to link, and is larger by a twentieth.
build: agent library workload ## build the forebay command, its agent, the library for C and what is measured (the default)
	$(CARGO) rustc --locked --release -p forebay-cli --bin forebay -- $(STATIC) -C strip=symbols
	$(CARGO) rustc --locked --release -p forebay-cli --bin forebay-commands -- $(STATIC) -C lto=thin

agent:
	$(CARGO) build --locked $(AGENT_ONLY)

library:
	$(CARGO) build --locked --release -p forebay-capi

wheel: ## build the wheel of the Python package, in target/wheels
	@scripts/setup wheel
	$(TARGET)/python/bin/python -m maturin build --locked --release --strip --manifest-path crates/share/python/Cargo.toml --target-dir $(TARGET)/python/build --out $(TARGET)/wheels
	cd $(TARGET)/wheels && for wheel in *.whl; do sha256sum "$$wheel" > "$$wheel.sha256"; done

# Linked dynamically: it loads UCX.
workload:
	$(CARGO) build --locked --release -p forebay-share-workload

demo: ## install what is missing, build, and show real programs without and with forebay
	@scripts/setup demo
	@$(MAKE) --no-print-directory build
	@$(FOREBAY) demo

test: ## install what is missing, build, run every test but the long ones, and say what was skipped
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	CARGO="$(CARGO)" scripts/test

test-long: ## the tests again, with the randomised and the repeated ones at full length
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	CARGO="$(CARGO)" FOREBAY_COMPAT_LONG=1 scripts/test
	CARGO="$(CARGO)" FOREBAY_COMPAT_DISK=ssd-1ms-q128 FOREBAY_COMPAT_DROP=1 scripts/test compat::

check: ## format, lints, licences, documentation, architecture rules, and Miri where it is installed
	@scripts/setup check
	@$(MAKE) --no-print-directory --keep-going format lint deny doc rules miri

format:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

lint:
	$(CARGO) clippy --locked $(BUT_AGENT) --all-targets -- -D warnings
	$(CARGO) clippy --locked $(AGENT_ONLY) -- -D warnings
	$(FUZZ_UNLINKED) $(CARGO) clippy --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET) -- -D warnings

# Licences, bans and sources are decided from Cargo.lock alone, so they hold on a machine without a network.
# Advisories need a database that is downloaded: see `make advisories`.
deny:
	$(CARGO) fetch --locked --quiet
	PATH="$(TARGET)/tools/bin:$$PATH" $(CARGO) deny --offline check --hide-inclusion-graph licenses bans sources

advisories: ## known vulnerabilities in dependencies (downloads the advisory database)
	@scripts/setup check
	PATH="$(TARGET)/tools/bin:$$PATH" $(CARGO) deny check advisories

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked $(BUT_AGENT) --no-deps
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked $(AGENT_ONLY) --no-deps

rules:
	$(CARGO) test --locked --quiet -p forebay-tidy

# On the site, links from the documents to sources lead to the repository, and a folder's README is its index.
docs: ## build the documents as a site, in target/book
	@scripts/setup docs
	@rm -rf $(TARGET)/book $(TARGET)/book-source
	@mkdir -p $(TARGET)/book-source
	@cp -r docs book.toml $(TARGET)/book-source
	@find $(TARGET)/book-source -name '*.md' ! -name SUMMARY.md -exec sed -E -i \
		-e 's#\]\((\.\./)+((crates|tests|benches|scripts|fuzz|packaging)(/[^)]*)?|(ARCHITECTURE|CHANGELOG|CONTRIBUTING|SECURITY)\.md[^)]*|Makefile|Cargo\.toml)\)#]($(REPOSITORY)/blob/main/\2)#g' \
		-e 's#\]\(([^):]*/)?README\.md#](\1index.md#g' {} +
	@MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL=$(REPOSITORY) PATH="$(TARGET)/tools/bin:$$PATH" \
		mdbook build $(TARGET)/book-source --dest-dir $(TARGET)/book

# How the agent shares state between threads and signal handlers, under an interpreter that sees references that overlap.
miri:
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
	  MIRIFLAGS=-Zmiri-ignore-leaks $(CARGO) +nightly miri test --locked --quiet -p forebay-sigsafe; \
	else \
	  echo "SKIPPED miri: install it with: rustup component add --toolchain nightly miri rust-src"; \
	fi

# Takes what `make` built and builds nothing itself, so `sudo make install` needs no toolchain for root.
install: ## install under PREFIX (/usr/local), below DESTDIR if set
	@[ -x $(FOREBAY) ] && [ -x $(COMMANDS) ] && [ -f $(AGENT) ] && [ -f $(LIBRARY) ] && [ -x $(WORKLOAD) ] || { echo "nothing is built yet: run 'make' first" >&2; exit 1; }
	install -d $(BINDIR) $(LIBDIR) $(INCLUDEDIR) $(PKGCONFIGDIR) $(MANDIR) $(MAN3DIR) $(BASHDIR) $(ZSHDIR) $(FISHDIR)
	install -m 755 $(FOREBAY) $(BINDIR)/forebay
	install -s -m 755 $(COMMANDS) $(LIBDIR)/forebay-commands
	install -s -m 644 $(AGENT) $(LIBDIR)/libforebay_agent.so
	install -s -m 755 $(WORKLOAD) $(LIBDIR)/forebay-share-workload
	install -s -m 644 $(LIBRARY) $(CLIBDIR)/libforebay.so.$(VERSION)
	ln -sf libforebay.so.$(VERSION) $(CLIBDIR)/libforebay.so.0
	ln -sf libforebay.so.0 $(CLIBDIR)/libforebay.so
	install -m 644 crates/share/capi/include/forebay.h $(INCLUDEDIR)/forebay.h
	sed 's|@PREFIX@|$(PKGCONFIG_PREFIX)|; s|@LIBRARYDIR@|$(LIBRARYDIR:$(PREFIX)/%=$${prefix}/%)|; s|@VERSION@|$(VERSION)|; s|@REPOSITORY@|$(REPOSITORY)|' \
		crates/share/capi/forebay.pc.in > $(PKGCONFIGDIR)/forebay.pc
	install -m 644 crates/share/capi/man/forebay_share.3 $(MAN3DIR)/forebay_share.3
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	$(FOREBAY) man --out $(MANDIR)
	$(FOREBAY) completions bash > $(BASHDIR)/forebay
	$(FOREBAY) completions zsh > $(ZSHDIR)/_forebay
	$(FOREBAY) completions fish > $(FISHDIR)/forebay.fish

uninstall: ## remove what install put there
	rm -f $(BINDIR)/forebay $(LIBDIR)/forebay-commands $(LIBDIR)/libforebay_agent.so $(LIBDIR)/forebay-share-workload $(MANDIR)/forebay.1 $(MANDIR)/forebay-*.1
	rm -f $(BASHDIR)/forebay $(ZSHDIR)/_forebay $(FISHDIR)/forebay.fish
	rm -f $(CLIBDIR)/libforebay.so $(CLIBDIR)/libforebay.so.* $(PKGCONFIGDIR)/forebay.pc
	rm -f $(INCLUDEDIR)/forebay.h $(MAN3DIR)/forebay_share.3
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	if [ -d $(LIBDIR) ]; then rmdir --ignore-fail-on-non-empty $(LIBDIR); fi

dist: ## build the tarball with everything, in target/dist
	@scripts/setup dist
	@$(MAKE) --no-print-directory build
	@packaging/tarball $(TARGET) $(VERSION)

deb: ## build the Debian package, in target/dist, and have lintian check it
	@scripts/setup deb
	@$(MAKE) --no-print-directory build
	@packaging/deb/build $(TARGET) $(VERSION) $(REPOSITORY)

test-packages: dist deb wheel ## install the packages in fresh systems, use them there and remove them (as root)
	@scripts/setup test-packages
	@packaging/test/run $(TARGET) $(VERSION)

clean: ## remove everything that was built
	$(CARGO) clean
