/* A door: one function of the host that a guest may import, in a form that neither the rooms that
 * write doors nor the engine that calls them need to know of each other for. */
#ifndef BRU_BASE_DOOR_H
#define BRU_BASE_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A view of a guest's linear memory, good for one door call: whatever is written here may be what
 * a hostile guest made up. Offsets and lengths are checked by gmem_at and nowhere else. */
typedef struct gmem {
    uint8_t *base;
    uint64_t size;
} gmem;

/* The host address of `len` bytes at guest offset `at`, or NULL if they are not all inside. A
 * length of 0 is inside for every at <= size. */
static inline void *gmem_at(gmem m, uint32_t at, uint64_t len) {
    return (uint64_t)at <= m.size && len <= m.size - at ? m.base + at : NULL;
}

/* Loads and stores, little-endian and unaligned; false if they would leave the memory. */
static inline bool gmem_get32(gmem m, uint32_t at, uint32_t *v) {
    const void *p = gmem_at(m, at, sizeof *v);
    if (p) memcpy(v, p, sizeof *v);
    return p != NULL;
}
static inline bool gmem_put32(gmem m, uint32_t at, uint32_t v) {
    void *p = gmem_at(m, at, sizeof v);
    if (p) memcpy(p, &v, sizeof v);
    return p != NULL;
}
static inline bool gmem_put64(gmem m, uint32_t at, uint64_t v) {
    void *p = gmem_at(m, at, sizeof v);
    if (p) memcpy(p, &v, sizeof v);
    return p != NULL;
}

/* What the engine does after a door function returns. */
typedef enum door_next {
    DOOR_RETURN, /* *result is the value of the import */
    DOOR_PARK,   /* the guest must wait: its stack is parked, the embedder gets control, and on
                  * resuming the same door is called again with the same arguments */
    DOOR_STOP    /* the guest ends here and does not run on; the owner of ctx knows why */
} door_next;

typedef door_next (*door_fn)(void *ctx, gmem mem, const uint64_t *args, uint64_t *result);

/* `type` as in guest_abi.h: "iiii:i". */
typedef struct door {
    const char *module, *name, *type;
    door_fn fn;
} door;

#endif
