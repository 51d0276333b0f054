/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a process, without a clock: its instructions and system calls.
 *
 *	count_steps PID [NAME]
 *
 * Steps each thread of PID, or those whose names begin with NAME, instruction
 * by instruction (ptrace(2)), on one processor. Says "ready". Then for each
 * line of standard input it waits until all threads have been blocked for
 * SETTLE_MS, and says what was done since the last line:
 *
 *	{"own": INSTRUCTIONS, "calls": {"NUMBER": COUNT, ...}}
 *
 * After a line "at" there is also where the program's own were, from the start
 * of its file: "at": {"OFFSET": COUNT, ...}.
 *
 * "own" are the instructions of the program itself, not of its libraries, which
 * differ between processors and releases. Calls are the process's own and its
 * libraries'. An instruction with a rep prefix counts once for each repetition.
 * At the end of the input PID goes on as before. x86-64 only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTLE_MS 30
#define TICK_MS   5
#define CALLS_MAX 512  /* numbers of system calls */
#define PAGE      4096 /* bytes */
#define PAGES_MAX 8192 /* of code; a power of two */

struct code_page {
	uint64_t number;         /* address / PAGE; 0: unused */
	uint8_t bytes[PAGE + 1]; /* with the first byte of the next page */
};

struct counter {
	pid_t pid;
	const char *name; /* beginning of the names of the threads that count */
	int memory;       /* /proc/PID/mem */
	int cpu;
	uint64_t text_start, text_end;
	uint64_t text_offset; /* in its file */
	uint64_t own;
	uint32_t *at; /* counts, by byte of the program's code */
	uint64_t calls[CALLS_MAX];
	struct code_page *pages[PAGES_MAX];
};

static void die(const char *what)
{
	fprintf(stderr, "count_steps: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Find where the program itself has its code. */
static void find_text(struct counter *counter)
{
	char path[64], program[PATH_MAX], line[PATH_MAX + 128];
	ssize_t n;
	FILE *maps;

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)counter->pid);
	n = readlink(path, program, sizeof(program) - 1);
	if (n < 0)
		die(path);
	program[n] = '\0';
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)counter->pid);
	maps = fopen(path, "re");
	if (!maps)
		die(path);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end, offset;
		char rights[8];
		const char *name = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (name && strcmp(name, program) == 0 &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64, &start,
			   &end, rights, &offset) == 4 &&
		    rights[2] == 'x') {
			counter->text_start = start;
			counter->text_end = end;
			counter->text_offset = offset;
		}
	}
	(void)fclose(maps);
	if (!counter->text_end) {
		errno = ENOEXEC;
		die(program);
	}
	counter->at = calloc(counter->text_end - counter->text_start,
			     sizeof(*counter->at));
	if (!counter->at)
		die("memory");
}

/* Get the two bytes of code there, or NULL. */
static const uint8_t *code_at(struct counter *counter, uint64_t address)
{
	uint64_t number = address / PAGE;
	size_t slot = number * UINT64_C(0x9e3779b97f4a7c15) >> 51;
	struct code_page *page;

	for (;; slot = (slot + 1) % PAGES_MAX) {
		page = counter->pages[slot];
		if (page && page->number == number)
			return page->bytes + address % PAGE;
		if (!page)
			break;
	}
	page = calloc(1, sizeof(*page));
	if (!page)
		die("memory");
	page->number = number;
	if (pread(counter->memory, page->bytes, sizeof(page->bytes),
		  (off_t)(number * PAGE)) < PAGE) {
		free(page); /* the vDSO's last page, or gone */
		return NULL;
	}
	counter->pages[slot] = page;
	return page->bytes + address % PAGE;
}

/* Count the next instruction, which @thread is about to execute. */
static void count_next(struct counter *counter, pid_t thread)
{
	static const uint8_t syscall_code[] = {0x0f, 0x05};
	struct user_regs_struct regs;
	const uint8_t *code;

	if (ptrace(PTRACE_GETREGS, thread, NULL, &regs) < 0)
		return; /* killed meanwhile */
	if (regs.rip >= counter->text_start && regs.rip < counter->text_end) {
		counter->own++;
		counter->at[regs.rip - counter->text_start]++;
	}
	code = code_at(counter, regs.rip);
	if (code && memcmp(code, syscall_code, sizeof(syscall_code)) == 0 &&
	    regs.rax < CALLS_MAX)
		counter->calls[regs.rax]++;
}

