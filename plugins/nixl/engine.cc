// SPDX-License-Identifier: Apache-2.0
#include "engine.hh"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include <unistd.h>

#include "gpu.hh"
#include "notice.hh"
#include "transfer.hh"

namespace
{

// Longer than the library takes to find that a peer is dead.
constexpr auto WITHDRAW_PATIENCE = std::chrono::seconds(3);
// Notifications without a transfer that wait for their answer.
constexpr size_t NOTICES_MAX = 1024;
// Until a device that is there has opened, and registered memory of a GPU.
constexpr int64_t DEVICE_PATIENCE_MS = 10000;
// Bytes that a post over shm copies itself, in about a millisecond. What is left to progress may be
// copied by another thread, for which a loaded machine has no CPU.
constexpr uint32_t COPY_IN_POST = 16u << 20;

void must(const char *what, int ret)
{
	if (ret < 0)
		throw std::runtime_error(std::string(what) + ": " + std::strerror(-ret));
}

} // namespace

void say(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	std::vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	std::fprintf(stderr, "nixl slime: %s\n", line);
}

abi::Status status_of(int err)
{
	switch (err) {
	case 0:
		return abi::SUCCESS;
	case -ECONNRESET:
	case -ENOTCONN:
	case -ECONNREFUSED:
	case -ETIMEDOUT:
		return abi::ERR_REMOTE_DISCONNECT;
	case -ECANCELED:
		return abi::ERR_CANCELED;
	case -EINVAL:
	case -ERANGE:
		return abi::ERR_INVALID_PARAM;
	case -ESTALE:
		return abi::ERR_NOT_FOUND;
	case -EACCES:
		return abi::ERR_NOT_ALLOWED;
	case -EOPNOTSUPP:
		return abi::ERR_NOT_SUPPORTED;
	default:
		return abi::ERR_BACKEND;
	}
}

namespace
{

const std::string NAMED = "slime-agent/1 ";

}

std::string info_of_name(const std::string &name)
{
	return NAMED + name;
}

std::string name_of_info(const std::string &info)
{
	return info.compare(0, NAMED.size(), NAMED) ? "" : info.substr(NAMED.size());
}

// ---- life ----

void Engine::open()
{
	slime_context_attr ctx_attr;
	slime_rpc_method_attr method;

	slime_context_attr_init(&ctx_attr);
	ctx_attr.polling = settings.polling;
	ctx_attr.foreign_memory = settings.foreign_memory;
	ctx_attr.shm_copy_in_submit = COPY_IN_POST;
	ctx_attr.max_regions = 65536;
	ctx_attr.max_endpoints = 65536;
	ctx_attr.tcp_bind = settings.bind.c_str();
	if (!settings.advertise.empty())
		ctx_attr.tcp_advertise = settings.advertise.c_str();
	if (!settings.devices.empty())
		ctx_attr.rdma_devices = settings.devices.c_str();
	slime_rpc_method_attr_init(&method);
	method.fn = on_notice;
	method.arg = this;
	method.flags = SLIME_RPC_INLINE;
	method.max_message = NOTICE_MAX;
	if (settings.ctrl.empty()) {
		open_alone(ctx_attr, method);
	} else {
		control = make_control(settings, local_agent, ctx_attr, NOTICE_METHOD, method);
		ctx = control->context();
		info = info_of_name(control->name());
	}
	offers_vram = can_reach_gpus(why_no_vram);
}

