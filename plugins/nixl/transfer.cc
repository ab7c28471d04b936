// SPDX-License-Identifier: Apache-2.0
#include "transfer.hh"

#include <cerrno>
#include <cstring>

Transfer::Transfer(const Engine &e, abi::Op o) : engine(e), op_kind(o)
{
}

Transfer::~Transfer()
{
	engine.forget(this);
	unprepare();
	slime_op_destroy(op);
}

// Nothing of it is in flight.
void Transfer::unprepare()
{
	if (slime_batch_destroy(batch))
		say("a batch is left behind: it is in flight");
	batch = nullptr;
	prepared_link.reset();
}

void Transfer::leave(const Region &region)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (const auto &r : regions) {
		// In flight it stays, and keeps the region until it has ended.
		if (r.get() == &region && !slime_batch_destroy(batch))
			batch = nullptr;
	}
}

abi::Status Transfer::add(const abi::MetaDesc &l, const abi::MetaDesc &r)
{
	auto *lm = dynamic_cast<LocalMetadata *>(l.md);
	auto *rm = dynamic_cast<RemoteMetadata *>(r.md);

	if (!lm || !rm || l.len != r.len)
		return abi::ERR_INVALID_PARAM;
	const Region &region = *lm->region;
	const Remote &remote = *rm->remote;
	uintptr_t base = remote.peer ? remote.mr.addr : remote.region->addr;
	size_t len = remote.peer ? remote.mr.len : remote.region->len;

	if (l.addr < region.addr || l.addr - region.addr > region.len ||
	    l.len > region.len - (l.addr - region.addr) || r.addr < base || r.addr - base > len ||
	    r.len > len - (r.addr - base))
		return abi::ERR_INVALID_PARAM;
	uses_device |= region.is_device || remote.is_device;
	if (remotes.empty())
		peer = remote.peer;
	else if (peer != remote.peer)
		return abi::ERR_INVALID_PARAM;
	if (remotes.empty() || remotes.back() != rm->remote)
		remotes.push_back(rm->remote);
	if (regions.empty() || regions.back() != lm->region)
		regions.push_back(lm->region);
	if (!l.len)
		return abi::SUCCESS;
	slime_xfer x{};
	x.local = region.mr;
	x.remote = &remote.mr;
	x.local_offset = l.addr - region.addr;
	x.remote_offset = r.addr - base;
	x.len = l.len;
	pieces.push_back(x);
	return abi::SUCCESS;
}

abi::Status Transfer::prepare(const std::vector<abi::MetaDesc> &local,
			      const std::vector<abi::MetaDesc> &remote)
{
	if (local.size() != remote.size() || local.empty())
		return abi::ERR_INVALID_PARAM;
	pieces.reserve(local.size());
	for (size_t i = 0; i < local.size(); i++) {
		abi::Status s = add(local[i], remote[i]);

		if (s != abi::SUCCESS)
			return s;
	}
	return slime_op_create(engine.ctx, nullptr, &op) ? abi::ERR_BACKEND : abi::SUCCESS;
}

abi::Status Transfer::finish(abi::Status status)
{
	if (given_up && status == abi::ERR_CANCELED)
		status = abi::ERR_REMOTE_DISCONNECT;
	given_up = false;
	state = State::IDLE;
	notice.reset();
	link.reset();
	return status;
}

// In flight: its time may be over. Only the end of the link ends it, which all on it share.
abi::Status Transfer::wait_on()
{
	if (!given_up && deadline_ms && now_ms() >= deadline_ms) {
		say("agent %s: a transfer did not end within %llu ms (op_timeout_ms): the "
		    "link is closed",
		    peer->name.c_str(),
		    static_cast<unsigned long long>(engine.settings.op_timeout_ms));
		given_up = true;
		link->ended = true;
		slime_endpoint_close(link->ep);
	}
	return abi::IN_PROG;
}

// The bytes are there: now the peer is told.
abi::Status Transfer::notify()
{
	if (!has_notif)
		return finish(abi::SUCCESS);
	notice = std::make_unique<Notice>(engine.ctx, engine.local_agent, notif);
	int ret = notice->start(link);

	if (ret)
		return finish(status_of(ret));
	state = State::NOTICE;
	return abi::IN_PROG;
}

abi::Status Transfer::check()
{
	if (state == State::IDLE)
		return abi::ERR_NOT_POSTED;
	// What a post copied itself is done, and needs no progress.
	if (state != State::BYTES || !slime_op_test(op))
		slime_context_poll(engine.ctx);
	if (state == State::BYTES) {
		if (!slime_op_test(op))
			return wait_on();
		int ret = slime_op_status(op);

		if (ret)
			return finish(status_of(ret));
		abi::Status s = notify();

		if (s != abi::IN_PROG)
			return s;
	}
	if (!notice->over())
		return wait_on();
	return finish(status_of(notice->status()));
}

// Within this agent: a copy.
abi::Status Transfer::post_local(const std::string *msg)
{
	size_t r = 0;

	for (const slime_xfer &x : pieces) {
		while (x.remote != &remotes[r]->mr)
			r++;
		if (!remotes[r]->region->mr)
			return abi::ERR_NOT_FOUND;
		auto *here = static_cast<char *>(slime_mr_addr(x.local)) + x.local_offset;
		auto *there = reinterpret_cast<char *>(remotes[r]->region->addr) + x.remote_offset;

		if (op_kind == abi::READ)
			std::memmove(here, there, x.len);
		else
			std::memmove(there, here, x.len);
	}
	if (msg && !engine.inbox.put(engine.local_agent, *msg))
		return abi::ERR_BACKEND;
	return abi::SUCCESS;
}

// Over the link: prepared for it by the first post.
abi::Status Transfer::submit()
{
	std::lock_guard<std::mutex> lock(mutex);
	int ret = 0;

	if (!batch || prepared_link != link) {
		unprepare();
		ret = slime_batch_create(
			link->ep, op_kind == abi::READ ? SLIME_BATCH_READ : SLIME_BATCH_WRITE,
			pieces.data(), pieces.size(), &batch);
		if (!ret)
			prepared_link = link;
	}
	if (!ret)
		ret = slime_batch_submit(link->ep, batch, 0, op);
	return status_of(ret);
}

abi::Status Transfer::post_remote()
{
	engine.take_ends();
	link = peer->link(uses_device);
	if (!link)
		return abi::ERR_REMOTE_DISCONNECT;
	abi::Status s = submit();

	if (s != abi::SUCCESS)
		return finish(s);
	state = State::BYTES;
	deadline_ms = engine.settings.op_timeout_ms ? now_ms() + engine.settings.op_timeout_ms : 0;
	return check();
}

abi::Status Transfer::post(const std::string *msg)
{
	if (in_flight())
		return abi::ERR_REPOST_ACTIVE;
	for (const auto &r : regions) {
		if (!r->mr)
			return abi::ERR_NOT_FOUND;
	}
	if (!peer && uses_device) {
		say("memory of a GPU cannot be moved within one agent");
		return abi::ERR_NOT_SUPPORTED;
	}
	if (!peer)
		return post_local(msg);
	has_notif = msg;
	notif = msg ? *msg : std::string();
	return post_remote();
}

void Transfer::close()
{
	if (link)
		slime_endpoint_close(link->ep);
	if (notice)
		notice->close();
	if (slime_op_wait(op, -1))
		say("a transfer cannot be waited for");
	finish(abi::ERR_CANCELED);
}
