/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

#define LINE_MAX_BYTES  2048 /* longer messages are cut */
#define LIMIT_MESSAGES  5
#define LIMIT_WINDOW_MS 10000

static const struct {
	const char *name;
	int priority; /* syslog(3); what journald reads as "<N>" */
} levels[] = {
	[LOG_LEVEL_ERROR] = {"error", 3},
	[LOG_LEVEL_WARNING] = {"warning", 4},
	[LOG_LEVEL_INFO] = {"info", 6},
	[LOG_LEVEL_DEBUG] = {"debug", 7},
};

/* Set once, before threads. */
static struct {
	const char *program;
	enum log_level level;
	bool journal;
} setup = {.program = "tributary", .level = LOG_LEVEL_INFO};

/* Is standard error the stream systemd gave us (systemd.exec(5))? */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char ours[64];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	(void)snprintf(ours, sizeof(ours), "%ju:%ju", (uintmax_t)st.st_dev,
		       (uintmax_t)st.st_ino); /* always fits */
	return strcmp(stream, ours) == 0;
}

void log_setup(const char *program, enum log_level level)
{
	setup.program = program;
	setup.level = level;
	setup.journal = stderr_is_journal();
}

int log_level_parse(const char *text, enum log_level *ret_level)
{
	size_t i;

	for (i = 0; i < array_size(levels); i++) {
		if (strcmp(text, levels[i].name) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* "<6>" for the journal, which knows time and program; else both. */
static int head_print(char *buf, size_t size, enum log_level level)
{
	struct timespec now = {0};
	struct tm tm = {0};

	if (setup.journal)
		return snprintf(buf, size, "<%d>", levels[level].priority);
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
	(void)gmtime_r(&now.tv_sec, &tm); /* nor this, before year 2^31 */
	return snprintf(buf, size,
			"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s: %s: ",
			tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
			tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000000,
			setup.program, levels[level].name);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	int saved = errno, head, body;
	size_t length;
	va_list args;
	char *at;

	if (level > setup.level)
		return;
	head = head_print(line, sizeof(line), level);
	assert(head > 0 && (size_t)head < sizeof(line) / 2);
	va_start(args, fmt);
	body = vsnprintf(line + head, sizeof(line) - (size_t)head, fmt, args);
	va_end(args);
	if (body < 0)
		line[head] = '\0';
	/* One message, one line: a newline inside could forge another. */
	for (at = line; (at = strchr(at, '\n'));)
		*at = ' ';
	length = strlen(line);
	line[length] = '\n'; /* in place of the NUL */
	/* One write, so that threads do not mix; nowhere to report failure. */
	(void)fd_write_all(STDERR_FILENO, line, length + 1);
	errno = saved;
}

bool log_limit_allow(struct log_limit *limit, unsigned *ret_suppressed)
{
	int64_t now = clock_ms();

	if (limit->used == 0 ||
	    now - limit->window_start_ms >= LIMIT_WINDOW_MS) {
		limit->window_start_ms = now;
		limit->used = 0;
	}
	if (limit->used >= LIMIT_MESSAGES) {
		limit->suppressed++;
		return false;
	}
	limit->used++;
	*ret_suppressed = limit->suppressed;
	limit->suppressed = 0;
	return true;
}

/* Bytes that @c takes inside quotes. */
static unsigned quoted_size(unsigned char c)
{
	if (c == '"' || c == '\\')
		return 2;
	return c >= 0x20 && c < 0x7f ? 1 : 4;
}

static unsigned quote_one(char *buf, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	unsigned size = quoted_size(c);

	if (size == 4) {
		buf[0] = '\\';
		buf[1] = 'x';
		buf[2] = digits[c >> 4];
		buf[3] = digits[c & 15];
	} else {
		buf[0] = '\\';
		buf[size - 1] = (char)c;
	}
	return size;
}

const char *log_quote(char *buf, unsigned size, const char *text,
		      unsigned length)
{
	static const char cut[] = "...";
	const unsigned room = size - 3; /* two quotes and NUL */
	unsigned n = 0, i, kept = 0, whole = 0;

	assert(size >= 8);
	/* How much fits, and how much if the mark of a cut must fit too. */
	for (i = 0; i < length && whole <= room; i++) {
		whole += quoted_size((unsigned char)text[i]);
		if (whole + sizeof(cut) - 1 <= room)
			kept = i + 1;
	}
	buf[n++] = '"';
	if (whole <= room)
		kept = length;
	for (i = 0; i < kept; i++)
		n += quote_one(buf + n, (unsigned char)text[i]);
	if (kept < length) {
		memcpy(buf + n, cut, sizeof(cut) - 1);
		n += sizeof(cut) - 1;
	}
	buf[n++] = '"';
	buf[n] = '\0';
	return buf;
}
