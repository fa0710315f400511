/* Loaded guests: one per file, whoever asks for it. */
#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/os_memory.h"

/* The loader's state is the process's, so this list of what it has loaded for us is too. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static guest *registry;

void guest_registry_lock(void) {
    pthread_mutex_lock(&registry_lock);
}

void guest_registry_unlock(void) {
    pthread_mutex_unlock(&registry_lock);
}

/* ---- Loading -------------------------------------------------------------------------------- */

static int find_text(struct dl_phdr_info *info, size_t size, void *ctx) {
    (void)size;
    guest *g = ctx;
    uintptr_t inside = (uintptr_t)g->d, low = UINTPTR_MAX, high = 0;
    bool ours = false;
    for (unsigned n = 0; n < info->dlpi_phnum; n++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[n];
        if (p->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        ours = ours || (inside >= start && inside < end);
        if (!(p->p_flags & PF_X)) continue;
        if (start < low) low = start;
        if (end > high) high = end;
    }
    if (!ours) return 0;
    g->text_low = low;
    g->text_high = high;
    return 1;
}

static bru_status load(guest *g, const char *path, bru_error *err) {
    if (fault_hit()) return error_set(err, BRU_ENOMEM, "guest %s: failed on purpose", path);
    g->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!g->handle) return error_set(err, BRU_EFORMAT, "%s is not a guest: %s", path, dlerror());
    g->d = dlsym(g->handle, GUEST_SYMBOL);
    if (!g->d)
        return error_set(err, BRU_EFORMAT, "%s is not a guest: it exports no " GUEST_SYMBOL, path);
    bru_status st = guest_descriptor_check(path, g->d, err);
    if (st) return st;
    if (!dl_iterate_phdr(find_text, g) || g->text_low >= g->text_high)
        return error_set(err, BRU_EFORMAT, "%s is not a guest: it has no code", path);
    return BRU_OK;
}

/* One table for all instances: it holds no address of any of them. */
static bru_status build_table(guest *g, bru_error *err) {
    if (g->d->table_size == 0) return BRU_OK;
    size_t page = os_page();
    g->table_len = (g->d->table_size + page - 1) / page * page;
    bru_status st = os_allocate(g->table_len, &g->table, err);
    if (st) return st;
    g->d->table_build(g->table);
    return os_freeze(g->table, g->table_len, err);
}

static void guest_free(guest *g) {
    os_release(g->table, g->table_len);
    if (g->handle) dlclose(g->handle);
    mem_free(g);
}

static bru_status guest_load(const char *path, const struct stat *s, guest **out, bru_error *err) {
    guest *g = mem_zero(1, sizeof *g);
    if (!g) return error_set(err, BRU_ENOMEM, "no memory for a guest");
    g->refs = 1;
    g->dev = s->st_dev;
    g->ino = s->st_ino;
    bru_status st = load(g, path, err);
    if (!st) {
        g->d->bind(&engine_host);
        st = build_table(g, err);
    }
    if (st)
        guest_free(g);
    else
        *out = g;
    return st;
}

static bru_status open_locked(const char *path, const struct stat *s, guest **out, bru_error *err) {
    for (guest *g = registry; g; g = g->next) {
        if (g->dev != s->st_dev || g->ino != s->st_ino) continue;
        g->refs++;
        *out = g;
        return BRU_OK;
    }
    bru_status st = guest_load(path, s, out, err);
    if (st) return st;
    (*out)->next = registry;
    registry = *out;
    return BRU_OK;
}

