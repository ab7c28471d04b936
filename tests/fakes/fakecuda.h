/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU in memory behind the functions of CUDA's driver API that the agent calls: a shared object
 * called libcuda.so.1, which a test loads before the agent looks for one. Its memory is at
 * addresses that the process cannot touch; a memfd serves as its dmabuf.
 */
#ifndef TESTS_FAKECUDA_H
#define TESTS_FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>

#define FAKECUDA_PCI "0000:17:00.0"

/* The symbol "fakecuda". */
struct fakecuda {
	bool has_dmabuf;
	size_t left;	/* bytes */
	int fail_after; /* calls that go well; then one fails; below 0: none */
	unsigned n_allocs, n_contexts, n_pushed;
	unsigned char *bytes; /* of the youngest allocation */
	void (*on_alloc)(void *addr, size_t len, void *bytes);
};

#endif
