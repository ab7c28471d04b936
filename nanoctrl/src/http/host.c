/* SPDX-License-Identifier: Apache-2.0 */
#include "http/host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_LEN 253

static bool is_port(const char *text)
{
	return !*text || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

/* Of [ADDRESS][:PORT]. */
static bool is_ipv6(const char *host)
{
	char address[INET6_ADDRSTRLEN];
	unsigned char bytes[16];
	size_t len = strcspn(host, "]");

	if (host[0] != '[' || host[len] != ']' || len > sizeof(address) || !is_port(host + len + 1))
		return false;
	memcpy(address, host + 1, len - 1);
	address[len - 1] = '\0';
	return inet_pton(AF_INET6, address, bytes) == 1;
}

static bool is_name(const char *name, const char *served)
{
	size_t len = strlen(name), suffix;

	if (served[0] != '*')
		return !strcasecmp(name, served);
	suffix = strlen(served + 1);
	return len > suffix && !strcasecmp(name + len - suffix, served + 1);
}

bool host_is_served(const char *host, const char *const *names, size_t n_names)
{
	char name[NAME_MAX_LEN + 2];
	unsigned char bytes[4];
	size_t len = strcspn(host, ":");

	if (is_ipv6(host))
		return true;
	if (!len || len >= sizeof(name) || !is_port(host + len))
		return false;
	memcpy(name, host, len);
	if (name[len - 1] == '.')
		len--;
	name[len] = '\0';
	if (inet_pton(AF_INET, name, bytes) == 1 || !strcasecmp(name, "localhost"))
		return true;
	for (size_t i = 0; i < n_names; i++)
		if (is_name(name, names[i]))
			return true;
	return false;
}

bool host_is_origin(const char *host, const char *origin)
{
	const char *authority = strstr(origin, "://");

	return authority && !strcasecmp(authority + 3, host);
}

const char *host_check_name(const char *text)
{
	const char *name = strncmp(text, "*.", 2) ? text : text + 2;
	size_t len = strlen(name);

	if (len && len <= NAME_MAX_LEN && name[0] != '.' && name[len - 1] != '.' &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
		    len)
		return NULL;
	return "a name of this server without a port, or *.SUFFIX";
}
