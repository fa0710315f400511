/* Is this file a guest? Answered before it is loaded, where loading would crash, and before
 * anything in it is relied upon. */
#define _GNU_SOURCE
#include "internal.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE      EM_X86_64
#define MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define MACHINE      EM_AARCH64
#define MACHINE_NAME "aarch64"
#else
#error "the engine runs on x86-64 and aarch64"
#endif

/* ---- The file ------------------------------------------------------------------------------ */

static bool read_at(int fd, void *out, size_t len, uint64_t at) {
    return pread(fd, out, len, (off_t)at) == (ssize_t)len;
}

/* Whether all that the loader will touch lies inside the file. */
static bool segments_inside(int fd, const ElfW(Ehdr) * h, uint64_t size) {
    for (unsigned n = 0; n < h->e_phnum; n++) {
        ElfW(Phdr) p;
        if (!read_at(fd, &p, sizeof p, h->e_phoff + n * sizeof p)) return false;
        if (p.p_offset > size || p.p_filesz > size - p.p_offset) return false;
    }
    return h->e_phnum > 0;
}

bru_status guest_file_check(const char *path, int fd, bru_error *err) {
    struct stat s;
    ElfW(Ehdr) h;
    if (fstat(fd, &s) != 0) return error_errno(err, errno, "guest %s", path);
    if (!read_at(fd, &h, sizeof h, 0) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        return error_set(err, BRU_EFORMAT, "%s is not a guest: not a shared object", path);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_type != ET_DYN || h.e_machine != MACHINE ||
        h.e_phentsize != sizeof(ElfW(Phdr)))
        return error_set(err, BRU_EFORMAT, "%s is not a guest for this machine (" MACHINE_NAME ")",
                         path);
    if (!segments_inside(fd, &h, (uint64_t)s.st_size))
        return error_set(err, BRU_EFORMAT, "%s is damaged: the file ends too early", path);
    return BRU_OK;
}

/* ---- The descriptor ------------------------------------------------------------------------ */

#define COUNT_MAX 65536u /* of imports, exports or globals */

/* Parameters, a colon, at most one result. */
static bool type_ok(const char *type) {
    if (!type) return false;
    size_t params = strspn(type, "iIfF");
    if (type[params] != ':' || params > 64) return false;
    const char *result = type + params + 1;
    return result[0] == '\0' || (strspn(result, "iIfF") == 1 && result[1] == '\0');
}

static const char *imports_fault(const guest_descriptor *d) {
    if (d->import_count > COUNT_MAX || (d->import_count && !d->imports)) return "imports";
    for (uint32_t n = 0; n < d->import_count; n++) {
        const guest_import *im = &d->imports[n];
        if (!im->module || !im->name || !type_ok(im->type)) return "an import";
    }
    return NULL;
}

static const char *exports_fault(const guest_descriptor *d) {
    if (d->export_count > COUNT_MAX || (d->export_count && !d->exports)) return "exports";
    for (uint32_t n = 0; n < d->export_count; n++) {
        const guest_export *ex = &d->exports[n];
        if (!ex->name || !type_ok(ex->type) || !ex->call) return "an export";
    }
    return NULL;
}

static const char *globals_fault(const guest_descriptor *d) {
    if (d->global_count > COUNT_MAX || (d->global_count && !d->globals)) return "globals";
    for (uint32_t n = 0; n < d->global_count; n++) {
        const guest_global *g = &d->globals[n];
        bool inside = g->size > 0 && g->size <= 16 && g->size <= d->instance_size &&
                      g->offset <= d->instance_size - g->size;
        if (!g->name || strlen(g->name) > 1000 || !inside) return "a global";
    }
    return NULL;
}

/* What is wrong with it, or NULL. */
static const char *descriptor_fault(const guest_descriptor *d) {
    if (!d->name || !d->build) return "name";
    if (!d->wasm_sha256 || strspn(d->wasm_sha256, "0123456789abcdef") != 64 ||
        d->wasm_sha256[64] != '\0')
        return "wasm_sha256";
    if (d->instance_size == 0 || d->instance_size > GUEST_INSTANCE_SPAN) return "instance_size";
    if (d->max_pages > SLOT_MEMORY_MAX / GUEST_PAGE || d->initial_pages > d->max_pages)
        return "pages";
    if (d->table_size > (size_t)1 << 30) return "table_size";
    if (!d->bind || !d->attach || !d->instantiate || !d->resize ||
        (d->table_size && !d->table_build))
        return "functions";
    const char *fault = imports_fault(d);
    if (!fault) fault = exports_fault(d);
    return fault ? fault : globals_fault(d);
}

bru_status guest_descriptor_check(const char *path, const guest_descriptor *d, bru_error *err) {
    if (d->abi_version != GUEST_ABI_VERSION)
        return error_set(err, BRU_EMISMATCH,
                         "guest %s speaks version %u of the contract, this library version %u: "
                         "build both from the same source",
                         path, d->abi_version, GUEST_ABI_VERSION);
    const char *fault = descriptor_fault(d);
    if (fault)
        return error_set(err, BRU_EFORMAT, "%s is not a valid guest: its descriptor's %s", path,
                         fault);
    return BRU_OK;
}
