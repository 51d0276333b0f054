/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <ini.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/size.h"

#define FILE_MAX     (UINT32_C(1) << 20) /* bytes of a configuration file */
#define LINE_MAX_INI 4096                /* bytes of one line */
#define SECTION_MAX  49 /* bytes; inih cuts longer ones silently */
#define HELP_COLUMN  30

static void *field(const struct option_row *row, void *target)
{
	return (char *)target + row->offset;
}

static void list_clear(struct option_list *list)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	list->items = NULL;
	list->count = 0;
}

static int option_list_add(struct option_list *list, const char *text,
			   size_t length)
{
	char **items;
	char *item;

	items = realloc(list->items, (list->count + 1) * sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	item = strndup(text, length);
	if (!item)
		return -ENOMEM;
	items[list->count++] = item;
	return 0;
}

/* Comma separated; blanks around an item and empty items are dropped. */
static int list_set(struct option_list *list, const char *text,
		    struct error *err)
{
	if (list->is_default)
		list_clear(list);
	list->is_default = false;
	while (*text) {
		size_t length = strcspn(text, ","), start = 0, end = length;

		while (start < end && isspace((unsigned char)text[start]))
			start++;
		while (end > start && isspace((unsigned char)text[end - 1]))
			end--;
		if (end > start &&
		    option_list_add(list, text + start, end - start) < 0)
			return error_set(err, ENOMEM, "out of memory");
		text += length;
		if (*text)
			text++;
	}
	return 0;
}

static int flag_set(bool *ret, const char *text, struct error *err)
{
	if (strcmp(text, "yes") == 0)
		*ret = true;
	else if (strcmp(text, "no") == 0)
		*ret = false;
	else
		return error_set(err, EINVAL, "'%.64s' is not yes or no", text);
	return 0;
}

static int string_set(char **ret, const char *text, struct error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	free(*ret);
	*ret = copy;
	return 0;
}

static int number_parse(const char *text, uint64_t *ret, struct error *err)
{
	uint64_t value = 0;
	const char *at;

	for (at = text; isdigit((unsigned char)*at); at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *at - '0', &value))
			return error_set(err, EINVAL, "%.64s is too large",
					 text);
	}
	if (at == text || *at)
		return error_set(err, EINVAL, "'%.64s' is not a number", text);
	*ret = value;
	return 0;
}

/* The limits as the person would write them. */
static int range_check(const struct option_row *row, uint64_t value,
		       struct error *err)
{
	char low[SIZE_TEXT_MAX], high[SIZE_TEXT_MAX];
	bool is_size = row->type == OPTION_SIZE;

	if (value >= row->min && (row->max == 0 || value <= row->max))
		return 0;
	if (is_size) {
		size_format(low, row->min);
		size_format(high, row->max);
	} else {
		(void)snprintf(low, sizeof(low), "%" PRIu64, row->min);
		(void)snprintf(high, sizeof(high), "%" PRIu64, row->max);
	}
	if (row->max == 0)
		return error_set(err, EINVAL, "must be at least %s", low);
	return error_set(err, EINVAL, "must be from %s to %s", low, high);
}

static int option_value_set(const struct option_row *row, void *target,
			    const char *text, struct error *err)
{
	uint64_t value = 0;
	int r;

	switch (row->type) {
	case OPTION_FLAG: return flag_set(field(row, target), text, err);
	case OPTION_STRING: return string_set(field(row, target), text, err);
	case OPTION_LIST: return list_set(field(row, target), text, err);
	case OPTION_NUMBER: r = number_parse(text, &value, err); break;
	case OPTION_SIZE: r = size_parse(text, &value, err); break;
	default: assert(!"an option type of the table"); return -EINVAL;
	}
	if (r == 0)
		r = range_check(row, value, err);
	if (r == 0)
		*(uint64_t *)field(row, target) = value;
	return r;
}

/* From now on the next value replaces the lists instead of adding to them. */
static void lists_mark_default(const struct option_row *rows, size_t n,
			       void *target)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (rows[i].type == OPTION_LIST) {
			struct option_list *list = field(&rows[i], target);

			list->is_default = true;
		}
	}
}

