// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include "engine.hh"
#include "notice.hh"

namespace
{

constexpr size_t HEAD = 4; // the length of the sender's name, little-endian
constexpr size_t INBOX_BYTES = 64u << 20;

const uint64_t METHOD = slime_rpc_method_id(NOTICE_METHOD);

} // namespace

Notice::Notice(slime_context *ctx, const std::string &from, const std::string &msg)
{
	bytes.reserve(HEAD + from.size() + msg.size());
	for (unsigned i = 0; i < HEAD; i++)
		bytes += static_cast<char>(from.size() >> (8 * i) & 0xff);
	bytes += from;
	bytes += msg;
	if (slime_call_create(ctx, nullptr, &call))
		call = nullptr;
}

Notice::~Notice()
{
	slime_call_destroy(call);
}

int Notice::start(const std::shared_ptr<Link> &l)
{
	slime_call_args args;

	if (!call)
		return -ENOMEM;
	slime_call_args_init(&args);
	args.method = METHOD;
	args.request = bytes.data();
	args.request_len = bytes.size();
	link = l;
	return slime_call_start(link->ep, &args, call);
}

bool Notice::over() const
{
	return !call || slime_call_test(call);
}

int Notice::status() const
{
	return call ? slime_call_status(call) : -ENOMEM;
}

void Notice::close()
{
	if (link)
		slime_endpoint_close(link->ep);
	if (call && slime_call_wait(call, -1))
		say("a notification cannot be waited for");
}

bool notice_read(const void *data, size_t len, std::string &from, std::string &msg)
{
	auto *at = static_cast<const unsigned char *>(data);
	size_t n = 0;

	if (len < HEAD)
		return false;
	for (unsigned i = 0; i < HEAD; i++)
		n |= static_cast<size_t>(at[i]) << (8 * i);
	if (n > len - HEAD)
		return false;
	from.assign(reinterpret_cast<const char *>(at) + HEAD, n);
	msg.assign(reinterpret_cast<const char *>(at) + HEAD + n, len - HEAD - n);
	return true;
}

bool Inbox::put(std::string from, std::string msg)
{
	std::lock_guard<std::mutex> lock(mutex);
	size_t size = from.size() + msg.size() + sizeof(list[0]);

	if (size > INBOX_BYTES - n_bytes)
		return false;
	n_bytes += size;
	list.emplace_back(std::move(from), std::move(msg));
	return true;
}

void Inbox::take(abi::NotifList &out)
{
	std::lock_guard<std::mutex> lock(mutex);

	for (auto &n : list)
		out.push_back(std::move(n));
	list.clear();
	n_bytes = 0;
}
