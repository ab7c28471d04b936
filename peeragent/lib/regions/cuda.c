/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/regions/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libcuda.so.1"

/* Memory that begins on such a boundary shares no page with other memory, neither here nor on the
 * GPU. */
#define GRANULE (UINT64_C(2) << 20)

/* As cuda.h of the driver API numbers them. */
enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum { CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6 };
enum { CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1 };

typedef void *cuda_context;
typedef unsigned long long cuda_pointer;

/* The driver's functions that we call, under the names that its library has for them. */
struct cuda {
	int (*init)(unsigned flags);
	int (*device_by_pci)(int *device, const char *pci);
	int (*context_retain)(cuda_context *context, int device);
	int (*context_release)(int device);
	int (*context_push)(cuda_context context);
	int (*context_pop)(cuda_context *context);
	int (*synchronize)(void);
	int (*alloc)(cuda_pointer *p, size_t len);
	int (*free)(cuda_pointer p);
	int (*set)(cuda_pointer p, unsigned char byte, size_t len);
	int (*set_attribute)(const void *value, int attribute, cuda_pointer p);
	int (*error_text)(int error, const char **text);
	int (*range_handle)(void *handle, cuda_pointer p, size_t len, int type,
			    unsigned long long flags); /* NULL before CUDA 11.7 */
};

struct function {
	const char *name;
	size_t offset;
	bool optional;
};

#define FUNCTION(member, name)                             \
	{                                                  \
		name, offsetof(struct cuda, member), false \
	}

static const struct function functions[] = {
	FUNCTION(init, "cuInit"),
	FUNCTION(device_by_pci, "cuDeviceGetByPCIBusId"),
	FUNCTION(context_retain, "cuDevicePrimaryCtxRetain"),
	FUNCTION(context_release, "cuDevicePrimaryCtxRelease_v2"),
	FUNCTION(context_push, "cuCtxPushCurrent_v2"),
	FUNCTION(context_pop, "cuCtxPopCurrent_v2"),
	FUNCTION(synchronize, "cuCtxSynchronize"),
	FUNCTION(alloc, "cuMemAlloc_v2"),
	FUNCTION(free, "cuMemFree_v2"),
	FUNCTION(set, "cuMemsetD8_v2"),
	FUNCTION(set_attribute, "cuPointerSetAttribute"),
	FUNCTION(error_text, "cuGetErrorString"),
	{ "cuMemGetHandleForAddressRange", offsetof(struct cuda, range_handle), true },
};

struct cuda_memory {
	const struct cuda *cuda;
	int device;
	cuda_context context;
	cuda_pointer at;
	int dmabuf_fd;
};

/* Where errors are told. */
struct said {
	char *why;
	size_t cap;
};

/* ---- the library ---- */

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda loaded;
static bool is_loaded;

static int find_functions(void *library, struct cuda *out, struct said said)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = dlsym(library, functions[i].name);

		if (!symbol && !functions[i].optional) {
			snprintf(said.why, said.cap, LIBRARY " has no %s: it is too old",
				 functions[i].name);
			return -ENOTSUP;
		}
		memcpy((char *)out + functions[i].offset, &symbol, sizeof(symbol));
	}
	return 0;
}

/* An error of the driver, while doing what. */
static int fail(const struct cuda *cuda, int error, const char *doing, struct said said)
{
	const char *text = NULL;

	if (cuda->error_text(error, &text) || !text)
		text = "an error without a name";
	snprintf(said.why, said.cap, "CUDA, %s: %s (%d)", doing, text, error);
	return error == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

static int load_locked(struct said said)
{
	struct cuda cuda;
	void *library;
	int ret, error;

	if (is_loaded)
		return 0;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(said.why, said.cap, "the driver of NVIDIA's GPUs is not installed: %s",
			 dlerror());
		return -ENOTSUP;
	}
	ret = find_functions(library, &cuda, said);
	error = ret ? 0 : cuda.init(0);
	if (error)
		ret = fail(&cuda, error, "beginning", said);
	if (ret) {
		dlclose(library);
		return ret;
	}
	loaded = cuda;
	is_loaded = true;
	return 0;
}

static int load(const struct cuda **out, struct said said)
{
	int ret;

	pthread_mutex_lock(&load_lock);
	ret = load_locked(said);
	pthread_mutex_unlock(&load_lock);
	*out = &loaded;
	return ret;
}

/* ---- memory ---- */

/* With its context current. */
static int alloc_zeroed(struct cuda_memory *m, uint64_t len, struct said said)
{
	const struct cuda *cuda = m->cuda;
	unsigned sync = 1;
	int error = cuda->alloc(&m->at, len);

	if (error)
		return fail(cuda, error, "allocating", said);
	/* A copy that the CPU asks of the GPU is complete when the GPU says so, for devices, too.
	 */
	error = cuda->set_attribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m->at);
	if (!error)
		error = cuda->set(m->at, 0, len);
	if (!error)
		error = cuda->synchronize();
	if (!error)
		return 0;
	cuda->free(m->at);
	return fail(cuda, error, "clearing", said);
}

/* Whether there are dmabufs is the driver's matter: without, peer memory has to do. */
static int export_dmabuf(const struct cuda_memory *m, uint64_t len)
{
	int fd = -1;

	if (!m->cuda->range_handle ||
	    m->cuda->range_handle(&fd, m->at, len, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		return -1;
	return fd;
}

static int alloc_in_context(struct cuda_memory *m, uint64_t len, struct said said)
{
	cuda_context former;
	int error = m->cuda->context_push(m->context);
	int ret;

	if (error)
		return fail(m->cuda, error, "entering its context", said);
	ret = alloc_zeroed(m, len, said);
	if (!ret)
		m->dmabuf_fd = export_dmabuf(m, len);
	m->cuda->context_pop(&former);
	return ret;
}

static int alloc(struct cuda_memory *m, const char *pci, uint64_t len, struct said said)
{
	int error = m->cuda->device_by_pci(&m->device, pci);
	int ret;

	if (error) {
		fail(m->cuda, error, pci, said);
		return -ENODEV;
	}
	error = m->cuda->context_retain(&m->context, m->device);
	if (error)
		return fail(m->cuda, error, "making a context", said);
	ret = alloc_in_context(m, len, said);
	if (ret)
		m->cuda->context_release(m->device);
	return ret;
}

int cuda_alloc(const char *pci, uint64_t len, struct cuda_memory **out, char *why, size_t cap)
{
	struct cuda_memory *m = calloc(1, sizeof(*m));
	struct said said = { why, cap };
	int ret;

	if (!m || len > UINT64_MAX - GRANULE) {
		free(m);
		snprintf(why, cap, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	ret = load(&m->cuda, said);
	if (!ret)
		ret = alloc(m, pci, (len + GRANULE - 1) & ~(GRANULE - 1), said);
	if (ret)
		free(m);
	else
		*out = m;
	return ret;
}

void *cuda_addr(const struct cuda_memory *m)
{
	return (void *)(uintptr_t)m->at;
}

int cuda_dmabuf(const struct cuda_memory *m)
{
	return m->dmabuf_fd;
}

void cuda_free(struct cuda_memory *m)
{
	cuda_context former;

	if (!m)
		return;
	if (m->dmabuf_fd >= 0)
		close(m->dmabuf_fd);
	if (!m->cuda->context_push(m->context)) {
		m->cuda->free(m->at);
		m->cuda->context_pop(&former);
	}
	m->cuda->context_release(m->device);
	free(m);
}
