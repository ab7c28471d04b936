/* SPDX-License-Identifier: Apache-2.0 */
/* Async events of the RDMA devices that our links use, for Prometheus. */
#ifndef PEERAGENT_DEVICES_H
#define PEERAGENT_DEVICES_H

struct evbuffer;
struct slime_context;

/* Add the metric; nothing before anything was offered over rdma. From any thread. */
void devices_print(const struct slime_context *ctx, struct evbuffer *out);

#endif
