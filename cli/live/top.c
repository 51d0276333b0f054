/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/text/json.h"
#include "cli/text/table.h"

/* ---- of two samples ---- */

static int by_split(const void *a_, const void *b_)
{
	const struct top_sample *a = a_, *b = b_;
	int way = strcmp(a->volume, b->volume);

	return way ? way : (a->index > b->index) - (a->index < b->index);
}

static const char *comparable(const struct split_use *a,
			      const struct split_use *b)
{
	if (!b->known)
		return b->why;
	if (!a->known)
		return "it was not known a moment ago";
	if (strcmp(a->counter, b->counter) != 0 || b->reads < a->reads ||
	    b->writes < a->writes || b->read_bytes < a->read_bytes ||
	    b->write_bytes < a->write_bytes)
		return "its counters began again";
	return NULL;
}

/* Milliseconds of one of @count that took @us together. */
static double each_ms(uint64_t us, uint64_t count)
{
	return count ? (double)us / 1e3 / (double)count : 0;
}

static void rates_fill(struct top_rates *rates, const struct split_use *a,
		       const struct split_use *b, double seconds)
{
	rates->reads = (double)(b->reads - a->reads) / seconds;
	rates->read_bytes = (double)(b->read_bytes - a->read_bytes) / seconds;
	rates->writes = (double)(b->writes - a->writes) / seconds;
	rates->write_bytes = (double)(b->write_bytes - a->write_bytes) /
			     seconds;
	rates->read_ms = each_ms(b->read_us - a->read_us, b->reads - a->reads);
	rates->write_ms = each_ms(b->write_us - a->write_us,
				  b->writes - a->writes);
}

static void split_rate(const struct top_samples *before,
		       const struct top_samples *now, size_t index,
		       struct top_rates *ret)
{
	const struct top_sample *b = &now->items[index], *a;
	double seconds = (double)(now->at_ms - before->at_ms) / 1e3;
	const char *why = "it was not in use a moment ago";

	(void)snprintf(ret->name, sizeof(ret->name), "%s %u", b->volume,
		       b->index);
	memcpy(ret->node, b->node, sizeof(ret->node));
	a = before->n
		    ? bsearch(b, before->items, before->n, sizeof(*b), by_split)
		    : NULL;
	if (a && seconds > 0)
		why = comparable(&a->use, &b->use);
	ret->known = !why;
	if (why)
		(void)snprintf(ret->why, sizeof(ret->why), "%s", why);
	else
		rates_fill(ret, &a->use, &b->use, seconds);
}

/* ---- sums ---- */

/* The mean of two, by how many each is of. */
static double mean(double a, double n, double b, double m)
{
	return n + m > 0 ? (a * n + b * m) / (n + m) : 0;
}

static void sum_add(struct top_rates *sum, const struct top_rates *one)
{
	if (!one->known && sum->known)
		(void)snprintf(sum->why, sizeof(sum->why),
			       "split %.70s: %.170s", one->name, one->why);
	sum->known = sum->known && one->known;
	if (!sum->known)
		return;
	sum->read_ms = mean(sum->read_ms, sum->reads, one->read_ms, one->reads);
	sum->write_ms = mean(sum->write_ms, sum->writes, one->write_ms,
			     one->writes);
	sum->reads += one->reads;
	sum->read_bytes += one->read_bytes;
	sum->writes += one->writes;
	sum->write_bytes += one->write_bytes;
}

/* The sum called @name, a new one if there is none. */
static struct top_rates *sum_of(struct top_rates *sums, size_t *n,
				const char *name)
{
	for (size_t i = *n; i-- > 0;) /* it mostly is the last one */
		if (strcmp(sums[i].name, name) == 0)
			return &sums[i];
	(void)snprintf(sums[*n].name, sizeof(sums[*n].name), "%s", name);
	sums[*n].known = true;
	return &sums[(*n)++];
}

