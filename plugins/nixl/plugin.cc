// SPDX-License-Identifier: Apache-2.0
// What NIXL looks up in libplugin_SLIME.so.
#include <exception>
#include <memory>

#include "engine.hh"
#include "gpu.hh"

namespace
{

// No exception leaves: the agent takes NULL for a failure.
abi::Engine *create_engine(const abi::InitParams *init)
try {
	auto e = std::make_unique<Engine>(init);

	return e->failed() ? nullptr : e.release();
} catch (const std::exception &e) {
	say("no engine: %s", e.what());
	return nullptr;
}

void destroy_engine(abi::Engine *e)
{
	delete e;
}

const char *get_name()
{
	return "SLIME";
}

// Of which an engine offers VRAM only where it can work: engine.hh.
abi::MemList get_mems()
{
	std::string why;

	if (gpu_driver_present(why))
		return { abi::DRAM_SEG, abi::VRAM_SEG };
	return { abi::DRAM_SEG };
}

abi::Plugin plugin = { 1,	 create_engine, destroy_engine,
		       get_name, slime_version, settings_defaults,
		       get_mems };

} // namespace

extern "C" __attribute__((visibility("default"))) abi::Plugin *nixl_plugin_init();
extern "C" __attribute__((visibility("default"))) void nixl_plugin_fini();

abi::Plugin *nixl_plugin_init()
{
	return &plugin;
}

void nixl_plugin_fini()
{
}
