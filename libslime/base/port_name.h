/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of RDMA devices as users name them: "mlx5_0,mlx5_1:2". */
#ifndef SL_PORT_NAME_H
#define SL_PORT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_DEVICE_NAME_MAX 64 /* of libibverbs, with its end */

struct sl_port_name {
	char device[SL_DEVICE_NAME_MAX];
	uint8_t port; /* 0: none is named */
};

/* One of len bytes, whose device is of letters, digits and ._-; -EINVAL: it is none. */
int sl_port_name_parse(const char *text, size_t len, struct sl_port_name *out);

/* A list with commas: 1 to max of them, each once. -EINVAL. */
int sl_port_names_parse(const char *text, struct sl_port_name *out, size_t max, size_t *n);

/* Whether that is the port; the first len bytes of the name are its device. */
bool sl_port_name_is(const struct sl_port_name *name, const char *device, size_t len, uint8_t port);

#endif