void options_defaults(const struct option_row *rows, size_t n, void *target)
{
	struct error err = {0};
	size_t i;

	for (i = 0; i < n; i++) {
		int r = 0;

		if (rows[i].default_text)
			r = option_value_set(&rows[i], target,
					     rows[i].default_text, &err);
		assert(r == 0); /* a default of ours is good */
		(void)r;
	}
	lists_mark_default(rows, n, target);
}

void options_done(const struct option_row *rows, size_t n, void *target)
{
	size_t i;

	for (i = 0; i < n; i++) {
		void *at = field(&rows[i], target);

		if (rows[i].type == OPTION_LIST) {
			list_clear(at);
		} else if (rows[i].type == OPTION_STRING) {
			free(*(char **)at);
			*(char **)at = NULL;
		}
	}
}

static const struct option_row *row_find(const struct option_row *rows,
					 size_t n, const char *name,
					 size_t length)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strlen(rows[i].name) == length &&
		    memcmp(rows[i].name, name, length) == 0)
			return &rows[i];
	}
	return NULL;
}

/* One options_load(): the input, and what inih's callbacks found. */
struct loading {
	const struct option_row *rows;
	size_t n;
	void *target;
	int (*other)(void *context, const char *section, const char *name,
		     const char *value, struct error *err);
	void *context;

	const char *at; /* the rest of the file */
	unsigned line;  /* number of the last line handed out */
	bool *seen;     /* [n]: set by an earlier line */
	struct error err;
};

/*
 * inih reads its lines here, fgets-like. It would cut a long line or section
 * name, and take an indented line for the rest of the one before: the first
 * two are errors, the third is prevented.
 */
static char *line_next(char *buf, int size, void *stream)
{
	struct loading *l = stream;
	size_t length;

	if (l->err.code || !*l->at)
		return NULL;
	l->line++;
	length = strcspn(l->at, "\n");
	while (length && (*l->at == ' ' || *l->at == '\t')) {
		l->at++;
		length--;
	}
	if (length + 3 > (size_t)size) {
		(void)error_set(&l->err, EINVAL, "longer than %d bytes",
				size - 3);
		return NULL;
	}
	if (*l->at == '[' && strcspn(l->at, "]\n") > SECTION_MAX + 1) {
		(void)error_set(&l->err, EINVAL,
				"a section name longer than %d bytes",
				SECTION_MAX);
		return NULL;
	}
	memcpy(buf, l->at, length);
	buf[length] = '\0';
	l->at += length;
	if (*l->at == '\n')
		l->at++;
	return buf;
}

/* A line before any section. */
static int line_own(struct loading *l, const char *name, const char *value)
{
	const struct option_row *row = row_find(l->rows, l->n, name,
						strlen(name));
	size_t i;
	int r;

	if (!row)
		return error_set(&l->err, EINVAL, "unknown option '%s'", name);
	i = (size_t)(row - l->rows);
	if (row->type == OPTION_LIST && !l->seen[i])
		((struct option_list *)field(row, l->target))->is_default =
			true;
	else if (row->type != OPTION_LIST && l->seen[i])
		return error_set(&l->err, EINVAL, "'%s' is given twice", name);
	l->seen[i] = true;
	r = option_value_set(row, l->target, value, &l->err);
	if (r < 0)
		return error_prefix(&l->err, r, "%s: ", name);
	return 0;
}

/* inih's handler: 0 is failure. */
static int line_handle(void *user, const char *section, const char *name,
		       const char *value)
{
	struct loading *l = user;
	int r;

	if (l->err.code)
		return 0;
	if (!section[0])
		r = line_own(l, name, value);
	else if (l->other)
		r = l->other(l->context, section, name, value, &l->err);
	else
		r = error_set(&l->err, EINVAL, "unknown section '[%s]'",
			      section);
	if (r < 0 && !l->err.code)
		(void)error_set(&l->err, -r, "[%s] %s: %s", section, name,
				strerror(-r));
	return r >= 0;
}

