/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of NVIDIA's GPUs. libcuda, which is part of their driver, is loaded when the first is
 * asked for, and stays: nothing of ours links it.
 */
#ifndef AGENT_CUDA_H
#define AGENT_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct cuda_memory;

/*
 * Allocate at least len zeroed bytes on the GPU at a PCI address. Any thread.
 *   -ENOTSUP  no libcuda, or one without what is needed     -ENODEV  no such GPU
 *   -ENOMEM     -EIO  what else the driver says
 * why, of cap bytes, has it in words.
 */
int cuda_alloc(const char *pci, uint64_t len, struct cuda_memory **out, char *why, size_t cap);

void *cuda_addr(const struct cuda_memory *memory);

/* Its dmabuf, which begins where it does; the memory's. -1: the driver makes none, as without its
 * open kernel modules. */
int cuda_dmabuf(const struct cuda_memory *memory);

/* cuda_free(NULL) does nothing. */
void cuda_free(struct cuda_memory *memory);

#endif
