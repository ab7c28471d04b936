/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reference/options.h"

static const char *const waits[] = { "spin", "sleep", NULL };

static const struct cli_setting waiting[] = {
	CLI_ENUM(struct options, wait, "wait", waits, .def = "spin",
		 .help = "how either end waits for the other"),
	CLI_END,
};

static const struct cli_setting rate[] = {
	CLI_INT(struct options, inflight, "inflight", .def = "64", .min = 1, .max = 4096,
		.help = "messages on the way at one time"),
	CLI_END,
};

static const struct cli_setting mailboxes[] = {
	CLI_INT(struct options, links, "links", .def = "1", .min = 1, .max = 1000,
		.help = "mailboxes, of which the client uses one after the other"),
	CLI_END,
};

static const struct cli_setting sockets[] = {
	CLI_INT(struct options, links, "links", .def = "64", .min = 1, .max = 1000,
		.help = "sockets, of which the client uses one after the other"),
	CLI_END,
};

static const struct cli_command commands[] = {
	{
		.name = "memcpy",
		.summary = "copy blocks from one shared mapping to another",
		.tables = { rounds_settings, rounds_block_settings },
	},
	{
		.name = "pull",
		.summary = "read blocks of another process by process_vm_readv, a call a batch",
		.tables = { rounds_settings, rounds_block_settings },
	},
	{
		.name = "mailbox",
		.summary = "two spinning processes, three copies a round trip",
		.text = "The client copies its request into the mailbox, the server copies it to the reply, and the "
			"client copies that out. Of size 0 it is the ping-pong of a cache line. Of several mailboxes "
			"the server looks at each in turn.",
		.tables = { rounds_settings, rounds_message_settings, mailboxes },
	},
	{
		.name = "futex",
		.summary = "two processes that wake each other by futex",
		.tables = { rounds_settings },
	},
	{
		.name = "tcp-read",
		.summary = "read blocks over one socket, the answers of a batch in one sendmsg",
		.tables = { rounds_settings, rounds_block_settings, waiting },
	},
	{
		.name = "tcp-echo",
		.summary = "bytes out and back over one socket",
		.tables = { rounds_settings, rounds_message_settings, waiting },
	},
	{
		.name = "tcp-rate",
		.summary = "many messages out and back, those that are there in one call",
		.text = "Both ends spin. The server answers in one send what one recv brought; the client sends so "
			"many new messages as came back.",
		.tables = { rounds_settings, rounds_message_settings, rate },
	},
	{
		.name = "tcp-links",
		.summary = "bytes out and back over many sockets in turn, one at a time",
		.text = "Both ends look for what came by epoll_wait, without sleeping.",
		.tables = { rounds_settings, rounds_message_settings, sockets },
	},
	{ .name = NULL },
};

const struct cli_program reference_program = {
	.name = "slime-reference",
	.summary = "what this machine does without libslime: the other side of bench/targets",
	.text = "Two processes on two CPUs; each round is printed as one line of JSON.",
	.commands = commands,
};
