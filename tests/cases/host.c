#define _GNU_SOURCE
#include "host.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

unsigned host_descriptors(void) {
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

unsigned host_mappings(void) {
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    for (int c; f && (c = getc(f)) != EOF;) n += c == '\n';
    if (f) fclose(f);
    return n;
}

/* The sum of the lines of a /proc file that begin with one of two names, in bytes. */
static uint64_t proc_sum(const char *path, const char *a, const char *b) {
    uint64_t sum = 0;
    char line[256];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, a, strlen(a)) && strncmp(line, b, strlen(b))) continue;
        char *number = strchr(line, ':');
        if (number) sum += strtoull(number + 1, NULL, 10) * 1024;
    }
    if (f) fclose(f);
    return sum;
}

uint64_t host_resident(void) {
    return proc_sum("/proc/self/status", "VmRSS:", "VmRSS:");
}

uint64_t host_peak(void) {
    return proc_sum("/proc/self/status", "VmHWM:", "VmHWM:");
}

uint64_t host_private(void) {
    return proc_sum("/proc/self/smaps_rollup", "Anonymous:", "Swap:");
}

void host_forget_peak(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

void host_look(host_state *out) {
    memset(out, 0, sizeof *out);
    if (!getcwd(out->cwd, sizeof out->cwd)) out->cwd[0] = '\0';
    out->umask = umask(0);
    umask(out->umask);
    for (char **e = environ; e && *e; e++) out->env_count++;
    out->nice = getpriority(PRIO_PROCESS, 0);
    sigset_t pending;
    sigpending(&pending);
    for (int s = 1; s < 32; s++) {
        struct sigaction act;
        if (!sigaction(s, NULL, &act)) out->handlers[s] = (uintptr_t)act.sa_handler;
        if (sigismember(&pending, s) == 1) out->pending |= 1ull << s;
    }
    out->descriptors = host_descriptors();
}

const char *host_difference(const host_state *before, const host_state *after) {
    if (strcmp(before->cwd, after->cwd)) return "the working folder";
    if (before->umask != after->umask) return "the umask";
    if (before->env_count != after->env_count) return "the environment";
    if (before->nice != after->nice) return "the priority";
    if (memcmp(before->handlers, after->handlers, sizeof before->handlers))
        return "signal handlers";
    if (before->pending != after->pending) return "pending signals";
    if (before->descriptors != after->descriptors) return "the number of open descriptors";
    return NULL;
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *what;
    unsigned seconds, round;
    int running;
} watch = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0, 0 };

static void *watch_main(void *unused) {
    (void)unused;
    pthread_mutex_lock(&watch.lock);
    for (;;) {
        unsigned round = watch.round;
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += watch.what ? watch.seconds : 3600;
        while (watch.round == round) {
            if (!pthread_cond_timedwait(&watch.changed, &watch.lock, &end)) continue;
            if (!watch.what) break;
            fprintf(stderr, "%s did not end within %u s\n", watch.what, watch.seconds);
            _exit(1);
        }
    }
    return NULL;
}

void host_watch(const char *what, unsigned seconds) {
    pthread_mutex_lock(&watch.lock);
    watch.what = what;
    watch.seconds = seconds;
    watch.round++;
    if (!watch.running) {
        pthread_t t;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        watch.running = !pthread_create(&t, NULL, watch_main, NULL) && !pthread_detach(t);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_cond_signal(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
}
