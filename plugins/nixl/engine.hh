// SPDX-License-Identifier: Apache-2.0
//
// A back end of one NIXL agent: a context, a listener whose descriptor is the agent's connection
// info, regions, peers, and the notifications that came. Any thread may call anything.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi.hh"
#include "control.hh"
#include "settings.hh"
#include <slime/slime.h>

// Of a clock that only moves on.
uint64_t now_ms();

// A negative errno of the library, as NIXL knows it.
abi::Status status_of(int err);

void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Memory that the agent registered. Handles may outlive the registration: mr is NULL then.
struct Region {
	uintptr_t addr;
	size_t len;
	bool is_device; // of a GPU: only rdma reaches it
	std::atomic<slime_mr *> mr;
};

// An endpoint to a peer. It goes with the last that uses it, on a thread that waits for its end.
struct Link {
	slime_endpoint *ep = nullptr;
	const Control *control = nullptr; // whose endpoint it is; NULL: ours
	std::atomic<bool> ended{ false };
	bool is_up() const;
	~Link();
};

// One life of another agent: of a second life the connection info differs. Its links are dialled
// when they are needed.
class Peer
{
      public:
	Peer(slime_context *c, const Settings &s, const Control *l, std::string n, std::string i)
	    : name(std::move(n)), info(std::move(i)), ctx(c), settings(s), control(l)
	{
		if (control)
			control->use(name_of_info(info));
	}
	~Peer();
	Peer(const Peer &) = delete;
	// The link, which is connected now or was a moment ago; NULL: the peer cannot be reached.
	// That for memory of GPUs is over rdma, and another one unless rdma is all that is allowed.
	std::shared_ptr<Link> link(bool for_device = false);

	// With nanoctrl: begin to connect.
	int begin();
	// nanoctrl, or the end of its connections, told of its end.
	void take_end(const PeerEnd &end);

	const std::string name;
	const std::string info;

      private:
	// One link, or the lack of it.
	struct Line {
		std::shared_ptr<Link> current;
		uint64_t retry_ms = 0; // no dial before
		bool said = false;     // that it cannot be reached, or was lost: the log has it
	};

	std::shared_ptr<Link> dial(Line &line, bool for_device);
	std::shared_ptr<Link> get(Line &line, bool for_device);

	slime_context *const ctx;
	const Settings &settings;
	const Control *const control; // NULL: without nanoctrl
	std::mutex mutex;
	bool is_dead = false;
	Line host, device;
};

struct LocalMetadata : abi::Metadata {
	std::shared_ptr<Region> region;
};

// Of a peer's region, or, without a peer, of one of our own.
struct Remote {
	std::shared_ptr<Peer> peer;
	slime_remote_mr mr;
	std::shared_ptr<Region> region;
	bool is_device = false;
};

struct RemoteMetadata : abi::Metadata {
	std::shared_ptr<Remote> remote;
};

// A notification on its way: a call, which the peer answers when the message is in its inbox.
class Notice
{
      public:
	Notice(slime_context *ctx, const std::string &from, const std::string &msg);
	~Notice();
	Notice(const Notice &) = delete;
	// 0 or a negative errno; is called once.
	int start(const std::shared_ptr<Link> &link);
	bool over() const;
	int status() const;
	void close();

      private:
	slime_call *call = nullptr;
	std::string bytes;
	std::shared_ptr<Link> link;
};

class Inbox
{
      public:
	// False: it is full.
	bool put(std::string from, std::string msg);
	void take(abi::NotifList &out);

      private:
	std::mutex mutex;
	abi::NotifList list;
	size_t n_bytes = 0;
};

class Transfer;

class Engine final : public abi::Engine
{
      public:
	explicit Engine(const abi::InitParams *init);
	~Engine() override;
	bool failed() const
	{
		return init_error;
	}

	bool supportsRemote() const override
	{
		return true;
	}
	bool supportsLocal() const override
	{
		return true;
	}
	bool supportsNotif() const override
	{
		return true;
	}
	abi::MemList getSupportedMems() const override
	{
		return offers_vram ? abi::MemList{ abi::DRAM_SEG, abi::VRAM_SEG }
				   : abi::MemList{ abi::DRAM_SEG };
	}
	abi::Status registerMem(const abi::BlobDesc &, const abi::Mem &,
				abi::Metadata *&out) override;
	abi::Status deregisterMem(abi::Metadata *) override;
	abi::Status connect(const std::string &agent) override;
	abi::Status disconnect(const std::string &agent) override;
	abi::Status unloadMD(abi::Metadata *) override;
	abi::Status prepXfer(const abi::Op &, const abi::DescList<abi::MetaDesc> &local,
			     const abi::DescList<abi::MetaDesc> &remote, const std::string &agent,
			     abi::Request *&handle, const abi::OptionalArgs *) const override;
	abi::Status postXfer(const abi::Op &, const abi::DescList<abi::MetaDesc> &local,
			     const abi::DescList<abi::MetaDesc> &remote, const std::string &agent,
			     abi::Request *&handle, const abi::OptionalArgs *) const override;
	abi::Status checkXfer(abi::Request *) const override;
	abi::Status releaseReqH(abi::Request *) const override;
	abi::Status getPublicData(const abi::Metadata *, std::string &) const override;
	abi::Status getConnInfo(std::string &) const override;
	abi::Status loadRemoteConnInfo(const std::string &agent, const std::string &info) override;
	abi::Status loadRemoteMD(const abi::BlobDesc &, const abi::Mem &, const std::string &agent,
				 abi::Metadata *&out) override;
	abi::Status loadLocalMD(abi::Metadata *in, abi::Metadata *&out) override;
	abi::Status getNotifs(abi::NotifList &) override;
	abi::Status genNotif(const std::string &agent, const std::string &msg) const override;

      private:
	friend class Transfer;

	void open();
	void open_alone(const slime_context_attr &ctx_attr, const slime_rpc_method_attr &method);
	bool can_reach_gpus(std::string &why);
	std::shared_ptr<Peer> find(const std::string &agent) const;
	void add_incoming(slime_endpoint *ep);
	void drop_ended();
	void drop_over() const;
	void forget(Transfer *t) const;
	void take_ends() const;
	void leave(const Region &region);
	static void on_endpoint(void *arg, slime_listener *l, slime_endpoint *ep);
	static void on_state(void *arg, slime_endpoint *ep, slime_endpoint_state state, int cause);
	static void on_notice(void *arg, slime_rpc_request *req);

	Settings settings;
	std::unique_ptr<Control> control; // NULL: without nanoctrl
	slime_context *ctx = nullptr;
	slime_rpc_service *service = nullptr;
	slime_listener *listener = nullptr;
	std::string info;
	bool offers_vram = false;
	std::string why_no_vram;
	mutable Inbox inbox;

	mutable std::mutex mutex; // of the following
	std::unordered_map<std::string, std::shared_ptr<Peer>> peers;
	std::vector<slime_endpoint *> incoming;		  // of peers that dialled us
	std::vector<slime_mr *> stuck;			  // regions that a peer may still reach
	mutable std::unordered_set<Transfer *> transfers; // all that there are
	mutable std::vector<std::unique_ptr<Notice>> notices;
	mutable std::vector<std::unique_ptr<Transfer>> released; // while in flight
	std::atomic<bool> some_ended{ false };
};
