/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds a fuzz target every file of the folders in its arguments: what a fuzzer found once is tried
 * in each build. An empty folder is an error, for it tests nothing.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes stand in a block of their own length, so that ASan sees one read too many. */
static int feed(FILE *f, size_t len)
{
	uint8_t *bytes = malloc(len);

	if (len && (!bytes || fread(bytes, 1, len, f) != len)) {
		free(bytes);
		return -1;
	}
	LLVMFuzzerTestOneInput(bytes, len);
	free(bytes);
	return 0;
}

/* Returns how many inputs path was: 1, 0 for what is no file, -1 when it cannot be read. */
static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	int ret = -1;

	if (!f)
		return -1;
	if (fstat(fileno(f), &st) == 0)
		ret = S_ISREG(st.st_mode) ? 1 : 0;
	if (ret == 1) {
		printf("%s\n", path);
		fflush(stdout);
		if (feed(f, (size_t)st.st_size))
			ret = -1;
	}
	fclose(f);
	return ret;
}

static int replay_folder(const char *folder)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);
	int n_fed = 0;

	for (int i = 0; i < n; i++) {
		char path[4096];
		int ret;

		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		ret = replay_file(path);
		if (ret < 0)
			fprintf(stderr, "%s: cannot be read\n", path);
		n_fed = ret < 0 || n_fed < 0 ? -1 : n_fed + ret;
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return n_fed;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int n = replay_folder(argv[i]);

		if (n <= 0) {
			fprintf(stderr, "%s: no input was tried\n", argv[i]);
			return 1;
		}
		printf("%s: %d inputs\n", argv[i], n);
	}
	return argc > 1 ? 0 : 1;
}
