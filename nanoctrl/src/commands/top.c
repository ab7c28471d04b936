/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/output/output.h"
#include "cli/output/table.h"
#include "commands/obs.h"
#include "server/settings.h"
#include "commands/top_screen.h"

struct top {
	const struct options *options;
	struct obs_source *source;
	struct obs_list now, before; /* before: for operations a second */
	bool terminal;
};

/* ---- one refresh ---- */

static double bps_of(const struct obs_snapshot *s)
{
	return s->state == OBS_ALIVE ? obs_real(s->doc, "ewma_bandwidth_bps") : 0;
}

static int busier(const void *a, const void *b)
{
	const struct obs_snapshot *x = *(const struct obs_snapshot *const *)a;
	const struct obs_snapshot *y = *(const struct obs_snapshot *const *)b;
	double d = bps_of(y) - bps_of(x);

	return d > 0 ? 1 : d < 0 ? -1 : strcmp(x->peer, y->peer);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct obs_snapshot *)a)->peer,
		      ((const struct obs_snapshot *)b)->peer);
}

/* How many operations an agent has posted: as native agents report it, as DLSlime's agents report
 * it for each NIC, or at least how many batches were submitted to it. False when the snapshot has
 * none of these. */
static bool count_ops(const struct obs_snapshot *s, uint64_t *out)
{
	static const char posted[] = "post_batch_total", given[] = "batch_total";
	bool known = obs_member(s->summary, posted).at != NULL;
	struct json_slice key, nic;
	struct json_walk w;

	*out = obs_number(s->summary, posted);
	if (known)
		return true;
	if (s->nics.at && json_walk_init(&w, s->nics))
		while (json_walk_next(&w, &key, &nic)) {
			known |= obs_member(nic, posted).at != NULL;
			*out += obs_number(nic, posted);
		}
	if (!known)
		*out = obs_number(s->summary, given);
	return known || obs_member(s->summary, given).at;
}

/* By the snapshots of this refresh and the one before; below zero when they are not enough. */
static double ops_per_s(const struct top *t, const struct obs_snapshot *s)
{
	const struct obs_snapshot *old =
		t->before.n ? bsearch(s, t->before.list, t->before.n, sizeof(*s), by_name) : NULL;
	uint64_t at = obs_number(s->doc, "reported_at_ms"), n, old_at, old_n;

	if (!old || old->pid != s->pid || !count_ops(s, &n) || !count_ops(old, &old_n))
		return -1;
	old_at = obs_number(old->doc, "reported_at_ms");
	if (n < old_n || at <= old_at)
		return -1;
	return (double)(n - old_n) * 1e3 / (double)(at - old_at);
}

static const struct cli_column columns[] = {
	{ "PEER", NULL, false },   { "HOST", NULL, false },  { "PID", NULL, true },
	{ "STATE", NULL, false },  { "AGE", NULL, true },    { "UP", NULL, true },
	{ "RSS", NULL, true },	   { "MEMORY", NULL, true }, { "LINKS", NULL, true },
	{ "BW", NULL, true },	   { "OPS/S", NULL, true },  { "BYTES", NULL, true },
	{ "PENDING", NULL, true }, { "ERRORS", NULL, true },
};

static size_t count_of(struct json_slice array)
{
	struct json_slice key, value;
	struct json_walk w;
	size_t n = 0;

	if (array.at && json_walk_init(&w, array))
		while (json_walk_next(&w, &key, &value))
			n++;
	return n;
}

static void cell_if(struct cli_table *t, struct json_slice o, const char *name,
		    const char *(*words)(uint64_t n, char out[OBS_WORD]))
{
	char word[OBS_WORD];

	cli_table_cell(t, "%s", obs_member(o, name).at ? words(obs_number(o, name), word) : "-");
}

static void add_row(struct cli_table *t, const struct top *top, const struct obs_snapshot *s)
{
	double ops = ops_per_s(top, s);
	char word[OBS_WORD];

	cli_table_cell(t, "%s", s->peer);
	cli_table_cell(t, "%s", s->host);
	cli_table_cell(t, "%" PRIu64, s->pid);
	cli_table_cell(t, "%s", obs_state_names[s->state]);
	cli_table_cell(t, "%s", obs_age(s->age_ms, word));
	cell_if(t, s->doc, "uptime_ms", obs_age);
	cell_if(t, s->doc, "rss_bytes", obs_bytes);
	cell_if(t, s->summary, "user_mr_bytes", obs_bytes);
	cli_table_cell(t, "%zu", count_of(s->connections));
	cli_table_cell(t, "%s", obs_rate(bps_of(s), word));
	if (ops < 0)
		cli_table_cell(t, "-");
	else
		cli_table_cell(t, "%.0f", ops);
	cell_if(t, s->summary, "completed_bytes_total", obs_bytes);
	cli_table_cell(t, "%" PRIu64, obs_number(s->summary, "pending_ops"));
	cli_table_cell(t, "%" PRIu64, obs_number(s->summary, "error_total"));
}