/* Take a stop of one thread, which goes on to its next stop. */
static void on_stop(struct counter *counter, pid_t thread, int status)
{
	int event = (int)((unsigned)status >> 16), signal = 0;

	if (!WIFSTOPPED(status))
		return;
	if (event == 0 && WSTOPSIG(status) == SIGTRAP)
		count_next(counter, thread);
	else if (event == 0)
		signal = WSTOPSIG(status);
	(void)ptrace(PTRACE_SINGLESTEP, thread, NULL, (void *)(intptr_t)signal);
}

/*
 * Do all threads sleep? On a busy machine one that could run may not for a
 * while.
 */
static bool all_asleep(const struct counter *counter)
{
	char path[64 + NAME_MAX], text[512];
	const struct dirent *entry;
	bool asleep = true;
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)counter->pid);
	tasks = opendir(path);
	while (tasks && asleep && (entry = readdir(tasks))) {
		const char *state;
		ssize_t n;
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/stat",
			       (int)counter->pid, entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			(void)close(fd);
		text[n > 0 ? n : 0] = '\0';
		state = strrchr(text, ')'); /* proc(5) */
		asleep = !state || strncmp(state, ") S", 3) == 0;
	}
	if (tasks)
		(void)closedir(tasks);
	return asleep;
}

static void on_tick(int signal)
{
	(void)signal; /* waitpid() ends with EINTR */
}

/*
 * Follow until there is input (@for_input), or no thread has stopped for
 * SETTLE_MS and all sleep. False when the process is gone.
 */
static bool follow(struct counter *counter, bool for_input)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	int idle_ms = 0, status;

	for (;;) {
		pid_t thread = waitpid(-1, &status, __WALL);

		if (thread > 0) {
			idle_ms = 0;
			on_stop(counter, thread, status);
			continue;
		}
		if (errno != EINTR)
			return false;
		idle_ms += TICK_MS;
		if (for_input ? poll(&input, 1, 0) != 0
			      : idle_ms > SETTLE_MS && all_asleep(counter))
			return true;
	}
}

static bool is_named(const struct counter *counter, const char *thread)
{
	char path[64 + NAME_MAX], comm[32] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm",
		       (int)counter->pid, thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (read(fd, comm, sizeof(comm) - 1) < 0)
			comm[0] = '\0';
		(void)close(fd);
	}
	return strncmp(comm, counter->name, strlen(counter->name)) == 0;
}

/*
 * Run @thread on one processor, before all others. Each step is two switches
 * between tasks, and on a busy machine another would run at each. Counting
 * works without that, too.
 */
static void hurry(pid_t thread, int cpu)
{
	const struct sched_param first = {.sched_priority = 1};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	(void)sched_setaffinity(thread, sizeof(one), &one);
	if (sched_setscheduler(thread, SCHED_FIFO, &first) < 0)
		(void)setpriority(PRIO_PROCESS, (id_t)thread, -20);
}

/*
 * Do @act for each thread that we follow, or could. Returns how many there are;
 * the error of the last @act that went wrong is in errno.
 */
static unsigned each_thread(struct counter *counter,
			    bool (*act)(struct counter *counter, pid_t thread))
{
	char path[64];
	const struct dirent *entry;
	unsigned done = 0;
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)counter->pid);
	tasks = opendir(path);
	if (!tasks)
		die(path);
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] != '.' &&
		    is_named(counter, entry->d_name) &&
		    act(counter, (pid_t)atoi(entry->d_name)))
			done++;
	}
	(void)closedir(tasks);
	return done;
}

static bool seize(struct counter *counter, pid_t thread)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL,
		   (void *)(intptr_t)PTRACE_O_TRACECLONE) < 0 ||
	    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0)
		die("ptrace");
	hurry(thread, counter->cpu);
	return true;
}