int options_load(const struct option_row *rows, size_t n, void *target,
		 const char *path,
		 int (*other)(void *context, const char *section,
			      const char *name, const char *value,
			      struct error *err),
		 void *context, struct error *err)
{
	auto_free bool *seen = calloc(n + 1, sizeof(*seen));
	struct loading l = {
		.rows = rows,
		.n = n,
		.target = target,
		.other = other,
		.context = context,
		.seen = seen,
	};
	auto_free char *text = NULL;
	size_t length;
	int r;

	if (!seen)
		return error_set(err, ENOMEM, "out of memory");
	r = file_read(AT_FDCWD, path, FILE_MAX, &text, &length, err);
	if (r < 0)
		return r;
	if (strlen(text) != length)
		return error_set(err, EINVAL, "%s: has a zero byte", path);
	l.at = text;
	ini_max_line = LINE_MAX_INI;
	r = ini_parse_stream(line_next, &l, line_handle, &l);
	if (r != 0 && !l.err.code) {
		/* Only inih's own complaint; its result is the line. */
		l.line = r > 0 ? (unsigned)r : 0;
		(void)error_set(&l.err, r > 0 ? EINVAL : ENOMEM,
				r > 0 ? "neither 'name = value' nor "
					"'[section]'"
				      : "out of memory");
	}
	if (l.err.code)
		return error_set(err, l.err.code, "%s:%u: %s", path, l.line,
				 l.err.msg);
	lists_mark_default(rows, n, target);
	return 0;
}

static const struct option_row *letter_find(const struct option_row *rows,
					    size_t n, char letter)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (rows[i].letter && rows[i].letter == letter)
			return &rows[i];
	}
	return NULL;
}

/* One word "--name", "--name=value", "-l" or "-lvalue". */
static const struct option_row *word_parse(const struct option_row *rows,
					   size_t n, const char *word,
					   const char **ret_value,
					   struct error *err)
{
	const struct option_row *row;
	size_t length;

	*ret_value = NULL;
	if (word[1] == '-') {
		length = strcspn(word + 2, "=");
		row = row_find(rows, n, word + 2, length);
		if (row && word[2 + length])
			*ret_value = word + 2 + length + 1;
	} else {
		length = strlen(word) - 1;
		row = letter_find(rows, n, word[1]);
		if (row && row->type == OPTION_FLAG && word[2])
			row = NULL; /* "-vq" is no form of ours */
		if (row && word[2])
			*ret_value = word + 2;
	}
	if (!row)
		(void)error_set(
			err, EINVAL, "unknown option '%.*s'; try --help",
			(int)(word[1] == '-' ? length + 2 : length + 1), word);
	return row;
}

int options_parse(const struct option_row *rows, size_t n, void *target,
		  int argc, char **argv, int *ret_index, struct error *err)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		const struct option_row *row;
		const char *value;
		int r;

		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		row = word_parse(rows, n, argv[i], &value, err);
		if (!row)
			return -EINVAL;
		i++;
		if (!value && row->type == OPTION_FLAG)
			value = "yes";
		else if (!value && i < argc && strncmp(argv[i], "--", 2) != 0)
			value = argv[i++];
		if (!value)
			return error_set(
				err, EINVAL, "--%s needs a value: --%s %s",
				row->name, row->name,
				row->argument ? row->argument : "VALUE");
		r = option_value_set(row, target, value, err);
		if (r < 0)
			return error_prefix(err, r, "--%s: ", row->name);
	}
	*ret_index = i;
	return 0;
}

void options_help(const struct option_row *rows, size_t n, FILE *out)
{
	size_t i;

	for (i = 0; i < n; i++) {
		const struct option_row *row = &rows[i];
		int width;

		if (row->letter)
			width = fprintf(out, "  -%c, ", row->letter);
		else
			width = fprintf(out, "      ");
		width += fprintf(out, "--%s", row->name);
		if (row->type != OPTION_FLAG)
			width += fprintf(out, " %s", row->argument);
		/* A long one has its text on the next line. */
		if (width + 2 > HELP_COLUMN) {
			(void)fputc('\n', out);
			width = 0;
		}
		(void)fprintf(out, "%*s%s", HELP_COLUMN - width, "", row->help);
		if (row->type != OPTION_FLAG && row->default_text &&
		    row->default_text[0])
			(void)fprintf(out, " (default %s)", row->default_text);
		(void)fputc('\n', out);
	}
}
