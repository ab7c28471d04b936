/* SPDX-License-Identifier: Apache-2.0 */
#include <slime/slime.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char built[32];

	snprintf(built, sizeof(built), "%d.%d.%d", SLIME_VERSION_MAJOR, SLIME_VERSION_MINOR,
		 SLIME_VERSION_PATCH);
	puts(slime_version());
	return strcmp(built, slime_version()) != 0;
}
