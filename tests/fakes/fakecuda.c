/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakecuda.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_SUPPORTED = 801 };

typedef unsigned long long pointer;

API struct fakecuda fakecuda = { .left = 1 << 28, .fail_after = -1 };

static struct {
	int fd;
	void *addr;
	size_t len;
} youngest;

/* For each call that may fail. */
static bool goes_wrong(void)
{
	return fakecuda.fail_after >= 0 && fakecuda.fail_after-- == 0;
}

API int cuInit(unsigned flags);
API int cuDeviceGetCount(int *count);
API int cuDeviceGetByPCIBusId(int *device, const char *pci);
API int cuDevicePrimaryCtxRetain(void **context, int device);
API int cuDevicePrimaryCtxRelease_v2(int device);
API int cuCtxPushCurrent_v2(void *context);
API int cuCtxPopCurrent_v2(void **context);
API int cuCtxSynchronize(void);
API int cuMemAlloc_v2(pointer *p, size_t len);
API int cuMemFree_v2(pointer p);
API int cuMemsetD8_v2(pointer p, unsigned char byte, size_t len);
API int cuPointerSetAttribute(const void *value, int attribute, pointer p);
API int cuGetErrorString(int error, const char **text);
API int cuMemGetHandleForAddressRange(void *handle, pointer p, size_t len, int type,
				      unsigned long long flags);

int cuInit(unsigned flags)
{
	return flags ? INVALID_VALUE : SUCCESS;
}

int cuDeviceGetCount(int *count)
{
	*count = 1;
	return SUCCESS;
}

int cuDeviceGetByPCIBusId(int *device, const char *pci)
{
	*device = 0;
	return strcmp(pci, FAKECUDA_PCI) ? NO_DEVICE : SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	if (goes_wrong() || device)
		return INVALID_VALUE;
	fakecuda.n_contexts++;
	*context = &fakecuda;
	return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	fakecuda.n_contexts--;
	return device ? INVALID_VALUE : SUCCESS;
}

int cuCtxPushCurrent_v2(void *context)
{
	if (goes_wrong() || context != &fakecuda)
		return INVALID_VALUE;
	fakecuda.n_pushed++;
	return SUCCESS;
}

int cuCtxPopCurrent_v2(void **context)
{
	fakecuda.n_pushed--;
	*context = &fakecuda;
	return SUCCESS;
}

int cuCtxSynchronize(void)
{
	return goes_wrong() ? INVALID_VALUE : SUCCESS;
}

int cuMemAlloc_v2(pointer *p, size_t len)
{
	if (goes_wrong() || !fakecuda.n_pushed)
		return INVALID_VALUE;
	if (len > fakecuda.left)
		return OUT_OF_MEMORY;
	youngest.fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (ftruncate(youngest.fd, (off_t)len))
		return OUT_OF_MEMORY;
	youngest.len = len;
	youngest.addr = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fakecuda.bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, youngest.fd, 0);
	memset(fakecuda.bytes, 0xee, len);
	fakecuda.n_allocs++;
	if (fakecuda.on_alloc)
		fakecuda.on_alloc(youngest.addr, len, fakecuda.bytes);
	*p = (pointer)(unsigned long)youngest.addr;
	return SUCCESS;
}

int cuMemFree_v2(pointer p)
{
	if (p != (pointer)(unsigned long)youngest.addr || !fakecuda.n_pushed)
		return INVALID_VALUE;
	munmap(youngest.addr, youngest.len);
	munmap(fakecuda.bytes, youngest.len);
	close(youngest.fd);
	fakecuda.bytes = NULL;
	fakecuda.n_allocs--;
	return SUCCESS;
}

int cuMemsetD8_v2(pointer p, unsigned char byte, size_t len)
{
	if (goes_wrong() || p != (pointer)(unsigned long)youngest.addr || len > youngest.len)
		return INVALID_VALUE;
	memset(fakecuda.bytes, byte, len);
	return SUCCESS;
}

int cuPointerSetAttribute(const void *value, int attribute, pointer p)
{
	(void)p;
	return goes_wrong() || attribute != 6 || *(const unsigned *)value != 1 ? INVALID_VALUE
									       : SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
	*text = error == OUT_OF_MEMORY ? "out of memory"
		: error == NO_DEVICE   ? "no CUDA-capable device is detected"
				       : "invalid argument";
	return SUCCESS;
}

int cuMemGetHandleForAddressRange(void *handle, pointer p, size_t len, int type,
				  unsigned long long flags)
{
	int fd;

	if (!fakecuda.has_dmabuf)
		return NOT_SUPPORTED;
	if (p != (pointer)(unsigned long)youngest.addr || len > youngest.len || type != 1 || flags)
		return INVALID_VALUE;
	fd = dup(youngest.fd);
	memcpy(handle, &fd, sizeof(fd));
	return SUCCESS;
}
