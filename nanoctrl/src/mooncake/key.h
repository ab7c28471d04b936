/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of Mooncake's transfer engines: mooncake/rpc_meta/NAME and mooncake/ram/NAME, or with
 * the id of a cluster mooncake/ID/rpc_meta/NAME and mooncake/ID/ram/NAME.
 */
#ifndef NANOCTRL_MOONCAKE_KEY_H
#define NANOCTRL_MOONCAKE_KEY_H

#include <stdbool.h>

#define MOONCAKE_KEY_MAX 512

enum mooncake_field {
	MOONCAKE_RPC_META, /* where the owner is: once in its life */
	MOONCAKE_RAM,	   /* what it shares: anew with each change */
};

struct mooncake_key {
	enum mooncake_field field;
	char engine[MOONCAKE_KEY_MAX + 1]; /* NAME, or ID/NAME */
};

/* Take a key apart: false when it is none of these, longer than MOONCAKE_KEY_MAX, or has other
 * bytes than the printable ones of ASCII. */
bool mooncake_key_parse(const char *text, struct mooncake_key *out);

/* "rpc_meta" or "ram". */
const char *mooncake_field_name(enum mooncake_field field);

#endif
