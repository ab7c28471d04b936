// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <ctime>

#include "engine.hh"

namespace
{

// Between two dials of a peer that could not be reached: posts to a dead one are cheap.
constexpr uint64_t RETRY_MS = 500;
constexpr int64_t DIAL_MS = 2000;

void on_link_state(void *arg, slime_endpoint *, slime_endpoint_state state, int)
{
	if (state == SLIME_ENDPOINT_BROKEN || state == SLIME_ENDPOINT_CLOSED)
		static_cast<Link *>(arg)->ended = true;
}

} // namespace

uint64_t now_ms()
{
	timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return static_cast<uint64_t>(ts.tv_sec) * 1000 +
	       static_cast<uint64_t>(ts.tv_nsec) / 1000000;
}

bool Link::is_up() const
{
	struct slime_endpoint_info info;

	if (!control)
		return !ended;
	slime_endpoint_info(ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

Link::~Link()
{
	if (control && ep)
		control->put(ep);
	else if (slime_endpoint_destroy(ep))
		say("an endpoint is left behind: it was to be destroyed inside a callback");
}

std::shared_ptr<Link> Peer::dial(Line &line, bool for_device)
{
	slime_endpoint_attr attr;
	auto made = std::make_shared<Link>();
	slime_op *op;

	slime_endpoint_attr_init(&attr);
	attr.name = name.c_str();
	for (size_t i = 0; i < settings.transports.size(); i++)
		attr.transports[i] = settings.transports[i];
	if (for_device) {
		attr.transports[0] = SLIME_TRANSPORT_RDMA;
		attr.transports[1] = SLIME_TRANSPORT_NONE;
	}
	attr.on_state = on_link_state;
	attr.arg = made.get();
	int ret = slime_op_create(ctx, nullptr, &op);

	if (ret)
		return nullptr;
	ret = slime_endpoint_create(ctx, &attr, &made->ep);
	if (!ret)
		ret = slime_endpoint_dial(made->ep, info.data(), info.size(), DIAL_MS, op);
	if (ret && !line.said)
		say("cannot dial agent %s: %s", name.c_str(), std::strerror(-ret));
	line.said = true;
	if (!ret)
		ret = slime_op_wait(op, -1);
	if (!ret)
		ret = slime_op_status(op); // the library's log has the reason
	slime_op_destroy(op);
	return ret ? nullptr : made;
}

int Peer::begin()
{
	return control ? control->want(name_of_info(info), settings.is_rdma_alone()) : 0;
}

Peer::~Peer()
{
	host.current.reset();
	device.current.reset();
	if (control)
		control->forget(name_of_info(info));
}

void Peer::take_end(const PeerEnd &end)
{
	std::lock_guard<std::mutex> lock(mutex);

	if (end.is_lease_over) {
		for (const Line *line : { &host, &device }) {
			if (line->current && line->current->is_up())
				return;
		}
		// Not its end: the agent may have a link that no post used yet, or get one later.
		// A post takes it, and waits for none.
		host.said = device.said = true;
		say("the lease of agent %s ended (%s)", name.c_str(), end.words.c_str());
		return;
	}
	if (!end.is_final) { // its connection broke: it may be reached again
		host.retry_ms = device.retry_ms = now_ms() + RETRY_MS;
		return;
	}
	is_dead = true;
	say("agent %s has ended (%s)", name.c_str(), end.words.c_str());
}

// The agent keeps its link up: only the first one is waited for.
std::shared_ptr<Link> Peer::get(Line &line, bool for_device)
{
	auto made = std::make_shared<Link>();
	std::string agent = name_of_info(info);
	int ret = control->want(agent, for_device);

	if (!ret)
		ret = control->get(agent, for_device, line.said ? 0 : DIAL_MS, &made->ep);
	if (ret && !line.said)
		say("cannot link with agent %s: %s", name.c_str(), std::strerror(-ret));
	line.said = true;
	made->control = control;
	return ret ? nullptr : made;
}

std::shared_ptr<Link> Peer::link(bool for_device)
{
	std::lock_guard<std::mutex> lock(mutex);
	Line &line = for_device && !settings.is_rdma_alone() ? device : host;

	if (is_dead)
		return nullptr;
	if (line.current && line.current->is_up())
		return line.current;
	line.current.reset();
	if (now_ms() < line.retry_ms)
		return nullptr;
	for_device |= settings.is_rdma_alone();
	line.current = control ? get(line, for_device) : dial(line, for_device);
	if (!line.current)
		line.retry_ms = now_ms() + RETRY_MS;
	return line.current;
}
