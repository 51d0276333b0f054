/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a daemon: one line a message on standard error, with journald's
 * "<N>" level prefix when standard error is the journal.
 *
 * Libraries do not log; they return errors. `error`: someone must act.
 * `warning`: ends in what we did instead. `info`: a state change. `debug`:
 * off by default. Strings a peer chose are quoted by log_quote().
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG
};

/* @program: borrowed for ever. Call once, before threads. */
void log_setup(const char *program, enum log_level level);

/* "error" "warning" "info" "debug"; -EINVAL for anything else. */
int log_level_parse(const char *text, enum log_level *ret_level);

void log_write(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Log and return @r: `return log_error(r, "open pool: %s", err.msg);` */
#define log_error(r, ...)                                \
	({                                               \
		int log_r_ = (r);                        \
		log_write(LOG_LEVEL_ERROR, __VA_ARGS__); \
		log_r_;                                  \
	})
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* A budget for messages that a peer can cause. Zero-initialise. */
struct log_limit {
	int64_t window_start_ms;
	unsigned used;       /* messages in this window */
	unsigned suppressed; /* since the last one let through */
};

/*
 * True when a message may be logged now: 5 in a window of 10 s, which the
 * first of them opens. The caller's lock guards @limit. @ret_suppressed: how
 * many were dropped since the last; set only on true.
 */
bool log_limit_allow(struct log_limit *limit, unsigned *ret_suppressed);

/*
 * @text with everything but printable ASCII escaped, in quotes, cut at the
 * size of @buf (at least 8 bytes). Returns @buf.
 */
const char *log_quote(char *buf, unsigned size, const char *text,
		      unsigned length);

#endif
