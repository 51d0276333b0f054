/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/lease_who.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/process.h"

#define HOST_SIZE 65 /* bytes with NUL; HOST_NAME_MAX */

/* "HOST/PID/START/NAMESPACE/BOOT/RANDOM" */
struct identity {
	char host[HOST_SIZE];
	pid_t pid;
	unsigned long long start_ticks, pid_space;
	char boot_id[UUID_TEXT_SIZE];
};

static void host_name(char *ret)
{
	if (gethostname(ret, HOST_SIZE - 1) < 0 || !ret[0])
		(void)strcpy(ret, "unknown");
	ret[strcspn(ret, "/ ")] = '\0';
}

int lease_who_make(struct lease_who *who, struct error *err)
{
	char host[HOST_SIZE] = "", random[UUID_TEXT_SIZE];
	unsigned long long start_ticks = 0;
	struct stat st = {0};
	int r = process_start_time(getpid(), &start_ticks);

	if (r == 0)
		r = boot_id_read(who->boot_id);
	if (r == 0 && stat("/proc/self/ns/pid", &st) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, -r, "reading /proc: %s", strerror(-r));
	host_name(host);
	who->pid_space = st.st_ino;
	(void)snprintf(who->identity, sizeof(who->identity),
		       "%s/%d/%llu/%llu/%s/%.8s", host, getpid(), start_ticks,
		       who->pid_space, who->boot_id, uuid_make(random));
	return 0;
}

int lease_machine_make(char *ret, struct error *err)
{
	char host[HOST_SIZE] = "", boot[UUID_TEXT_SIZE];
	int r = boot_id_read(boot);

	if (r < 0)
		return error_set(err, -r, "reading /proc: %s", strerror(-r));
	host_name(host);
	(void)snprintf(ret, LEASE_MACHINE_SIZE, "%s/%s", host, boot);
	return 0;
}

static bool identity_parse(const char *text, struct identity *ret)
{
	return sscanf(text, "%64[^/]/%d/%llu/%llu/%36[^/]/", ret->host,
		      &ret->pid, &ret->start_ticks, &ret->pid_space,
		      ret->boot_id) == 5 &&
	       ret->pid > 0;
}

/* Tell whether the holder was on this machine, and its process is no more. */
static bool holder_died(const struct lease_who *who,
			const struct identity *holder)
{
	return strcmp(holder->boot_id, who->boot_id) == 0 &&
	       holder->pid_space == who->pid_space &&
	       !process_alive(holder->pid, holder->start_ticks);
}

bool lease_who_died(const struct lease_who *us, const char *holder)
{
	struct identity who = {0};

	return identity_parse(holder, &who) && holder_died(us, &who);
}

int lease_who_busy(const char *holder, const char *doing, const char *what,
		   int64_t for_s, struct error *err)
{
	struct identity who = {0};

	if (!identity_parse(holder, &who))
		return error_set(err, EAGAIN,
				 "busy: '%.100s' is at work on '%s'; try again "
				 "later",
				 holder, what);
	return error_set(err, EAGAIN,
			 "busy: process %d on %s has been %.60s '%s' for "
			 "%" PRId64 " s; try again later",
			 who.pid, who.host, doing[0] ? doing : "busy with",
			 what, for_s);
}
