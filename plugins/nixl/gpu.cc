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

// The driver's functions that we call. It is loaded once, and stays.
struct Driver {
	Driver()
	{
		void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		int n = 0;

		if (!library) {
			why = dlerror();
			return;
		}
		auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
		auto count = reinterpret_cast<int (*)(int *)>(dlsym(library, "cuDeviceGetCount"));

		if (!init || !count || init(0) || count(&n) || n < 1) {
			why = "libcuda.so.1 finds no GPU";
			return;
		}
		set_attribute = reinterpret_cast<decltype(set_attribute)>(
			dlsym(library, "cuPointerSetAttribute"));
		// Not before CUDA 11.7.
		range_handle = reinterpret_cast<decltype(range_handle)>(
			dlsym(library, "cuMemGetHandleForAddressRange"));
	}

	std::string why; // empty: there is a GPU
	int (*set_attribute)(const void *, int, Pointer) = nullptr;
	int (*range_handle)(void *, Pointer, size_t, int, unsigned long long) = nullptr;
};

const Driver &driver()
{
	static const Driver d;

	return d;
}

} // namespace

bool gpu_present(std::string &why)
{
	why = driver().why;
	return why.empty();
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