static bool interrupt(struct counter *counter, pid_t thread)
{
	(void)counter;
	return ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0;
}

static void take_hold(struct counter *counter)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)counter->pid);
	counter->memory = open(path, O_RDONLY | O_CLOEXEC);
	if (counter->memory < 0)
		die(path);
	counter->cpu = sched_getcpu();
	hurry(0, counter->cpu);
	if (each_thread(counter, seize) == 0) {
		errno = ESRCH;
		die(counter->name);
	}
}

/*
 * Has the thread a signal? A thread that was blocked stops for us before the
 * signal of its last step, which would end it later.
 */
static bool has_signal(pid_t thread)
{
	struct __ptrace_peeksiginfo_args first = {.nr = 1};
	siginfo_t info;

	return ptrace(PTRACE_PEEKSIGINFO, thread, &first, &info) == 1 &&
	       info.si_signo == SIGTRAP;
}

/*
 * Let each thread go on as before. If we just ended, each would stop after a
 * step.
 */
static void let_go(struct counter *counter)
{
	unsigned left = each_thread(counter, interrupt);
	int status;

	while (left) {
		pid_t thread = waitpid(-1, &status, __WALL);

		if (thread < 0 && errno == EINTR)
			continue;
		if (thread < 0)
			return;
		if (WIFSTOPPED(status) && has_signal(thread)) {
			(void)ptrace(PTRACE_CONT, thread, NULL, NULL);
			continue;
		}
		(void)ptrace(PTRACE_DETACH, thread, NULL, NULL);
		left--;
	}
}

static void say_where(const struct counter *counter)
{
	const char *comma = "";

	printf(", \"at\": {");
	for (uint64_t i = 0; i < counter->text_end - counter->text_start; i++) {
		if (!counter->at[i])
			continue;
		printf("%s\"%" PRIu64 "\": %" PRIu32, comma,
		       counter->text_offset + i, counter->at[i]);
		comma = ", ";
	}
	putchar('}');
}

static void say(struct counter *counter, bool where)
{
	const char *comma = "";
	sigset_t ticks, before;

	/* No tick ends a write in the middle. */
	(void)sigemptyset(&ticks);
	(void)sigaddset(&ticks, SIGALRM);
	(void)sigprocmask(SIG_BLOCK, &ticks, &before);
	printf("{\"own\": %" PRIu64 ", \"calls\": {", counter->own);
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		if (!counter->calls[i])
			continue;
		printf("%s\"%u\": %" PRIu64, comma, i, counter->calls[i]);
		comma = ", ";
	}
	putchar('}');
	if (where)
		say_where(counter);
	puts("}");
	(void)fflush(stdout);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	counter->own = 0;
	memset(counter->at, 0,
	       (counter->text_end - counter->text_start) *
		       sizeof(*counter->at));
	memset(counter->calls, 0, sizeof(counter->calls));
}

int main(int argc, char **argv)
{
	static struct counter counter;
	const struct sigaction action = {.sa_handler = on_tick};
	const struct itimerval ticks = {{0, TICK_MS * 1000},
					{0, TICK_MS * 1000}};
	char line[16];

	if (argc < 2 || argc > 3 || (counter.pid = (pid_t)atoi(argv[1])) <= 0) {
		fprintf(stderr, "usage: count_steps PID [NAME]\n");
		return 2;
	}
	if (sigaction(SIGALRM, &action, NULL) < 0 ||
	    setitimer(ITIMER_REAL, &ticks, NULL) < 0)
		die("timer");
	find_text(&counter);
	counter.name = argc > 2 ? argv[2] : "";
	take_hold(&counter);
	if (!follow(&counter, false))
		return 1;
	puts("ready");
	(void)fflush(stdout);
	for (;;) {
		if (!follow(&counter, true))
			return 1;
		if (!fgets(line, sizeof(line), stdin))
			break;
		if (!follow(&counter, false))
			return 1;
		say(&counter, strcmp(line, "at\n") == 0);
	}
	let_go(&counter);
	return 0;
}