// Without nanoctrl peers dial a listener.
void Engine::open_alone(const slime_context_attr &ctx_attr, const slime_rpc_method_attr &method)
{
	slime_listener_attr attr;
	char desc[SLIME_LISTENER_DESC_MAX];

	must("no context", slime_context_create(&ctx_attr, &ctx));
	must("no service", slime_rpc_service_create(ctx, &service));
	must("no method", slime_rpc_method_add(service, NOTICE_METHOD, &method));

	slime_listener_attr_init(&attr);
	attr.tcp_bind = settings.bind.c_str();
	attr.tcp_advertise = ctx_attr.tcp_advertise;
	attr.max_endpoints = ctx_attr.max_endpoints / 2;
	attr.endpoint.name = "nixl peer";
	// Of a peer that dies the link to it is what the log has.
	attr.endpoint.quiet = true;
	for (size_t i = 0; i < settings.transports.size(); i++)
		attr.endpoint.transports[i] = settings.transports[i];
	attr.endpoint.service = service;
	attr.endpoint.on_state = on_state;
	attr.endpoint.arg = this;
	attr.on_endpoint = on_endpoint;
	attr.arg = this;
	must("cannot listen", slime_listener_create(ctx, &attr, &listener));
	int len = slime_listener_export(listener, desc, sizeof(desc));

	must("no descriptor", len);
	info.assign(desc, static_cast<size_t>(len));
}

// An RDMA device that registers memory has to be there, and a GPU, whose driver is begun last.
bool Engine::can_reach_gpus(std::string &why)
{
	alignas(4096) static char page[4096];
	slime_mr *mr;

	if (!settings.allows_rdma()) {
		why = "only rdma reaches it, which transports do not allow";
		return false;
	}
	if (!gpu_driver_present(why))
		return false;
	int ret = slime_mr_create(ctx, page, sizeof(page), 0, &mr);

	if (!ret) {
		ret = slime_mr_register(mr, DEVICE_PATIENCE_MS);
		slime_mr_destroy(mr);
	}
	if (ret)
		why = std::string("no RDMA device can be used: ") + std::strerror(-ret);
	return !ret && gpu_present(why);
}

Engine::Engine(const abi::InitParams *init) : abi::Engine(init)
{
	try {
		settings = settings_read(init->custom ? *init->custom : abi::Params());
		open();
	} catch (const std::exception &e) {
		say("agent %s: %s", local_agent.c_str(), e.what());
		init_error = true;
	}
}

Engine::~Engine()
{
	slime_listener_destroy(listener);
	for (auto &t : released)
		t->close();
	released.clear();
	for (auto &n : notices)
		n->close();
	notices.clear();
	peers.clear();
	for (slime_endpoint *ep : incoming)
		slime_endpoint_destroy(ep);
	// With nanoctrl the agent has the other links: no peer reaches a region after this.
	if (control)
		control->stop();
	for (slime_mr *mr : stuck)
		slime_mr_destroy(mr);
	slime_rpc_service_destroy(service);
	if (control) {
		// It destroys the context, and ends on_notice() before the inbox goes.
		control.reset();
		return;
	}
	int ret = slime_context_destroy(ctx);

	if (ret)
		say("agent %s: its context is left behind: %s", local_agent.c_str(),
		    std::strerror(-ret));
}

// ---- peers that dialled us ----

void Engine::on_endpoint(void *arg, slime_listener *, slime_endpoint *ep)
{
	static_cast<Engine *>(arg)->add_incoming(ep);
}

void Engine::on_state(void *arg, slime_endpoint *, slime_endpoint_state state, int)
{
	if (state == SLIME_ENDPOINT_BROKEN || state == SLIME_ENDPOINT_CLOSED)
		static_cast<Engine *>(arg)->some_ended = true;
}

void Engine::add_incoming(slime_endpoint *ep)
{
	drop_ended();
	std::lock_guard<std::mutex> lock(mutex);
	incoming.push_back(ep);
	// It may have ended before it was ours.
	some_ended = true;
}

void Engine::drop_ended()
{
	std::vector<slime_endpoint *> ended;

	if (!some_ended.exchange(false))
		return;
	{
		std::lock_guard<std::mutex> lock(mutex);

		for (size_t i = 0; i < incoming.size();) {
			struct slime_endpoint_info ep_info;

			slime_endpoint_info(incoming[i], &ep_info);
			if (ep_info.state == SLIME_ENDPOINT_BROKEN ||
			    ep_info.state == SLIME_ENDPOINT_CLOSED) {
				ended.push_back(incoming[i]);
				incoming[i] = incoming.back();
				incoming.pop_back();
			} else {
				i++;
			}
		}
	}
	for (slime_endpoint *ep : ended)
		slime_endpoint_destroy(ep);
}

