/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/options/nearest.h"

#define MAX_LEN 64

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Insertions, removals, replacements, and swaps of neighbours count one each. */
static unsigned edits(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][MAX_LEN + 1];

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3],
			 *above2 = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = least(above[j] + 1, row[j - 1] + 1,
				       above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    above2[j - 2] + 1 < row[j])
				row[j] = above2[j - 2] + 1;
		}
	}
	return rows[na % 3][nb];
}

void cli_nearest_offer(struct cli_nearest *n, const char *name)
{
	size_t na = strlen(n->word), nb = strlen(name);
	unsigned d;

	if (na > MAX_LEN || nb > MAX_LEN)
		return;
	d = edits(n->word, na, name, nb);
	/* A third of the letters wrong is a slip; more is another word. */
	if (d > (nb + 2) / 3 || d >= na)
		return;
	if (!n->best || d < n->distance) {
		n->best = name;
		n->distance = d;
	}
}
