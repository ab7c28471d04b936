/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/plan/cause.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BETWEEN	    "; "
#define BETWEEN_LEN (sizeof(BETWEEN) - 1)
/* The end of what is cut. */
#define MARK	 "..."
#define MARK_LEN (sizeof(MARK) - 1)

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Of the reason that text begins with. */
static size_t reason_len(const char *text)
{
	const char *end = strstr(text, BETWEEN);

	return end ? (size_t)(end - text) : strlen(text);
}

/* The next one; NULL: it was the last. */
static const char *next_reason(const char *text)
{
	const char *end = strstr(text, BETWEEN);

	return end ? end + BETWEEN_LEN : NULL;
}

static size_t len_with(const char *text, size_t share)
{
	size_t len = 0;

	for (const char *at = text; at; at = next_reason(at))
		len += smaller(reason_len(at), share) + (at == text ? 0 : BETWEEN_LEN);
	return len;
}

/* Of the first len bytes of text, those before the word that they end in; all of them where that
 * word is most of them. */
static size_t before_word(const char *text, size_t len)
{
	size_t at = len;

	while (at > len / 2 && text[at] != ' ')
		at--;
	if (text[at] != ' ')
		return len;
	while (at && text[at - 1] == ' ')
		at--;
	return at;
}

/* The first len bytes of text, within share. */
static size_t put(const char *text, size_t len, size_t share, char *out, size_t cap)
{
	bool marked = len > share && share > MARK_LEN;
	size_t kept = marked ? before_word(text, share - MARK_LEN) : smaller(len, share);

	return (size_t)snprintf(out, cap, "%.*s%s", (int)kept, text, marked ? MARK : "");
}

size_t cause_fit(const char *text, char *out, size_t cap)
{
	size_t share = cap, len = 0;

	while (share && len_with(text, share) >= cap)
		share--;
	/* So many that none has room. */
	if (!share)
		return put(text, strlen(text), cap - 1, out, cap);
	for (const char *at = text; at; at = next_reason(at)) {
		if (at != text)
			len += put(BETWEEN, BETWEEN_LEN, BETWEEN_LEN, out + len, cap - len);
		len += put(at, reason_len(at), share, out + len, cap - len);
	}
	return len;
}

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The word that text begins with, if it is one that the agent says otherwise: its length, else 0.
 */
static size_t other_word(const char *text, const char *peer, const char **instead)
{
	const char *const words[][2] = {
		{ "the peer", peer },
		{ "shm_users", "data.shm.users" },
		{ "tcp_bind", "data.tcp.bind" },
		{ "tcp_advertise", "data.tcp.advertise" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = strlen(words[i][0]);

		if (!strncmp(text, words[i][0], len) && !is_of_word(text[len])) {
			*instead = words[i][1];
			return len;
		}
	}
	return 0;
}

size_t cause_in_words(const char *text, const char *peer, char *out, size_t cap)
{
	const char *instead;
	bool within = false; /* a word */
	size_t len = 0;

	out[0] = '\0';
	while (*text && len + 1 < cap) {
		size_t known = within ? 0 : other_word(text, peer, &instead);

		if (known)
			snprintf(out + len, cap - len, "%s", instead);
		else
			snprintf(out + len, cap - len, "%c", *text);
		len += strlen(out + len);
		text += known ? known : 1;
		within = is_of_word(text[-1]);
	}
	return len;
}
