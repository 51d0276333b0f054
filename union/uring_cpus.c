/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define THREADS_SUM 256 /* at first, of all queues */
#define THREADS_MIN 2   /* of a queue */

#define POSSIBLE "/sys/devices/system/cpu/possible"

/* "3" or "0-3" at @at; how many, and @at is behind it. */
static long parse_range(const char **at)
{
	char *end;
	long last, first = strtol(*at, &end, 10);

	if (end == *at || first < 0 || first >= URING_CPUS_MAX)
		return -EINVAL;
	*at = end;
	if (**at != '-')
		return 1;
	last = strtol(++*at, &end, 10);
	if (end == *at || last < first || last >= URING_CPUS_MAX)
		return -EINVAL;
	*at = end;
	return last - first + 1;
}

int uring_cpus_parse(const char *list)
{
	long n, count = 0;

	for (;;) {
		n = parse_range(&list);
		if (n < 0)
			return -EINVAL;
		count += n;
		if (count > URING_CPUS_MAX)
			return -EINVAL;
		if (*list != ',')
			break;
		list++;
	}
	return *list == '\n' || !*list ? (int)count : -EINVAL;
}

int uring_cpus_possible(void)
{
	auto_close int fd = open(POSSIBLE, O_RDONLY | O_CLOEXEC);
	char list[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, list, sizeof(list) - 1);

	if (n < 0)
		return -errno;
	list[n] = '\0';
	return uring_cpus_parse(list);
}

unsigned uring_cpus_threads(unsigned queues, unsigned threads)
{
	unsigned most = THREADS_SUM / queues;

	if (most < THREADS_MIN)
		most = THREADS_MIN;
	return threads < most ? threads : most;
}
