// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs, as CUDA's driver has it: the plug-in needs no part of CUDA to be built or loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct Dmabuf {
	int fd = -1;	     // -1: there is none. It is the caller's
	uint64_t offset = 0; // where the memory begins in it
};

// Whether there is a driver; if not, why gets the reason. It is not begun: a process that began it
// cannot use it after fork().
bool gpu_driver_present(std::string &why);

// Begin it: whether it finds a GPU.
bool gpu_present(std::string &why);

// Prepare memory of a GPU for devices that access it.
Dmabuf gpu_prepare(uintptr_t addr, size_t len);
