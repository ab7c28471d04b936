/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of a client's requests: target, header fields, and how errors are read. */
#ifndef NC_REQUEST_H
#define NC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;
struct http_message;
struct nc_client;
struct nc_error;

/* From now on requests prove this lease; "": none. */
void nc_client_set_lease(struct nc_client *client, const char *lease);

/* "/v1/agents/NAME/...?scope=SCOPE"; segments end with NULL. NULL without memory. */
char *nc_client_target(const struct nc_client *client, const char *const *segments,
		       const char *const *query);

/* The headers that every request has; lease when it is to be proven. -ENOMEM. */
int nc_client_headers(const struct nc_client *client, struct evbuffer *out, size_t server,
		      bool with_lease);

/* Fills *error from the status and the body; error->err is a negative errno. */
void nc_client_read_error(const struct http_message *response, struct nc_error *error);

/* How long the server asks to wait before the next try: its Retry-After in seconds, at most a day;
 * 0 when it says nothing. A date is not read: ours sends seconds. */
uint64_t nc_client_retry_after_ms(const struct http_message *response);

#endif
