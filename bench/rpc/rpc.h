/* SPDX-License-Identifier: Apache-2.0 */
/* slime-bench rpc and compare: calls between agents, beside what users would pick instead. */
#ifndef BENCH_RPC_H
#define BENCH_RPC_H

#include "bench/output/document.h"
#include "bench/settings.h"

/* They say on standard error what is wrong, and return the exit status. */
int rpc_command(const struct settings *settings, const char *flags, enum report_format format);

/* Print the figures of a directory of results side by side. */
int rpc_compare(const char *dir, bool csv);

#endif
