# SPDX-License-Identifier: GPL-2.0
#
# Each target is a script or two; "make help" prints the comments behind "##"
# and the variables:
#
#: KVER=V	the kernel to build for and to test with; default: the newest
#:	linux-image-6.12.*-amd64 that apt offers
#: T=NAMES	run only these selftests
#: ARGS=A	arguments for each of them: -t NAME for one test, -v
#: J=N	virtual machines at a time
#: DEBUG=1	run the selftests on a kernel with debug options
#: SEED=N	of the oracle's random changes, several by comma
#: STEPS=N	so many changes for each seed
#: SHRINK=N	look N seconds for a shorter way to what the oracle found
#: DESTDIR=D	install below D/lib/modules instead of /lib/modules
#: V=1	show each compiler call

.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := build

export KVER T ARGS J DEBUG DESTDIR V SEED STEPS SHRINK

build: ## build rdma_cm.ko and rdma_ucm.ko into build/KVER/ (the default)
	@scripts/build.sh

demo: deps build image ## the main job, stock and aligned side by side, in a VM
	@tools/demo/demo.sh

check: deps ## run every test; results are kept in build/results/ as TAP
	@scripts/check.sh

bench: ## run the benchmarks (not there yet)
	@echo "rdma-align: the benchmarks are not there yet" >&2; exit 2

series: ## export the patches for git am into build/series/
	@scripts/series.sh

abi: build image ## compare exports and struct layout with the distribution's modules
	@scripts/abi.sh

lint: ## run the static checks
	@scripts/lint.sh

selftest: build image ## run the selftests in the VM, T=names of some, DEBUG=1
	@tools/testing/vm/run-selftests.sh

oracle: build image ## change the network at random, compare what ids hear with the contract
	@tools/testing/vm/run-oracle.sh

kunit: ## run the KUnit suites under User Mode Linux
	@scripts/kunit.sh

test-build: ## test the build system itself
	@scripts/test-build.sh

test-vm: image ## test the VM runner itself (2 min; no part of check)
	@tools/testing/vm/selfcheck.sh

vm: build image ## an interactive shell in the test VM
	@tools/testing/vm/vm.sh --shell

install: build ## install into /lib/modules/KVER/updates (root)
	@scripts/install.sh

uninstall: ## remove what install installed
	@scripts/install.sh --uninstall

deps: ## install what build, VM and tests need (apt, root)
	@scripts/deps.sh

image: ## unpack the distribution's kernel for the VM into build/cache/
	@scripts/image.sh >/dev/null

compile_commands.json: build ## write it into build/, for clangd and the like
	@scripts/compile-commands.sh

help: ## show this list
	@sed -nE 's/^([a-z_.-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 30
	@sed -nE 's/^#: ?/  /p' Makefile | expand -t 16,30

clean: ## remove what was built, keep the downloads
	@scripts/clean.sh

distclean: ## remove everything that was generated
	@scripts/clean.sh --all

.PHONY: build demo check bench series abi lint selftest oracle kunit test-build test-vm vm install \
	uninstall deps image compile_commands.json help clean distclean
