# SPDX-License-Identifier: GPL-2.0
#
# Each target is one script; `make help` prints the comments behind `##`.
#
# KVER=	the kernel to build for and to test with; default: the newest
#	linux-image-6.12.*-amd64 that apt offers
# T=	names of selftests, default all
# DEBUG=1	selftests on a debug kernel
# V=1	show each compiler call

.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

export KVER DEBUG T V

build: ## Build rdma_cm.ko and rdma_ucm.ko into build/KVER/ (the default)
	@scripts/build.sh

image: ## Fetch KVER's kernel image for the test machine into build/cache/
	@scripts/image.sh

help: ## Show this list
	@sed -nE 's/^([a-z_.-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 31
	@sed -nE 's/^# ([A-Z]+=.*)/  \1/p; s/^#\t(.*)/\t\1/p' Makefile | expand -t 2,16

clean: ## Remove what was built, keep the downloads
	@scripts/clean.sh

distclean: ## Remove everything that was generated
	@rm -rf build

.PHONY: build image help clean distclean