void Engine::on_notice(void *arg, slime_rpc_request *req)
{
	auto *e = static_cast<Engine *>(arg);
	std::string from, msg;

	if (!notice_read(slime_rpc_request_data(req), slime_rpc_request_len(req), from, msg))
		slime_rpc_reply_error(req, 1, "not a notification");
	else if (!e->inbox.put(std::move(from), std::move(msg)))
		slime_rpc_reply_error(req, 2, "the agent takes no notifications out of its inbox");
	else
		slime_rpc_reply(req, nullptr, 0);
}

// ---- memory ----

namespace
{

// Memory of a GPU is registered now: whether the device can do it is known here, and nowhere
// before.
int create_region(slime_context *ctx, const abi::BlobDesc &d, bool is_device, slime_mr **out)
{
	auto *addr = reinterpret_cast<void *>(d.addr);
	slime_mr_attr attr;
	Dmabuf dmabuf;

	slime_mr_attr_init(&attr);
	attr.access = SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE;
	attr.device_memory = is_device;
	if (!is_device)
		return slime_mr_create_attr(ctx, addr, d.len, &attr, out);
	dmabuf = gpu_prepare(d.addr, d.len);
	attr.dmabuf_fd = dmabuf.fd;
	attr.dmabuf_offset = dmabuf.offset;
	int ret = slime_mr_create_attr(ctx, addr, d.len, &attr, out);

	if (dmabuf.fd >= 0)
		::close(dmabuf.fd);
	if (ret)
		return ret;
	ret = slime_mr_register(*out, DEVICE_PATIENCE_MS);
	if (ret)
		slime_mr_destroy(*out);
	return ret;
}

} // namespace

abi::Status Engine::registerMem(const abi::BlobDesc &d, const abi::Mem &mem, abi::Metadata *&out)
{
	bool is_device = mem == abi::VRAM_SEG;
	slime_mr *mr = nullptr;

	if (is_device && !offers_vram) {
		say("memory of a GPU cannot be registered: %s", why_no_vram.c_str());
		return abi::ERR_NOT_SUPPORTED;
	}
	if (!is_device && mem != abi::DRAM_SEG)
		return abi::ERR_NOT_SUPPORTED;
	int ret = create_region(ctx, d, is_device, &mr);

	if (ret) {
		say("cannot register %zu bytes%s: %s", d.len, is_device ? " of a GPU" : "",
		    std::strerror(-ret));
		return status_of(ret);
	}
	auto *md = new LocalMetadata;

	md->region = std::make_shared<Region>();
	md->region->addr = d.addr;
	md->region->len = d.len;
	md->region->is_device = is_device;
	md->region->mr = mr;
	out = md;
	return abi::SUCCESS;
}

abi::Status Engine::deregisterMem(abi::Metadata *m)
{
	std::unique_ptr<LocalMetadata> md(dynamic_cast<LocalMetadata *>(m));

	if (!md)
		return abi::ERR_INVALID_PARAM;
	slime_mr *mr = md->region->mr.exchange(nullptr);
	auto deadline = std::chrono::steady_clock::now() + WITHDRAW_PATIENCE;

	leave(*md->region);
	int ret = slime_mr_destroy(mr);

	while (ret == -EBUSY && std::chrono::steady_clock::now() < deadline) {
		slime_context_poll(ctx);
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
		leave(*md->region);
		ret = slime_mr_destroy(mr);
	}
	if (!ret)
		return abi::SUCCESS;
	say("a region of %zu bytes cannot be withdrawn: %s", md->region->len, std::strerror(-ret));
	std::lock_guard<std::mutex> lock(mutex);
	stuck.push_back(mr);
	return status_of(ret);
}

abi::Status Engine::getPublicData(const abi::Metadata *m, std::string &out) const
{
	auto *md = dynamic_cast<const LocalMetadata *>(m);
	char desc[SLIME_MR_DESC_MAX];

	if (!md || !md->region->mr)
		return abi::ERR_INVALID_PARAM;
	int len = slime_mr_export(md->region->mr, desc, sizeof(desc));

	if (len < 0)
		return status_of(len);
	out.assign(desc, static_cast<size_t>(len));
	return abi::SUCCESS;
}

