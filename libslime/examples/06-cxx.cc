// SPDX-License-Identifier: Apache-2.0
//
// Lesson 6: the library from C++.
//
// Bob offers memory and a method, Alice reads the memory and calls the method. Each object of the
// library has an owner that destroys it, and a class's members are declared parents first: so they
// are destroyed children first. Attributes are filled by the functions slime_*_init().
#include "lesson.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace
{

// std::unique_ptr<T, Destroy<f>> calls f, which ends the process with a line if it fails.
template <auto destroy> struct Destroy {
	template <typename T> void operator()(T *object) const
	{
		TRY(destroy(object));
	}
};

using Context = std::unique_ptr<slime_context, Destroy<slime_context_destroy>>;
using Service = std::unique_ptr<slime_rpc_service, Destroy<slime_rpc_service_destroy>>;
using Endpoint = std::unique_ptr<slime_endpoint, Destroy<slime_endpoint_destroy>>;
using Memory = std::unique_ptr<slime_mem, Destroy<slime_mem_destroy>>;
using Region = std::unique_ptr<slime_mr, Destroy<slime_mr_destroy>>;
using Op = std::unique_ptr<slime_op, Destroy<slime_op_destroy>>;
using Call = std::unique_ptr<slime_call, Destroy<slime_call_destroy>>;

// What both ends have. A service is there before the endpoint that offers it.
struct Node {
	Context context;
	Service service;
	Op op;
	Endpoint endpoint;

	Node()
	{
		slime_context *made = nullptr;
		slime_rpc_service *offers = nullptr;
		slime_op *waits = nullptr;

		TRY(slime_context_create(nullptr, &made));
		context.reset(made);
		TRY(slime_rpc_service_create(made, &offers));
		service.reset(offers);
		TRY(slime_op_create(made, nullptr, &waits));
		op.reset(waits);
	}

	void connect(int channel)
	{
		slime_endpoint *made = nullptr;
		slime_endpoint_attr attr;

		slime_endpoint_attr_init(&attr);
		attr.service = service.get();
		TRY(slime_endpoint_create(context.get(), &attr, &made));
		endpoint.reset(made);
		connect_over(channel, made, op.get());
	}

	Memory memory(std::size_t len)
	{
		slime_mem *made = nullptr;
		slime_mem_attr attr;

		slime_mem_attr_init(&attr);
		attr.huge = SLIME_HUGE_OFF;
		TRY(slime_mem_alloc(context.get(), len, &attr, &made));
		return Memory(made);
	}

	Region region(void *addr, std::size_t len, std::uint32_t access)
	{
		slime_mr *made = nullptr;

		TRY(slime_mr_create(context.get(), addr, len, access, &made));
		return Region(made);
	}
};

// The arg of a method is an object of ours. No exception may leave a handler: its caller is C.
void greet(void *arg, slime_rpc_request *request)
{
	const auto &greeting = *static_cast<const std::string *>(arg);
	const auto *name = static_cast<const char *>(slime_rpc_request_data(request));
	const std::string reply =
		greeting + ", " + std::string(name, slime_rpc_request_len(request));

	TRY(slime_rpc_reply(request, reply.data(), reply.size()));
}

void bob(int channel)
{
	static const char text[] = "bytes of bob";
	std::string greeting = "good morning";
	Node node;
	slime_rpc_method_attr method;
	char byte;

	slime_rpc_method_attr_init(&method);
	method.fn = greet;
	method.arg = &greeting;
	method.flags = SLIME_RPC_INLINE;
	TRY(slime_rpc_method_add(node.service.get(), "greet", &method));
	node.connect(channel);

	const Memory memory = node.memory(sizeof(text));
	const Region region =
		node.region(slime_mem_addr(memory.get()), sizeof(text), SLIME_ACCESS_REMOTE_READ);

	std::memcpy(slime_mem_addr(memory.get()), text, sizeof(text));
	tell_region(channel, region.get());
	hear(channel, &byte, sizeof(byte));
}

void read_from_bob(Node &node, const slime_remote_mr &remote)
{
	char text[32] = "";
	const Region into = node.region(text, sizeof(text), 0);
	slime_xfer piece{};

	piece.local = into.get();
	piece.remote = &remote;
	piece.len = remote.len;
	TRY(slime_read(node.endpoint.get(), &piece, 1, 0, node.op.get()));
	TRY(slime_op_wait(node.op.get(), -1));
	TRY(slime_op_status(node.op.get()));
	std::printf("alice: read \"%s\"\n", text);
}

void call_bob(Node &node)
{
	const std::string name = "alice";
	slime_call *made = nullptr;
	slime_call_args args;
	char reply[64];

	TRY(slime_call_create(node.context.get(), nullptr, &made));

	const Call call(made);

	slime_call_args_init(&args);
	args.method = slime_rpc_method_id("greet");
	args.request = name.data();
	args.request_len = name.size();
	args.reply = reply;
	args.reply_cap = sizeof(reply);
	TRY(slime_call_start(node.endpoint.get(), &args, made));
	TRY(slime_call_wait(made, -1));
	TRY(slime_call_status(made));
	std::printf("alice: bob says \"%s\"\n",
		    std::string(reply, slime_call_reply_len(made)).c_str());
}

void alice(int channel)
{
	Node node;

	node.connect(channel);

	const slime_remote_mr remote = hear_region(channel);

	read_from_bob(node, remote);
	call_bob(node);
	tell(channel, "x", 1);
}

} // namespace

int main()
{
	return lesson(alice, bob);
}