static int print_rows(const struct top *top, FILE *to)
{
	const struct obs_list *l = &top->now;
	const struct obs_snapshot **order = calloc(l->n + 1, sizeof(*order));
	struct cli_table *t;
	int ret =
		order ? cli_table_create(&t, columns, sizeof(columns) / sizeof(*columns)) : -ENOMEM;

	if (ret) {
		free(order);
		return ret;
	}
	for (size_t i = 0; i < l->n; i++)
		order[i] = &l->list[i];
	qsort(order, l->n, sizeof(*order), busier);
	for (size_t i = 0; i < l->n; i++)
		add_row(t, top, order[i]);
	ret = cli_table_print(t, cli_table_style_of_locale(), to);
	cli_table_destroy(t);
	free(order);
	return ret;
}

/* ---- showing ---- */

/* In place: no more lines than there are, and what stood behind each is gone. */
static int show_on_screen(const char *text)
{
	struct winsize size;
	unsigned rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row ? 24 : size.ws_row;

	fputs("\033[H\033[?7l", stdout); /* lines do not wrap */
	for (unsigned i = 0; *text && i + 1 < rows; i++) {
		size_t len = strcspn(text, "\n");

		printf("%.*s\033[K\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
	fputs("\033[J\033[?7h", stdout);
	return fflush(stdout) ? -errno : 0;
}

static int show(const struct top *t, const char *text)
{
	if (t->terminal)
		return show_on_screen(text);
	return fputs(text, stdout) < 0 || putchar('\n') < 0 || fflush(stdout) ? -errno : 0;
}

static int print_look(const struct top *t, const char *why, FILE *to)
{
	int ret;

	if (*why)
		return fprintf(to, "%s\nnot read: %s\n", obs_source_name(t->source), why) < 0 ? -EIO
											      : 0;
	ret = obs_print(OBS_VIEW_STATUS, t->source, &t->now, t->options, to);
	fputc('\n', to);
	return ret ? ret : print_rows(t, to);
}

static int show_look(const struct top *t, const char *why)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	int ret = to ? print_look(t, why, to) : -ENOMEM;

	if (to && fclose(to) && !ret)
		ret = -ENOMEM;
	if (!ret)
		ret = show(t, text);
	free(text);
	return ret;
}

static void refresh(struct top *t, char *why, size_t room)
{
	struct obs_list old = t->now;

	t->now = (struct obs_list){ .n = 0 };
	*why = '\0';
	if (obs_source_read(t->source, &t->now, why, room)) {
		obs_list_clear(&t->now);
		t->now = old;
		if (!*why)
			snprintf(why, room, "no answer");
		return;
	}
	obs_list_clear(&t->before);
	t->before = old;
}

static int run(struct top *t)
{
	char why[320];
	int ret = 0;

	for (int64_t n = 1;; n++) {
		refresh(t, why, sizeof(why));
		if (*why && (n == 1 || n == t->options->times))
			break;
		if (n == 1 && t->terminal)
			top_screen_enter();
		ret = show_look(t, why);
		if (ret || n == t->options->times || !top_screen_wait((int)t->options->every_ms))
			break;
	}
	top_screen_leave();
	if (ret)
		return cli_output_fail("nanoctrl", ret);
	if (*why)
		obs_source_complain(t->source, why);
	return *why ? 1 : 0;
}

int top_run(const struct settings *settings, const struct options *options,
	    const struct runtime *rt)
{
	struct top t = { .options = options, .terminal = isatty(STDOUT_FILENO) == 1 };
	int ret;

	if (obs_source_open(settings, options, rt, &t.source))
		return 1;
	top_screen_init();
	ret = run(&t);
	obs_list_clear(&t.now);
	obs_list_clear(&t.before);
	obs_source_close(t.source);
	return ret;
}