abi::Status Engine::loadLocalMD(abi::Metadata *in, abi::Metadata *&out)
{
	auto *md = dynamic_cast<LocalMetadata *>(in);

	if (!md)
		return abi::ERR_INVALID_PARAM;
	auto *made = new RemoteMetadata;

	made->remote = std::make_shared<Remote>();
	made->remote->region = md->region;
	made->remote->is_device = md->region->is_device;
	out = made;
	return abi::SUCCESS;
}

abi::Status Engine::loadRemoteMD(const abi::BlobDesc &in, const abi::Mem &mem,
				 const std::string &agent, abi::Metadata *&out)
{
	std::shared_ptr<Peer> peer = find(agent);
	slime_remote_mr mr;

	if (!peer)
		return abi::ERR_NOT_FOUND;
	if (mem != abi::DRAM_SEG && (mem != abi::VRAM_SEG || !settings.allows_rdma()))
		return abi::ERR_NOT_SUPPORTED;
	if (slime_remote_mr_import(in.meta.data(), in.meta.size(), &mr)) {
		say("agent %s: the descriptor of a region is malformed", agent.c_str());
		return abi::ERR_MISMATCH;
	}
	auto *md = new RemoteMetadata;

	md->remote = std::make_shared<Remote>();
	md->remote->peer = peer;
	md->remote->mr = mr;
	md->remote->is_device = mem == abi::VRAM_SEG;
	out = md;
	return abi::SUCCESS;
}

abi::Status Engine::unloadMD(abi::Metadata *m)
{
	delete m;
	return abi::SUCCESS;
}

// No handle keeps it by what was prepared.
void Engine::leave(const Region &region)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (Transfer *t : transfers)
		t->leave(region);
}

// ---- agents ----

std::shared_ptr<Peer> Engine::find(const std::string &agent) const
{
	std::lock_guard<std::mutex> lock(mutex);
	auto found = peers.find(agent);

	return found == peers.end() ? nullptr : found->second;
}

abi::Status Engine::getConnInfo(std::string &out) const
{
	out = info;
	return abi::SUCCESS;
}

abi::Status Engine::loadRemoteConnInfo(const std::string &agent, const std::string &peer_info)
{
	std::shared_ptr<Peer> made, old; // both go without the lock

	if (!control == !name_of_info(peer_info).empty()) {
		say("agent %s is %s nanoctrl (ctrl), and this agent is not", agent.c_str(),
		    control ? "without" : "with");
		return abi::ERR_MISMATCH;
	}
	{
		std::lock_guard<std::mutex> lock(mutex);
		auto found = peers.find(agent);

		if (found != peers.end() && found->second->info == peer_info)
			return abi::SUCCESS;
		made = std::make_shared<Peer>(ctx, settings, control.get(), agent, peer_info);
		old = std::exchange(peers[agent], made);
	}
	return status_of(made->begin());
}

abi::Status Engine::connect(const std::string &agent)
{
	if (agent == local_agent)
		return abi::SUCCESS;
	std::shared_ptr<Peer> peer = find(agent);

	if (!peer)
		return abi::ERR_NOT_FOUND;
	return peer->link() ? abi::SUCCESS : abi::ERR_REMOTE_DISCONNECT;
}

abi::Status Engine::disconnect(const std::string &agent)
{
	std::shared_ptr<Peer> old; // goes without the lock

	std::lock_guard<std::mutex> lock(mutex);
	auto found = peers.find(agent);

	if (found == peers.end())
		return agent == local_agent ? abi::SUCCESS : abi::ERR_NOT_FOUND;
	old = std::move(found->second);
	peers.erase(found);
	return abi::SUCCESS;
}

// ---- transfers ----

