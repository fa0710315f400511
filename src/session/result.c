#include "session/result.h"

#include <string.h>

static const struct {
    const char *text;
    int exit_code;
} reasons[] = {
#define REASON_ROW(name, text, code) [BRU_REASON_##name] = { text, code },
    BRU_REASON_MAP(REASON_ROW)
#undef REASON_ROW
};

const char *bru_reason_text(bru_reason reason) {
    size_t i = (size_t)reason;
    return i < sizeof reasons / sizeof *reasons ? reasons[i].text : "unknown reason";
}

bru_result *result_new(void) {
    return mem_zero(1, sizeof(bru_result));
}

bru_status result_set(bru_result *r, bru_text which, const void *data, size_t len) {
    mem_free(r->texts[which].data);
    r->texts[which].data = NULL;
    r->texts[which].len = 0;
    if (len == 0) return BRU_OK;
    char *copy = mem_copy(data, len);
    if (!copy) return BRU_ENOMEM;
    r->texts[which].data = copy;
    r->texts[which].len = len;
    return BRU_OK;
}

/* Room for one more, in powers of two. */
static bool artifacts_make_room(bru_result *r) {
    size_t n = r->artifact_count;
    if ((n & (n - 1)) != 0) return true;
    artifact *more = mem_grow(r->artifacts, (n ? 2 * n : 1) * sizeof *more);
    if (more) r->artifacts = more;
    return more != NULL;
}

bru_status result_add_artifact(bru_result *r, uint64_t max, const void *type, size_t type_len,
                               const void *data, size_t len) {
    if (type_len == 0 || type_len > RESULT_ARTIFACT_TYPE_MAX || memchr(type, '\0', type_len))
        return BRU_EGUEST;
    if (r->artifact_count >= RESULT_ARTIFACTS_MAX || r->artifact_bytes > max ||
        type_len + len > max - r->artifact_bytes)
        return BRU_ELIMIT;
    char *bytes = artifacts_make_room(r) ? mem_grow(NULL, type_len + 1 + len + 1) : NULL;
    if (!bytes) return BRU_ENOMEM;
    memcpy(bytes, type, type_len);
    bytes[type_len] = '\0';
    if (len) memcpy(bytes + type_len + 1, data, len);
    bytes[type_len + 1 + len] = '\0';
    r->artifacts[r->artifact_count++] = (artifact){ bytes, len, type_len + 1 };
    r->artifact_bytes += type_len + len;
    return BRU_OK;
}

void result_give_output(bru_result *r, char *both, size_t len, char *one[2], const size_t lens[2]) {
    static const bru_text texts[2] = { BRU_TEXT_STDOUT, BRU_TEXT_STDERR };
    r->texts[BRU_TEXT_OUTPUT].data = both;
    r->texts[BRU_TEXT_OUTPUT].len = len;
    for (int i = 0; i < 2; i++) {
        if (lens[i] == 0) continue;
        r->texts[texts[i]].shared = !one[i];
        r->texts[texts[i]].data = one[i] ? one[i] : both;
        r->texts[texts[i]].len = lens[i];
        if (one[i]) one[i][lens[i]] = '\0';
    }
}

bru_reason bru_result_reason(const bru_result *result) {
    return result->reason;
}

int bru_result_exit_code(const bru_result *result) {
    int fixed = reasons[result->reason].exit_code;
    return fixed >= 0 ? fixed : result->exit_code;
}

const char *bru_result_text(const bru_result *result, bru_text which, size_t *len) {
    bool known = (size_t)which < RESULT_TEXTS && result->texts[which].data;
    if (len) *len = known ? result->texts[which].len : 0;
    return known ? result->texts[which].data : "";
}

const bru_usage *bru_result_usage(const bru_result *result) {
    return &result->usage;
}

size_t bru_result_artifact_count(const bru_result *result) {
    return result->artifact_count;
}

const void *bru_result_artifact(const bru_result *result, size_t index, const char **type,
                                size_t *len) {
    bool known = index < result->artifact_count;
    const artifact *a = known ? &result->artifacts[index] : NULL;
    if (type) *type = known ? a->bytes : "";
    if (len) *len = known ? a->len : 0;
    return known ? a->bytes + a->data_at : NULL;
}

int bru_result_session_alive(const bru_result *result) {
    return result->session_alive;
}

void bru_result_free(bru_result *result) {
    if (!result) return;
    for (int i = 0; i < RESULT_TEXTS; i++)
        if (!result->texts[i].shared) mem_free(result->texts[i].data);
    for (size_t i = 0; i < result->artifact_count; i++) mem_free(result->artifacts[i].bytes);
    mem_free(result->artifacts);
    mem_free(result);
}
