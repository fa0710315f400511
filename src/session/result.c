#include "session/result.h"

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

int bru_result_session_alive(const bru_result *result) {
    return result->session_alive;
}

void bru_result_free(bru_result *result) {
    if (!result) return;
    for (int i = 0; i < RESULT_TEXTS; i++)
        if (!result->texts[i].shared) mem_free(result->texts[i].data);
    mem_free(result);
}
