// SPDX-License-Identifier: Apache-2.0
//
// What NIXL's agent and a back end agree on, api_version 1, in declarations of our own: the order
// of virtual functions and the layout of members count, names do not. docs/nixl.md has the versions
// of the wheel that it was tried with.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace abi
{

enum Mem : int { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };
enum Op : int { READ, WRITE };
enum Status : int {
	IN_PROG = 1,
	SUCCESS = 0,
	ERR_NOT_POSTED = -1,
	ERR_INVALID_PARAM = -2,
	ERR_BACKEND = -3,
	ERR_NOT_FOUND = -4,
	ERR_MISMATCH = -5,
	ERR_NOT_ALLOWED = -6,
	ERR_REPOST_ACTIVE = -7,
	ERR_UNKNOWN = -8,
	ERR_NOT_SUPPORTED = -9,
	ERR_REMOTE_DISCONNECT = -10,
	ERR_CANCELED = -11,
};
enum class ThreadSync : int { NONE, STRICT, RW };
enum class Cost : int { ANALYTICAL };

using Params = std::unordered_map<std::string, std::string>;
using MemList = std::vector<Mem>;
using NotifList = std::vector<std::pair<std::string, std::string>>; // sender, message
using QueryResp = std::optional<Params>;
using MemView = void *;
struct AgentOptionalArgs;

struct InitParams {
	std::string local_agent;
	std::string type;
	Params *custom;
	bool progress_thread;
	uint64_t progress_delay_us;
	ThreadSync sync;
	bool telemetry;
};

struct OptionalArgs {
	std::string notif;
	bool has_notif;
	std::string custom;
};

struct Desc {
	uintptr_t addr;
	size_t len;
	uint64_t dev;
};

struct BlobDesc : Desc {
	std::string meta;
};

// The plug-in's own data of a region: a pointer to it goes with each descriptor.
class Metadata
{
      public:
	virtual ~Metadata() = default;
	bool is_private = false;
};

struct MetaDesc : Desc {
	Metadata *md;
};

struct RemoteMetaDesc : MetaDesc {
	std::string agent;
};

// Only ever read: the agent makes them.
template <typename T> struct DescList {
	DescList() = delete;
	void *vtable;
	Mem type;
	std::vector<T> descs;
};

class Request
{
      public:
	virtual ~Request() = default;
};

struct TelemetryEvent {
	uint32_t type;
	uint64_t value;
};

class Engine
{
      public:
	explicit Engine(const InitParams *init)
	    : backend_type(init->type), custom_params(init->custom ? *init->custom : Params()),
	      local_agent(init->local_agent), telemetry(init->telemetry)
	{
	}
	virtual ~Engine() = default;

	virtual bool supportsRemote() const = 0;
	virtual bool supportsLocal() const = 0;
	virtual bool supportsNotif() const = 0;
	virtual MemList getSupportedMems() const = 0;
	virtual Status registerMem(const BlobDesc &, const Mem &, Metadata *&out) = 0;
	virtual Status deregisterMem(Metadata *) = 0;
	virtual Status connect(const std::string &agent) = 0;
	virtual Status disconnect(const std::string &agent) = 0;
	virtual Status unloadMD(Metadata *) = 0;
	virtual Status prepXfer(const Op &, const DescList<MetaDesc> &local,
				const DescList<MetaDesc> &remote, const std::string &agent,
				Request *&handle, const OptionalArgs *) const = 0;
	virtual Status postXfer(const Op &, const DescList<MetaDesc> &local,
				const DescList<MetaDesc> &remote, const std::string &agent,
				Request *&handle, const OptionalArgs *) const = 0;
	virtual Status checkXfer(Request *) const = 0;
	virtual Status releaseReqH(Request *) const = 0;
	virtual Status prepMemView(const DescList<RemoteMetaDesc> &, MemView &,
				   const OptionalArgs *) const
	{
		return ERR_NOT_SUPPORTED;
	}
	virtual Status prepMemView(const DescList<MetaDesc> &, MemView &,
				   const OptionalArgs *) const
	{
		return ERR_NOT_SUPPORTED;
	}
	virtual void releaseMemView(MemView) const
	{
	}
	virtual Status getPublicData(const Metadata *, std::string &) const = 0;
	virtual Status getConnInfo(std::string &) const = 0;
	virtual Status loadRemoteConnInfo(const std::string &agent, const std::string &info) = 0;
	virtual Status loadRemoteMD(const BlobDesc &, const Mem &, const std::string &agent,
				    Metadata *&out) = 0;
	virtual Status loadLocalMD(Metadata *in, Metadata *&out) = 0;
	virtual Status getNotifs(NotifList &) = 0;
	virtual Status genNotif(const std::string &agent, const std::string &msg) const = 0;
	virtual Status queryMem(const DescList<BlobDesc> &, std::vector<QueryResp> &) const
	{
		return ERR_NOT_SUPPORTED;
	}
	virtual Status estimateXferCost(const Op &, const DescList<MetaDesc> &,
					const DescList<MetaDesc> &, const std::string &,
					Request *const &, std::chrono::microseconds &,
					std::chrono::microseconds &, Cost &,
					const AgentOptionalArgs *) const
	{
		return ERR_NOT_SUPPORTED;
	}

      private:
	std::string backend_type;
	Params custom_params;
	std::vector<TelemetryEvent> telemetry_events;
	std::mutex telemetry_mutex;

      protected:
	bool init_error = false;
	const std::string local_agent;
	const bool telemetry;
};

struct Plugin {
	int api_version;
	Engine *(*create_engine)(const InitParams *);
	void (*destroy_engine)(Engine *);
	const char *(*get_name)();
	const char *(*get_version)();
	Params (*get_options)();
	MemList (*get_mems)();
};

#if defined(__x86_64__)
static_assert(sizeof(Plugin) == 56);
static_assert(sizeof(InitParams) == 96);
static_assert(sizeof(OptionalArgs) == 72);
static_assert(sizeof(Desc) == 24);
static_assert(sizeof(BlobDesc) == 56);
static_assert(sizeof(MetaDesc) == 32);
static_assert(sizeof(RemoteMetaDesc) == 64);
static_assert(sizeof(DescList<MetaDesc>) == 40);
static_assert(sizeof(Metadata) == 16);
static_assert(sizeof(Request) == 8);
static_assert(sizeof(TelemetryEvent) == 16);
static_assert(sizeof(Engine) == 208);
static_assert(sizeof(QueryResp) == 64);
#endif

} // namespace abi
