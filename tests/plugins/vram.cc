// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU through the engine of the NIXL back end: the GPU and the RDMA devices are in
// memory. vram: there is no GPU; vram LIBRARY: this is CUDA's driver.
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugins/nixl/engine.hh"

extern "C" {
#include "tests/fakes/fakecuda.h"
#include "tests/fakes/fakeverbs.h"
}

namespace
{

constexpr size_t LEN = 65536;

#define CHECK(condition)                                                                     \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			std::exit(1);                                                        \
		}                                                                            \
	} while (0)

// As abi::DescList, which only NIXL makes.
struct List {
	void *vtable = nullptr;
	abi::Mem type = abi::DRAM_SEG;
	std::vector<abi::MetaDesc> descs;

	const abi::DescList<abi::MetaDesc> &list() const
	{
		return *reinterpret_cast<const abi::DescList<abi::MetaDesc> *>(this);
	}
};

struct Agent {
	Agent(const char *name, abi::Params params) : custom(std::move(params))
	{
		abi::InitParams init{ name, "SLIME", &custom, true, 0, {}, false };

		engine = std::make_unique<Engine>(&init);
		CHECK(!engine->failed());
	}

	abi::Params custom;
	std::unique_ptr<Engine> engine;
};

List list_of(const void *addr, abi::Mem mem, abi::Metadata *md)
{
	List l;

	l.type = mem;
	l.descs.push_back({ { reinterpret_cast<uintptr_t>(addr), LEN, 0 }, md });
	return l;
}

abi::BlobDesc desc_of(const void *addr)
{
	return { { reinterpret_cast<uintptr_t>(addr), LEN, 0 }, "" };
}

bool has_vram(const Engine &e)
{
	abi::MemList mems = e.getSupportedMems();

	CHECK(mems[0] == abi::DRAM_SEG);
	return mems.size() == 2 && mems[1] == abi::VRAM_SEG;
}

abi::Status move(Engine &e, abi::Op op, const List &local, const List &remote)
{
	abi::Request *handle = nullptr;

	CHECK(e.prepXfer(op, local.list(), remote.list(), "b", handle, nullptr) == abi::SUCCESS);
	abi::Status s = e.postXfer(op, local.list(), remote.list(), "b", handle, nullptr);

	while (s == abi::IN_PROG)
		s = e.checkXfer(handle);
	CHECK(e.releaseReqH(handle) == abi::SUCCESS);
	return s;
}

// Without a GPU, or without rdma, it is not offered, and registering it is refused.
void vram__that_cannot_work_is_refused(const char *transports)
{
	Agent a("a", { { "transports", transports }, { "devices", "fake0" } });
	static char bytes[LEN];
	abi::Metadata *md;

	CHECK(!has_vram(*a.engine));
	CHECK(a.engine->registerMem(desc_of(bytes), abi::VRAM_SEG, md) == abi::ERR_NOT_SUPPORTED);
	CHECK(a.engine->registerMem(desc_of(bytes), abi::DRAM_SEG, md) == abi::SUCCESS);
	CHECK(a.engine->deregisterMem(md) == abi::SUCCESS);
}

// The agent prefers shm, which its host memory uses; that of the GPU goes over rdma.
void vram__is_read_and_written_over_rdma(const void *addr, unsigned char *backing)
{
	Agent a("a", { { "devices", "fake0" } }), b("b", { { "devices", "fake1" } });
	static unsigned char bytes[LEN];
	abi::Metadata *mine, *theirs, *local, *remote;
	abi::BlobDesc blob = desc_of(addr);
	std::string info;

	CHECK(has_vram(*a.engine) && has_vram(*b.engine));
	CHECK(a.engine->registerMem(desc_of(bytes), abi::DRAM_SEG, mine) == abi::SUCCESS);
	CHECK(b.engine->registerMem(blob, abi::VRAM_SEG, theirs) == abi::SUCCESS);
	CHECK(b.engine->getConnInfo(info) == abi::SUCCESS);
	CHECK(b.engine->getPublicData(theirs, blob.meta) == abi::SUCCESS);
	CHECK(a.engine->loadRemoteConnInfo("b", info) == abi::SUCCESS);
	CHECK(a.engine->loadRemoteMD(blob, abi::VRAM_SEG, "b", remote) == abi::SUCCESS);

	List here = list_of(bytes, abi::DRAM_SEG, mine),
	     there = list_of(addr, abi::VRAM_SEG, remote);

	std::memset(backing, 0x5a, LEN);
	CHECK(move(*a.engine, abi::READ, here, there) == abi::SUCCESS);
	CHECK(!std::memcmp(bytes, backing, LEN));
	std::memset(bytes, 0xa5, LEN);
	CHECK(move(*a.engine, abi::WRITE, here, there) == abi::SUCCESS);
	CHECK(!std::memcmp(bytes, backing, LEN));

	// Within one agent no CPU may touch it.
	CHECK(b.engine->loadLocalMD(theirs, local) == abi::SUCCESS);
	CHECK(move(*b.engine, abi::READ, list_of(addr, abi::VRAM_SEG, theirs),
		   list_of(addr, abi::VRAM_SEG, local)) == abi::ERR_NOT_SUPPORTED);
	b.engine->unloadMD(local);
	a.engine->unloadMD(remote);
	CHECK(a.engine->disconnect("b") == abi::SUCCESS);
	CHECK(a.engine->deregisterMem(mine) == abi::SUCCESS);
	CHECK(b.engine->deregisterMem(theirs) == abi::SUCCESS);
}

void vram__that_the_device_cannot_register_is_refused(const void *addr)
{
	Agent b("b", { { "devices", "fake1" } });
	abi::Metadata *md;

	CHECK(has_vram(*b.engine));
	CHECK(b.engine->registerMem(desc_of(addr), abi::VRAM_SEG, md) < 0);
}

// Address and bytes of memory of the fake GPU.
std::pair<void *, unsigned char *> allocate(void *library, fakecuda *cuda)
{
	auto push = reinterpret_cast<int (*)(void *)>(dlsym(library, "cuCtxPushCurrent_v2"));
	auto alloc = reinterpret_cast<int (*)(unsigned long long *, size_t)>(
		dlsym(library, "cuMemAlloc_v2"));
	unsigned long long addr = 0;

	cuda->on_alloc = [](void *at, size_t len, void *bytes) {
		fakeverbs_add_device_memory(at, len, bytes);
	};
	CHECK(!push(cuda) && !alloc(&addr, LEN));
	return { reinterpret_cast<void *>(addr), cuda->bytes };
}

} // namespace

int main(int argc, char **argv)
{
	fakeverbs_reset();
	if (argc < 2) {
		vram__that_cannot_work_is_refused("rdma,tcp");
		return fakeverbs_check() ? 1 : 0;
	}
	void *library = dlopen(argv[1], RTLD_NOW);

	CHECK(library);
	auto *cuda = static_cast<fakecuda *>(dlsym(library, "fakecuda"));
	auto [addr, backing] = allocate(library, cuda);

	vram__that_cannot_work_is_refused("shm,tcp");
	fakeverbs_device(1)->has_peer_memory = true;
	vram__is_read_and_written_over_rdma(addr, backing); // by address
	cuda->has_dmabuf = true;
	fakeverbs_device(1)->has_peer_memory = false;
	fakeverbs_device(1)->dmabuf_errno = 0;
	vram__is_read_and_written_over_rdma(addr, backing);
	cuda->has_dmabuf = false;
	vram__that_the_device_cannot_register_is_refused(addr);
	fakeverbs_add_device_memory(nullptr, 0, nullptr);
	return fakeverbs_check() ? 1 : 0;
}
