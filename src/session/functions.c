#include "session/functions.h"

#include <stdlib.h>
#include <string.h>

bool name_is_identifier(const char *name, size_t len) {
    if (len == 0 || len > NAME_BYTES_MAX || (name[0] >= '0' && name[0] <= '9')) return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c < 0x80) return false;
    }
    return len < 2 || name[0] != '_' || name[1] != '_';
}

/* Identifiers with dots between. */
static bool is_dotted_name(const char *name) {
    for (const char *dot; (dot = strchr(name, '.')); name = dot + 1)
        if (!name_is_identifier(name, (size_t)(dot - name))) return false;
    return name_is_identifier(name, strlen(name));
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, "db" stands right before "db.query": a dot is less than all that a name may go on with.
 */
static bru_status check_clashes(const char **names, size_t count, bru_error *err) {
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++) {
        size_t len = strlen(names[i - 1]);
        if (strncmp(names[i - 1], names[i], len) != 0) continue;
        if (names[i][len] == '\0')
            return error_set(err, BRU_EINVAL, "there are two host functions '%.60s'", names[i]);
        if (names[i][len] == '.')
            return error_set(err, BRU_EINVAL, "'%.60s' cannot be a host function and hold '%.60s'",
                             names[i - 1], names[i]);
    }
    return BRU_OK;
}

static bru_status copy_one(const bru_function *f, buf *out) {
    const char *texts[] = { f->name, f->description ? f->description : "",
                            f->schema ? f->schema : "" };
    bru_status st = BRU_OK;
    for (int i = 0; !st && i < 3; i++) st = buf_append(out, texts[i], strlen(texts[i]) + 1);
    return st;
}

bru_status functions_copy(const bru_function *functions, size_t count, buf *out, bru_error *err) {
    if (count == 0) return BRU_OK;
    if (count > FUNCTIONS_MAX)
        return error_set(err, BRU_ELIMIT, "%zu host functions are more than %d", count,
                         FUNCTIONS_MAX);
    const char **names = mem_zero(count, sizeof *names);
    bru_status st = names ? BRU_OK : BRU_ENOMEM;
    for (size_t i = 0; !st && i < count; i++) {
        names[i] = functions[i].name;
        if (!names[i] || !is_dotted_name(names[i])) {
            st = error_set(err, BRU_EINVAL,
                           "host function %zu: '%.60s' is no name: identifiers with dots between, "
                           "that do not begin with two underscores",
                           i, names[i] ? names[i] : "");
            mem_free(names);
            return st;
        }
        st = copy_one(&functions[i], out);
    }
    if (st)
        st = error_set(err, st,
                       st == BRU_ELIMIT ? "host functions of more than 8 MiB of text"
                                        : "no memory for the host functions");
    else
        st = check_clashes(names, count, err);
    mem_free(names);
    return st;
}
