// SPDX-License-Identifier: Apache-2.0
//
// The registration with nanoctrl, where the settings name one: a lease, links to other agents by
// name, and the news of their end. libslime-agent needs libevent and jansson of the host, so the
// plug-in is built with it and without: control_agent.cc, control_none.cc.
#pragma once

#include <memory>
#include <string>

#include "settings.hh"

struct PeerEnd {
	std::string agent;
	std::string words;
	bool is_final;	    // it left, or another process has its name
	bool is_lease_over; // it may only stand still: links stay, and it may come back
};

class Control
{
      public:
	virtual ~Control() = default;

	virtual slime_context *context() const = 0;
	// The agent's name. Each life has one of its own: that of the NIXL agent, and a random
	// part.
	virtual std::string name() const = 0;
	// One more user of the links to it. Each use() has its forget().
	virtual void use(const std::string &name) const = 0;
	// Keep a link to it up; for memory of GPUs another one, over rdma.
	virtual int want(const std::string &name, bool for_device) const = 0;
	// One user less. After the last one the links are not kept up any more.
	virtual void forget(const std::string &name) const = 0;
	// The endpoint of a link, once it is connected. It is put back.
	virtual int get(const std::string &name, bool for_device, int64_t timeout_ms,
			slime_endpoint **out) const = 0;
	virtual void put(slime_endpoint *ep) const = 0;
	// False: there is no news.
	virtual bool next_end(PeerEnd &out) const = 0;
	// Close all links and leave. Endpoints, regions and the context stay.
	virtual void stop() = 0;
};

// Waits for the registration. The method is offered to every peer. Throws std::runtime_error.
std::unique_ptr<Control> make_control(const Settings &s, const std::string &nixl_name,
				      const slime_context_attr &data, const char *method_name,
				      const slime_rpc_method_attr &method);

// Connection info of an agent with nanoctrl, and the name in it; "": it is of another one.
std::string info_of_name(const std::string &name);
std::string name_of_info(const std::string &info);
