/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the routes that need no store. */
#ifndef NANOCTRL_API_SERVER_H
#define NANOCTRL_API_SERVER_H

struct request;

void api_root(struct request *rq);    /* GET / */
void api_healthz(struct request *rq); /* the process serves */
void api_readyz(struct request *rq);  /* Redis serves, too; ?local=1 leaves it out */
void api_metrics(struct request *rq); /* Prometheus text */

#endif