void top_make(const struct top_samples *before, const struct top_samples *now,
	      struct top *ret)
{
	*ret = (struct top){.n_splits = now->n};
	ret->splits = calloc(now->n + 1, sizeof(*ret->splits));
	ret->volumes = calloc(now->n + 1, sizeof(*ret->volumes));
	ret->nodes = calloc(now->n + 1, sizeof(*ret->nodes));
	if (!ret->splits || !ret->volumes || !ret->nodes)
		abort();
	for (size_t i = 0; i < now->n; i++) {
		const struct top_rates *split = &ret->splits[i];

		split_rate(before, now, i, &ret->splits[i]);
		sum_add(sum_of(ret->volumes, &ret->n_volumes,
			       now->items[i].volume),
			split);
		sum_add(sum_of(ret->nodes, &ret->n_nodes, split->node), split);
	}
}

void top_done(struct top *top)
{
	free(top->splits);
	free(top->volumes);
	free(top->nodes);
	*top = (struct top){0};
}

/* ---- shown ---- */

static void put_rate(struct json_object *object, const char *key, double value)
{
	json_object_object_add(object, key, json_object_new_double(value));
}

static struct json_object *rates_json(const struct top_rates *rates, size_t n)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		const struct top_rates *one = &rates[i];
		struct json_object *object = json_object_new_object();

		json_put_text(object, "name", one->name);
		if (one->node[0])
			json_put_text(object, "node", one->node);
		json_put_flag(object, "known", one->known);
		if (one->known) {
			put_rate(object, "readsPerSecond", one->reads);
			put_rate(object, "readBytesPerSecond", one->read_bytes);
			put_rate(object, "readMilliseconds", one->read_ms);
			put_rate(object, "writesPerSecond", one->writes);
			put_rate(object, "writtenBytesPerSecond",
				 one->write_bytes);
			put_rate(object, "writeMilliseconds", one->write_ms);
		} else {
			json_put_text(object, "why", one->why);
		}
		json_object_array_add(array, object);
	}
	return array;
}

struct json_object *top_json(const struct top *top)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "volumes",
			       rates_json(top->volumes, top->n_volumes));
	json_object_object_add(object, "nodes",
			       rates_json(top->nodes, top->n_nodes));
	json_object_object_add(object, "splits",
			       rates_json(top->splits, top->n_splits));
	return object;
}

static void rate_cell(struct table *table, bool known, double value)
{
	table_cell(table, known ? "%.0f" : "?", value);
}

static void bytes_cell(struct table *table, bool known, double value)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%s",
		   known ? size_format(text, (uint64_t)value) : "?");
}

static void latency_cell(struct table *table, bool known, double ms)
{
	if (!known)
		table_cell(table, "?");
	else if (ms > 0)
		table_cell(table, "%.2f ms", ms);
	else
		table_cell(table, "-");
}

static void rates_print(const char *heading, const struct top_rates *rates,
			size_t n, FILE *out)
{
	struct table *table = table_new(heading, "READS/S>", "READ/S>",
					"LATENCY>", "WRITES/S>", "WRITTEN/S>",
					"LATENCY>", "NOT KNOWN BECAUSE", NULL);

	for (size_t i = 0; i < n; i++) {
		const struct top_rates *one = &rates[i];

		table_cell(table, "%s", one->name);
		rate_cell(table, one->known, one->reads);
		bytes_cell(table, one->known, one->read_bytes);
		latency_cell(table, one->known, one->read_ms);
		rate_cell(table, one->known, one->writes);
		bytes_cell(table, one->known, one->write_bytes);
		latency_cell(table, one->known, one->write_ms);
		table_cell(table, "%s", one->why);
	}
	table_print(table, out);
}

void top_print(const struct top *top, FILE *out)
{
	if (top->n_splits == 0) {
		(void)fputs("no volume is attached\n", out);
		return;
	}
	rates_print("VOLUME", top->volumes, top->n_volumes, out);
	(void)fputc('\n', out);
	rates_print("NODE", top->nodes, top->n_nodes, out);
}
