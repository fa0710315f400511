/* Memory on Linux. */
#define _GNU_SOURCE
#include "os_memory.h"
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

size_t os_page(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- Which limit was it? ------------------------------------------------------------------ */

/* The number in a file of /proc, 0 if it cannot be read. */
static unsigned long proc_number(const char *path) {
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    unsigned long n = 0;
    if (fscanf(f, "%lu", &n) != 1) n = 0;
    fclose(f);
    return n;
}

static unsigned long mapping_count(void) {
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f) return 0;
    unsigned long lines = 0;
    for (int c = getc(f); c != EOF; c = getc(f)) lines += c == '\n';
    fclose(f);
    return lines;
}

/* The kernel says ENOMEM for four different reasons; people need to know which. `len` bytes were
 * asked for. Slow, and only called on failure. */
static bru_status explain_enomem(size_t len, const char *what, bru_error *err) {
    struct rlimit as;
    if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY)
        return error_set(err, BRU_ELIMIT,
                         "%s: %zu MiB of addresses do not fit the address space limit of %llu MiB; "
                         "raise it (ulimit -v, RLIMIT_AS)",
                         what, len >> 20, (unsigned long long)as.rlim_cur >> 20);
    unsigned long most = proc_number("/proc/sys/vm/max_map_count");
    unsigned long have = mapping_count();
    if (most != 0 && have + 8 >= most)
        return error_set(err, BRU_ELIMIT,
                         "%s: this process has %lu mappings of the %lu allowed; raise "
                         "vm.max_map_count (sysctl -w vm.max_map_count=262144)",
                         what, have, most);
    if (proc_number("/proc/sys/vm/overcommit_memory") == 2)
        return error_set(err, BRU_ELIMIT,
                         "%s: refused while vm.overcommit_memory is 2, which counts reserved "
                         "addresses as memory; set it to 0 or 1",
                         what);
    return error_set(err, BRU_ELIMIT, "%s: no room for %zu MiB in the address space", what,
                     len >> 20);
}

static bru_status memory_error(size_t len, const char *what, bru_error *err) {
    return errno == ENOMEM ? explain_enomem(len, what, err) : error_errno(err, errno, "%s", what);
}

static bru_status injected(const char *what, bru_error *err) {
    return error_set(err, BRU_ENOMEM, "%s: failed on purpose", what);
}

/* ---- Addresses ---------------------------------------------------------------------------- */

bru_status os_reserve(size_t len, uint8_t **out, bru_error *err) {
    *out = NULL;
    if (fault_hit()) return injected("reserving addresses", err);
    void *at = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return memory_error(len, "reserving addresses", err);
    /* Kernels without huge pages refuse this, and need it not. */
    madvise(at, len, MADV_NOHUGEPAGE);
    *out = at;
    return BRU_OK;
}

void os_release(uint8_t *at, size_t len) {
    if (at) munmap(at, len);
}

bru_status os_allow(uint8_t *at, size_t len, bru_error *err) {
    if (len == 0) return BRU_OK;
    if (fault_hit()) return injected("opening memory", err);
    if (mprotect(at, len, PROT_READ | PROT_WRITE) != 0)
        return memory_error(len, "opening memory", err);
    return BRU_OK;
}

bru_status os_forbid(uint8_t *at, size_t len, bru_error *err) {
    if (len == 0) return BRU_OK;
    if (mprotect(at, len, PROT_NONE) != 0) return memory_error(len, "closing memory", err);
    return BRU_OK;
}

bru_status os_map_file(uint8_t *at, size_t len, int fd, uint64_t offset, bru_error *err) {
    if (len == 0) return BRU_OK;
    if (fault_hit()) return injected("mapping an image", err);
    void *got = mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
                     (off_t)offset);
    return got == MAP_FAILED ? memory_error(len, "mapping an image", err) : BRU_OK;
}

bru_status os_unmap(uint8_t *at, size_t len, bru_error *err) {
    if (len == 0) return BRU_OK;
    void *got =
        mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (got == MAP_FAILED) return memory_error(len, "unmapping memory", err);
    madvise(at, len, MADV_NOHUGEPAGE);
    return BRU_OK;
}

void os_discard(uint8_t *at, size_t len) {
    if (len != 0) madvise(at, len, MADV_DONTNEED);
}

bru_status os_view(int fd, uint64_t offset, size_t len, uint8_t **out, bru_error *err) {
    *out = NULL;
    if (fault_hit()) return injected("viewing a file", err);
    void *at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (at == MAP_FAILED) return memory_error(len, "viewing a file", err);
    *out = at;
    return BRU_OK;
}

bru_status os_allocate(size_t len, uint8_t **out, bru_error *err) {
    *out = NULL;
    if (fault_hit()) return injected("allocating pages", err);
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return memory_error(len, "allocating pages", err);
    *out = at;
    return BRU_OK;
}

bru_status os_freeze(uint8_t *at, size_t len, bru_error *err) {
    if (fault_hit()) return injected("freezing pages", err);
    return mprotect(at, len, PROT_READ) != 0 ? memory_error(len, "freezing pages", err) : BRU_OK;
}

/* ---- Files -------------------------------------------------------------------------------- */

bru_status os_memory_file(uint64_t len, int *fd, bru_error *err) {
    *fd = -1;
    if (fault_hit()) return injected("making a memory file", err);
    int made = memfd_create("brumate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) return error_errno(err, errno, "making a memory file");
    if (ftruncate(made, (off_t)len) != 0) {
        bru_status st = error_errno(err, errno, "sizing a memory file");
        close(made);
        return st;
    }
    *fd = made;
    return BRU_OK;
}

bru_status os_write_at(int fd, uint64_t at, const void *bytes, size_t len, bru_error *err) {
    if (fault_hit()) return injected("writing an image", err);
    const uint8_t *p = bytes;
    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return error_errno(err, n < 0 ? errno : EIO, "writing an image");
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return BRU_OK;
}

bru_status os_seal(int fd, bru_error *err) {
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    if (fcntl(fd, F_ADD_SEALS, seals) != 0) return error_errno(err, errno, "sealing an image");
    return BRU_OK;
}

bru_status os_duplicate(int fd, int *out, bru_error *err) {
    *out = -1;
    if (fault_hit()) return injected("duplicating a descriptor", err);
    *out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (*out < 0) return error_errno(err, errno, "duplicating descriptor %d", fd);
    return BRU_OK;
}

void os_close(int fd) {
    if (fd >= 0) close(fd);
}

bru_status os_file_size(int fd, uint64_t *out, bru_error *err) {
    struct stat s;
    *out = 0;
    if (fstat(fd, &s) != 0) return error_errno(err, errno, "asking the size of an image");
    *out = s.st_size > 0 ? (uint64_t)s.st_size : 0;
    return BRU_OK;
}