abi::Status Engine::prepXfer(const abi::Op &op, const abi::DescList<abi::MetaDesc> &local,
			     const abi::DescList<abi::MetaDesc> &remote, const std::string &,
			     abi::Request *&handle, const abi::OptionalArgs *) const
{
	auto t = std::make_unique<Transfer>(*this, op);
	abi::Status s = t->prepare(local.descs, remote.descs);

	if (s != abi::SUCCESS)
		return s;
	std::lock_guard<std::mutex> lock(mutex);
	transfers.insert(t.get());
	handle = t.release();
	return abi::SUCCESS;
}

void Engine::forget(Transfer *t) const
{
	std::lock_guard<std::mutex> lock(mutex);

	transfers.erase(t);
}

// Those that nanoctrl, or a link, told of since the last look.
void Engine::take_ends() const
{
	PeerEnd end;

	while (control && control->next_end(end)) {
		std::vector<std::shared_ptr<Peer>> ended;
		{
			std::lock_guard<std::mutex> lock(mutex);

			for (const auto &p : peers) {
				if (name_of_info(p.second->info) == end.agent)
					ended.push_back(p.second);
			}
		}
		for (const auto &p : ended)
			p->take_end(end);
	}
}

abi::Status Engine::postXfer(const abi::Op &, const abi::DescList<abi::MetaDesc> &,
			     const abi::DescList<abi::MetaDesc> &, const std::string &,
			     abi::Request *&handle, const abi::OptionalArgs *args) const
{
	auto *t = static_cast<Transfer *>(handle);

	return t->post(args && args->has_notif ? &args->notif : nullptr);
}

abi::Status Engine::checkXfer(abi::Request *handle) const
{
	return static_cast<Transfer *>(handle)->check();
}

// What is in flight ends by itself, and is looked at until then: its memory is lent to the library.
void Engine::drop_over() const
{
	std::vector<std::unique_ptr<Transfer>> looked;
	std::vector<std::unique_ptr<Notice>> told;

	{
		std::lock_guard<std::mutex> lock(mutex);

		looked.swap(released);
		told.swap(notices);
	}
	// Without the lock: handles, and the links that go with the last of them, take it.
	std::erase_if(looked, [](const std::unique_ptr<Transfer> &t) {
		return t->check() != abi::IN_PROG;
	});
	std::erase_if(told, [](const std::unique_ptr<Notice> &n) {
		if (!n->over())
			return false;
		if (n->status())
			say("a notification was not delivered: %s", std::strerror(-n->status()));
		return true;
	});
	std::lock_guard<std::mutex> lock(mutex);

	std::move(looked.begin(), looked.end(), std::back_inserter(released));
	std::move(told.begin(), told.end(), std::back_inserter(notices));
}

abi::Status Engine::releaseReqH(abi::Request *handle) const
{
	std::unique_ptr<Transfer> t(static_cast<Transfer *>(handle));

	drop_over();
	if (!t->in_flight() || t->check() != abi::IN_PROG)
		return abi::SUCCESS;
	std::lock_guard<std::mutex> lock(mutex);
	released.push_back(std::move(t));
	return abi::SUCCESS;
}

// ---- notifications ----

abi::Status Engine::getNotifs(abi::NotifList &out)
{
	slime_context_poll(ctx);
	drop_ended();
	inbox.take(out);
	return abi::SUCCESS;
}

abi::Status Engine::genNotif(const std::string &agent, const std::string &msg) const
{
	if (agent == local_agent)
		return inbox.put(local_agent, msg) ? abi::SUCCESS : abi::ERR_BACKEND;
	std::shared_ptr<Peer> peer = find(agent);

	if (!peer)
		return abi::ERR_NOT_FOUND;
	drop_over();
	std::shared_ptr<Link> link = peer->link();

	if (!link)
		return abi::ERR_REMOTE_DISCONNECT;
	auto n = std::make_unique<Notice>(ctx, local_agent, msg);
	std::lock_guard<std::mutex> lock(mutex);

	if (notices.size() >= NOTICES_MAX) {
		say("agent %s does not answer %zu notifications", agent.c_str(), notices.size());
		return abi::ERR_BACKEND;
	}
	int ret = n->start(link);

	if (!ret)
		notices.push_back(std::move(n));
	return status_of(ret);
}
