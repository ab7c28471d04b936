/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service that calls are measured against. Its handlers run inline and in place:
 *	echo	answers with the request's bytes
 *	copy	copies the request to where the reply is sent from
 */
#ifndef MEASURE_ECHO_H
#define MEASURE_ECHO_H

#include <slime/slime.h>

int echo_service_create(struct slime_context *ctx, struct slime_rpc_service **out);

#endif
