/* What the operating system does for memory, each primitive with its preconditions. Addresses and
 * lengths are multiples of os_page() unless said otherwise. Every call that takes a resource is a
 * fault point. Any thread. */
#ifndef BRU_BASE_OS_MEMORY_H
#define BRU_BASE_OS_MEMORY_H

#include "base.h"

/* Bytes of a machine page: a power of two, at most 65536. */
size_t os_page(void);

/* Reserves `len` bytes of addresses that nothing may touch yet and that commit no memory; no huge
 * pages will ever back them, since one byte touched would cost two megabytes.
 * BRU_ELIMIT  the address space, the number of mappings or a limit is exhausted: says which. */
bru_status os_reserve(size_t len, uint8_t **out, bru_error *err);
void os_release(uint8_t *at, size_t len);

/* Within a reservation: allows reads and writes, or forbids every access (contents stay). */
bru_status os_allow(uint8_t *at, size_t len, bru_error *err);
bru_status os_forbid(uint8_t *at, size_t len, bru_error *err);

/* Within a reservation: the file's bytes, copied page by page when written. */
bru_status os_map_file(uint8_t *at, size_t len, int fd, uint64_t offset, bru_error *err);
/* Back to reserved: contents gone, no access. */
bru_status os_unmap(uint8_t *at, size_t len, bru_error *err);

/* Forgets what was written there: zeros, or the file's bytes again. */
void os_discard(uint8_t *at, size_t len);

/* A read-only view of a file, until os_release(). */
bru_status os_view(int fd, uint64_t offset, size_t len, uint8_t **out, bru_error *err);

/* Memory of its own that can be read and then no more changed. */
bru_status os_allocate(size_t len, uint8_t **out, bru_error *err);
bru_status os_freeze(uint8_t *at, size_t len, bru_error *err);

/* A file of `len` zero bytes that lives in memory only; writing it; forbidding any change. */
bru_status os_memory_file(uint64_t len, int *fd, bru_error *err);
bru_status os_write_at(int fd, uint64_t at, const void *bytes, size_t len, bru_error *err);
bru_status os_seal(int fd, bru_error *err);

/* Another descriptor of the same file, closed in children that are executed. */
bru_status os_duplicate(int fd, int *out, bru_error *err);
void os_close(int fd); /* below zero: nothing */
bru_status os_file_size(int fd, uint64_t *out, bru_error *err);

#endif
