/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names of this server a request may give. A web page can have its own name point to an
 * address of ours (DNS rebinding), and its browser then sends us what the page asks for; but it
 * says the page's name.
 */
#ifndef NANOCTRL_HTTP_HOST_H
#define NANOCTRL_HTTP_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a Host field, NAME[:PORT], is an address, localhost, or one of names. "*.SUFFIX" among
 * these is every name that ends with .SUFFIX. */
bool host_is_served(const char *host, const char *const *names, size_t n_names);

/* Whether an Origin field is that of pages of this very host and port. */
bool host_is_origin(const char *host, const char *origin);

/* NULL, or what is expected in names. */
const char *host_check_name(const char *text);

#endif