bru_status guest_open(const char *path, guest **out, bru_error *err) {
    *out = NULL;
    /* A name without a slash would be searched for among the system's libraries. */
    char here[4096];
    int n = snprintf(here, sizeof here, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (n < 0 || (size_t)n >= sizeof here)
        return error_set(err, BRU_EINVAL, "the path of a guest is too long");
    int fd = open(here, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait */
    if (fd < 0) return error_errno(err, errno, "guest %s", path);
    struct stat s;
    bru_status st = fstat(fd, &s) ? error_errno(err, errno, "guest %s", path) : BRU_OK;
    if (!st) st = guest_file_check(here, fd, err);
    close(fd);
    if (st) return st;
    guest_registry_lock();
    st = open_locked(here, &s, out, err);
    guest_registry_unlock();
    return st;
}

guest *guest_ref(guest *g) {
    guest_registry_lock();
    g->refs++;
    guest_registry_unlock();
    return g;
}

void guest_unref(guest *g) {
    if (!g) return;
    guest_registry_lock();
    bool last = --g->refs == 0;
    for (guest **at = &registry; last && *at; at = &(*at)->next) {
        if (*at != g) continue;
        *at = g->next;
        break;
    }
    if (last) guest_free(g);
    guest_registry_unlock();
}

/* ---- What it is ----------------------------------------------------------------------------- */

const char *guest_name(const guest *g) {
    return g->d->name;
}

const char *guest_wasm_sha256(const guest *g) {
    return g->d->wasm_sha256;
}

const char *guest_build_line(const guest *g) {
    return g->d->build;
}

uint32_t guest_flags(const guest *g) {
    return g->d->flags;
}

uint64_t guest_memory_max(const guest *g) {
    return (uint64_t)g->d->max_pages * GUEST_PAGE;
}

bru_status guest_export_find(const guest *g, const char *name, const char *type, uint32_t *out,
                             bru_error *err) {
    *out = UINT32_MAX;
    for (uint32_t n = 0; n < g->d->export_count; n++) {
        const guest_export *ex = &g->d->exports[n];
        if (strcmp(ex->name, name) != 0) continue;
        if (strcmp(ex->type, type) != 0)
            return error_set(err, BRU_EMISMATCH, "guest %s exports %s as %s, not as %s", g->d->name,
                             name, ex->type, type);
        *out = n;
        return BRU_OK;
    }
    return error_set(err, BRU_ENOENT, "guest %s exports no %s", g->d->name, name);
}

/* ---- Links ---------------------------------------------------------------------------------- */

static const door *door_find(const door_table *t, const guest_import *im) {
    for (size_t n = 0; n < t->count; n++) {
        const door *d = &t->doors[n];
        if (strcmp(d->name, im->name) == 0 && strcmp(d->module, im->module) == 0) return d;
    }
    return NULL;
}

static bru_status import_bind(const guest *g, const guest_import *im, const door_table *tables,
                              size_t count, bound_door *out, bru_error *err) {
    const char *other = NULL; /* the type under which the door is there */
    for (size_t t = 0; t < count; t++) {
        const door *d = door_find(&tables[t], im);
        if (!d) continue;
        if (strcmp(d->type, im->type) == 0) {
            *out = (bound_door){ d->fn, (uint32_t)t };
            return BRU_OK;
        }
        other = d->type;
    }
    if (other)
        return error_set(err, BRU_EMISMATCH,
                         "guest %s imports %s.%s as %s, but the host has it "
                         "as %s",
                         g->d->name, im->module, im->name, im->type, other);
    return error_set(err, BRU_EMISMATCH, "guest %s imports %s.%s (%s), which the host has not",
                     g->d->name, im->module, im->name, im->type);
}

bru_status guest_link_new(guest *g, const door_table *tables, size_t count, guest_link **out,
                          bru_error *err) {
    *out = NULL;
    if (count > LINK_TABLES)
        return error_set(err, BRU_EINVAL, "%zu door tables, the most is %d", count, LINK_TABLES);
    guest_link *l = mem_zero(1, sizeof *l);
    if (!l) return error_set(err, BRU_ENOMEM, "no memory for a link");
    atomic_init(&l->refs, 1);
    l->g = guest_ref(g);
    l->doors = mem_zero(g->d->import_count + 1u, sizeof *l->doors);
    bru_status st = l->doors ? BRU_OK : error_set(err, BRU_ENOMEM, "no memory for a link");
    for (uint32_t n = 0; !st && n < g->d->import_count; n++)
        st = import_bind(g, &g->d->imports[n], tables, count, &l->doors[n], err);
    if (st)
        guest_link_unref(l);
    else
        *out = l;
    return st;
}

guest_link *guest_link_ref(guest_link *l) {
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void guest_link_unref(guest_link *l) {
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
    mem_free(l->doors);
    guest_unref(l->g);
    mem_free(l);
}
