/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/url.h"

#define SCHEME "http://"

static bool is_unreserved(unsigned char c)
{
	return isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static bool is_host(const char *host, size_t len, bool bracketed)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)host[i];

		if (bracketed ? !isxdigit(c) && c != ':' && c != '.' : !is_unreserved(c))
			return false;
	}
	return len > 0;
}

/* ":PORT" or nothing, then at most one slash. */
static int parse_port(const char *text, uint16_t *port)
{
	unsigned long v = 80;
	char *end;

	if (*text == ':') {
		if (!isdigit((unsigned char)text[1]))
			return -EINVAL;
		v = strtoul(text + 1, &end, 10);
		if (!v || v > UINT16_MAX || end - text > 6)
			return -EINVAL;
		text = end;
	}
	if (*text && strcmp(text, "/"))
		return -EINVAL;
	*port = (uint16_t)v;
	return 0;
}

int nc_url_parse(const char *text, struct nc_url *out)
{
	struct nc_url url = { 0 };
	const char *scheme_end = strstr(text, "://"), *host, *rest;
	bool bracketed;
	size_t len;
	int ret;

	if (!scheme_end || strlen(text) >= sizeof(url.text))
		return -EINVAL;
	if (strncasecmp(text, SCHEME, strlen(SCHEME)))
		return -EPROTONOSUPPORT;
	host = text + strlen(SCHEME);
	bracketed = *host == '[';
	host += bracketed;
	len = strcspn(host, bracketed ? "]" : ":/");
	rest = host + len;
	if (bracketed && *rest++ != ']')
		return -EINVAL;
	if (len >= sizeof(url.host) || !is_host(host, len, bracketed))
		return -EINVAL;
	ret = parse_port(rest, &url.port);
	if (ret)
		return ret;

	strcpy(url.text, text);
	memcpy(url.host, host, len);
	len = strcspn(text + strlen(SCHEME), "/");
	memcpy(url.authority, text + strlen(SCHEME), len);
	*out = url;
	return 0;
}

int nc_url_encode(struct evbuffer *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		int ret;

		if (is_unreserved(c))
			ret = evbuffer_add(out, text, 1);
		else
			ret = evbuffer_add_printf(out, "%%%02X", c) < 0 ? -1 : 0;
		if (ret)
			return -ENOMEM;
	}
	return 0;
}
