/* SPDX-License-Identifier: Apache-2.0 */
#include "base/port_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sl_port_name_parse(const char *text, size_t len, struct sl_port_name *out)
{
	const char *colon = memchr(text, ':', len);
	size_t name_len = colon ? (size_t)(colon - text) : len;
	unsigned long port = 0;
	char *end;

	if (colon) {
		port = strtoul(colon + 1, &end, 10);
		if (colon[1] < '0' || colon[1] > '9' || end != text + len || !port)
			return -EINVAL;
	}
	if (!name_len || name_len >= SL_DEVICE_NAME_MAX || port > UINT8_MAX)
		return -EINVAL;
	for (size_t i = 0; i < name_len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
			return -EINVAL;
	}
	*out = (struct sl_port_name){ .port = (uint8_t)port };
	memcpy(out->device, text, name_len);
	return 0;
}

static bool is_among(const struct sl_port_name *name, const struct sl_port_name *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].port == name->port && !strcmp(list[i].device, name->device))
			return true;
	}
	return false;
}

int sl_port_names_parse(const char *text, struct sl_port_name *out, size_t max, size_t *n)
{
	size_t len;

	*n = 0;
	do {
		struct sl_port_name name;

		len = strcspn(text, ",");
		if (*n == max || sl_port_name_parse(text, len, &name) || is_among(&name, out, *n))
			return -EINVAL;
		out[(*n)++] = name;
		text += len + 1;
	} while (text[-1]);
	return 0;
}

bool sl_port_name_is(const struct sl_port_name *name, const char *device, size_t len, uint8_t port)
{
	return !strncmp(name->device, device, len) && (!name->port || name->port == port);
}
