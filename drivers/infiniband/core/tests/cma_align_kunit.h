/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared by the KUnit tests of cma_align*.c. Each of them is included at the
 * end of the file that it tests.
 */
#ifndef _CMA_ALIGN_KUNIT_H
#define _CMA_ALIGN_KUNIT_H

#include <kunit/test.h>

/* What cma_align_now() says. 0: the real time. In cma_align_damp_kunit.c */
extern u64 cma_align_test_clock;

/* Start the clock of the tests at any time but one near a wrap-around. */
#define CMA_ALIGN_TEST_START	((u64)1 << 32)

/* Give it back. For the exit of a suite. */
static inline void cma_align_test_real_time(struct kunit *test)
{
	WRITE_ONCE(cma_align_test_clock, 0);
}

#endif /* _CMA_ALIGN_KUNIT_H */
