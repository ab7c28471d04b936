// SPDX-License-Identifier: Apache-2.0
#include "gpu.hh"

#include <dlfcn.h>
#include <unistd.h>

namespace
{

// As cuda.h of the driver API numbers them.
constexpr int POINTER_ATTRIBUTE_SYNC_MEMOPS = 6;
constexpr int MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1;

using Pointer = unsigned long long;

// The driver's library. It is loaded once, and stays.
struct Library {
	Library() : handle(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
	{
		if (!handle)
			why = dlerror();
	}

	void *handle;
	std::string why;
};

const Library &library()
{
	static const Library l;

	return l;
}

// Its functions that we call, once it has begun.
struct Driver {
	Driver()
	{
		auto init = find<int (*)(unsigned)>("cuInit");
		auto count = find<int (*)(int *)>("cuDeviceGetCount");
		int n = 0;

		has_gpu = init && count && !init(0) && !count(&n) && n > 0;
		set_attribute = find<decltype(set_attribute)>("cuPointerSetAttribute");
		// Not before CUDA 11.7.
		range_handle = find<decltype(range_handle)>("cuMemGetHandleForAddressRange");
	}

	template <typename F> static F find(const char *name)
	{
		return reinterpret_cast<F>(dlsym(library().handle, name));
	}

	bool has_gpu;
	int (*set_attribute)(const void *, int, Pointer);
	int (*range_handle)(void *, Pointer, size_t, int, unsigned long long);
};

const Driver &driver()
{
	static const Driver d;

	return d;
}

} // namespace

bool gpu_driver_present(std::string &why)
{
	why = library().why;
	return library().handle;
}

bool gpu_present(std::string &why)
{
	if (!gpu_driver_present(why))
		return false;
	if (!driver().has_gpu)
		why = "libcuda.so.1 finds no GPU";
	return driver().has_gpu;
}

Dmabuf gpu_prepare(uintptr_t addr, size_t len)
{
	const Driver &d = driver();
	auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
	uintptr_t begin = addr & ~(page - 1), end = (addr + len + page - 1) & ~(page - 1);
	unsigned sync = 1;
	Dmabuf made;

	// What the GPU is asked to copy there is there for devices when the call returns.
	if (d.set_attribute)
		d.set_attribute(&sync, POINTER_ATTRIBUTE_SYNC_MEMOPS, addr);
	made.offset = addr - begin;
	if (!d.range_handle ||
	    d.range_handle(&made.fd, begin, end - begin, MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		made.fd = -1;
	return made;
}
