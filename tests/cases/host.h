/* What a guest must leave alone in the process that runs it. */
#ifndef BRU_TESTS_CASES_HOST_H
#define BRU_TESTS_CASES_HOST_H

#include <stddef.h>
#include <stdint.h>

typedef struct host_state {
    char cwd[1024];
    unsigned umask;
    unsigned env_count;
    int nice;
    uintptr_t handlers[32]; /* of signals 1 to 31 */
    uint64_t pending;       /* signals, a bit each */
    unsigned descriptors;
} host_state;

void host_look(host_state *out);

/* NULL if nothing changed, else the name of what did. */
const char *host_difference(const host_state *before, const host_state *after);

/* Bytes. The peak is since the last host_forget_peak(). */
uint64_t host_resident(void);
uint64_t host_peak(void);
void host_forget_peak(void);
/* Memory of its own. Not what the kernel calls private: that takes in a file's pages as soon as no
 * other process maps the file. */
uint64_t host_private(void);
unsigned host_descriptors(void);
unsigned host_mappings(void);

/* Ends the process, naming `what`, if it is not called again within `seconds`: a test that hangs
 * must fail. NULL stops the watch. */
void host_watch(const char *what, unsigned seconds);

#endif
