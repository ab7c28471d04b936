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

Link::~Link()
{
	if (slime_endpoint_destroy(ep))
		say("an endpoint is left behind: it was to be destroyed inside a callback");
}

std::shared_ptr<Link> Peer::dial()
{
	slime_endpoint_attr attr;
	auto made = std::make_shared<Link>();
	slime_op *op;

	slime_endpoint_attr_init(&attr);
	attr.name = name.c_str();
	for (size_t i = 0; i < settings.transports.size(); i++)
		attr.transports[i] = settings.transports[i];
	attr.on_state = on_link_state;
	attr.arg = made.get();
	int ret = slime_op_create(ctx, nullptr, &op);

	if (ret)
		return nullptr;
	ret = slime_endpoint_create(ctx, &attr, &made->ep);
	if (!ret)
		ret = slime_endpoint_dial(made->ep, info.data(), info.size(), DIAL_MS, op);
	if (ret && !said)
		say("cannot dial agent %s: %s", name.c_str(), std::strerror(-ret));
	said = true;
	if (!ret)
		ret = slime_op_wait(op, -1);
	if (!ret)
		ret = slime_op_status(op); // the library's log has the reason
	slime_op_destroy(op);
	return ret ? nullptr : made;
}

std::shared_ptr<Link> Peer::link()
{
	std::lock_guard<std::mutex> lock(mutex);

	if (current && !current->ended)
		return current;
	current.reset();
	if (now_ms() < retry_ms)
		return nullptr;
	current = dial();
	if (!current)
		retry_ms = now_ms() + RETRY_MS;
	return current;
}
