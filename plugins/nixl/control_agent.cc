// SPDX-License-Identifier: Apache-2.0
#include "control.hh"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "engine.hh"
#include <slime/agent.h>

namespace
{

constexpr int64_t READY_MS = 20000;
constexpr int64_t STOP_MS = 6000;    // as slime_agent_destroy() waits
constexpr size_t NAME_MAX_LEN = 200; // the library's limit is higher, for the random part
constexpr const char *HOST = "default", *DEVICE = "gpu"; // profiles of links

// Names of agents have fewer characters than those of NIXL; the label has it whole.
std::string name_of_life(const std::string &nixl_name)
{
	std::string name = nixl_name.substr(0, NAME_MAX_LEN);
	char random[20];

	for (char &c : name) {
		if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("._:@-", c))
			c = '-';
	}
	std::snprintf(random, sizeof(random), ".%08x", std::random_device()());
	return name + random;
}

std::vector<std::string> split(const std::string &list)
{
	std::vector<std::string> out;
	std::istringstream in(list);
	std::string word;

	while (std::getline(in, word, ','))
		out.push_back(word);
	return out;
}

class Agent final : public Control
{
      public:
	Agent(const Settings &s, const std::string &nixl_name, const slime_context_attr &data,
	      const char *method_name, const slime_rpc_method_attr &method);
	~Agent() override;

	slime_context *context() const override
	{
		return slime_agent_context(agent);
	}
	std::string name() const override
	{
		return slime_agent_name(agent);
	}
	void use(const std::string &name) const override;
	int want(const std::string &name, bool for_device) const override;
	void forget(const std::string &name) const override;
	int get(const std::string &name, bool for_device, int64_t timeout_ms,
		slime_endpoint **out) const override
	{
		return slime_agent_endpoint_get(agent, name.c_str(), for_device ? DEVICE : HOST,
						timeout_ms, out);
	}
	void put(slime_endpoint *ep) const override
	{
		slime_agent_endpoint_put(agent, ep);
	}
	bool next_end(PeerEnd &out) const override;
	void stop() override;

      private:
	slime_agent *agent = nullptr;
	slime_agent_watch *watch = nullptr;
	mutable std::mutex mutex; // of n_users; held until the links of the last one are removed
	mutable std::unordered_map<std::string, size_t> n_users; // of links, by agent
};

Agent::Agent(const Settings &s, const std::string &nixl_name, const slime_context_attr &data,
	     const char *method_name, const slime_rpc_method_attr &method)
{
	std::vector<std::string> urls = split(s.ctrl);
	std::vector<const char *> pointers;
	std::string name = name_of_life(nixl_name);
	slime_label label{ "nixl", nixl_name.c_str() };
	slime_agent_attr attr;

	for (const std::string &url : urls)
		pointers.push_back(url.c_str());
	slime_agent_attr_init(&attr);
	attr.name = name.c_str();
	attr.scope = s.scope.c_str();
	attr.urls = pointers.data();
	attr.n_urls = pointers.size();
	attr.topology.labels = &label;
	attr.topology.n_labels = 1;
	attr.data = data;
	for (size_t i = 0; i < s.transports.size(); i++)
		attr.transports[i] = s.transports[i];
	int ret = slime_agent_create(&attr, &agent);

	if (!ret)
		ret = slime_agent_method_add(agent, method_name, &method);
	if (!ret)
		ret = slime_agent_watch_create(agent, nullptr, nullptr, &watch);
	if (!ret)
		ret = slime_agent_start(agent);
	if (!ret)
		ret = slime_agent_wait_ready(agent, READY_MS);
	if (!ret)
		return;
	slime_agent_watch_destroy(watch);
	slime_agent_destroy(agent);
	throw std::runtime_error("no registration with nanoctrl at " + s.ctrl + ": " +
				 std::strerror(-ret));
}

Agent::~Agent()
{
	slime_agent_watch_destroy(watch);
	int ret = slime_agent_destroy(agent);

	if (ret)
		say("the registration with nanoctrl is left behind: %s", std::strerror(-ret));
}

void Agent::stop()
{
	int ret = slime_agent_stop(agent, STOP_MS);

	if (ret)
		say("the agent did not leave in order: %s", std::strerror(-ret));
}

void Agent::use(const std::string &name) const
{
	std::lock_guard<std::mutex> lock(mutex);

	n_users[name]++;
}

int Agent::want(const std::string &name, bool for_device) const
{
	slime_agent_link link{};

	link.to = name.c_str();
	link.profile = for_device ? DEVICE : HOST;
	if (for_device)
		link.transports[0] = SLIME_TRANSPORT_RDMA;
	int ret = slime_agent_link_add(agent, &link);

	return ret == -EEXIST ? 0 : ret;
}

void Agent::forget(const std::string &name) const
{
	std::lock_guard<std::mutex> lock(mutex);
	auto found = n_users.find(name);

	if (--found->second)
		return;
	n_users.erase(found);
	slime_agent_link_remove(agent, name.c_str(), HOST);
	slime_agent_link_remove(agent, name.c_str(), DEVICE);
}

bool Agent::next_end(PeerEnd &out) const
{
	slime_peer_end end;

	if (slime_agent_watch_next(watch, &end))
		return false;
	out.agent = end.peer;
	out.words = std::string(slime_peer_end_name(end.reason)) + ": " + end.text;
	out.is_lease_over = end.reason == SLIME_PEER_EXPIRED;
	out.is_final = !out.is_lease_over && end.reason != SLIME_PEER_RESET;
	return true;
}

} // namespace

std::unique_ptr<Control> make_control(const Settings &s, const std::string &nixl_name,
				      const slime_context_attr &data, const char *method_name,
				      const slime_rpc_method_attr &method)
{
	return std::make_unique<Agent>(s, nixl_name, data, method_name, method);
}
