// SPDX-License-Identifier: Apache-2.0
// gRPC: a unary echo between two processes over a unix socket, with its synchronous API.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <memory>
#include <string>

#include "echo.grpc.pb.h"

extern "C" {
#include "base/clock.h"
#include "bench/baselines/peer.h"
}

namespace
{

using slime::baseline::Bytes;
using slime::baseline::Echo;

class EchoService final : public Echo::Service
{
	grpc::Status Call(grpc::ServerContext *, const Bytes *request, Bytes *reply) override
	{
		reply->set_data(request->data());
		return grpc::Status::OK;
	}
};

struct Client {
	std::string address;
	std::unique_ptr<Echo::Stub> stub;
	Bytes request;
};

int serve(void *arg, int channel)
{
	const Client *c = static_cast<const Client *>(arg);
	EchoService service;
	grpc::ServerBuilder builder;
	char end;

	builder.AddListeningPort(c->address, grpc::InsecureServerCredentials());
	builder.SetMaxReceiveMessageSize(INT_MAX);
	builder.RegisterService(&service);
	std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (!server)
		return -EADDRINUSE;
	int ret = pair_tell(channel, "", 1);
	if (!ret)
		ret = static_cast<int>(pair_hear_some(channel, &end, 1));
	server->Shutdown();
	return ret;
}

int echo_round(void *arg, struct rounds *r)
{
	Client *c = static_cast<Client *>(arg);
	Bytes reply;
	uint64_t begin = sl_clock_ns();

	do {
		grpc::ClientContext context;
		if (!c->stub->Call(&context, c->request, &reply).ok() ||
		    reply.data().size() != c->request.data().size())
			return -EIO;
		uint64_t now = sl_clock_ns();
		rounds_add(r, now - begin, 2 * c->request.data().size());
		begin = now;
	} while (!rounds_over(r, begin));
	return 0;
}

int measure(Client *c, const struct peer_options *o, struct pair *pair)
{
	struct rounds_side side = {};
	grpc::ChannelArguments args;
	char ready;
	int ret = pair_hear(pair->channel, &ready, 1);

	if (ret)
		return ret;
	args.SetMaxReceiveMessageSize(INT_MAX);
	c->stub = Echo::NewStub(
		grpc::CreateCustomChannel(c->address, grpc::InsecureChannelCredentials(), args));
	side.round = echo_round;
	side.arg = c;
	side.pair = pair;
	return rounds_run(&o->rounds, &side);
}

// The library does not survive a fork: the processes part before either uses it.
int run(const struct peer_options *o)
{
	Client c;
	struct pair pair;

	c.address = "unix-abstract:slime-grpc-" + std::to_string(getpid());
	c.request.set_data(std::string(o->size, 'q'));
	int ret = pair_start(&pair, serve, &c);
	if (ret)
		return ret;
	ret = measure(&c, o, &pair);
	c.stub.reset();
	int end = pair_end(&pair);
	return ret ? ret : end;
}

} // namespace

int main(int argc, char **argv)
{
	const std::string version = "grpc      " + grpc::Version() +
				    ", C++, unary over a unix socket, one call in flight";

	return peer_main("baseline-grpc", version.c_str(), run, argc, argv);
}
