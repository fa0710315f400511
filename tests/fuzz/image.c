/* An image's header and manifest: whatever passes the checks must fit the file that it was said to
 * be of. The header's own checksum is made right, as a hostile maker would. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "image/format.h"

static void section_inside(const format_section *s, uint64_t file_len) {
    if (s->offset > file_len || s->len > file_len - s->offset || s->offset % FORMAT_PAGE) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = { "wasm_sha256", "preloaded", "control", "" };
    format_header h = { 0 };
    size_t part = size < sizeof h ? size : sizeof h;
    if (part) memcpy(&h, data, part);
    uint64_t file_len = h.file_len;
    format_header_sum(&h, h.header_sum);
    if (format_check(&h, file_len, "fuzzed", NULL) == BRU_OK) {
        section_inside(&h.manifest, file_len);
        section_inside(&h.memory, file_len);
        section_inside(&h.root, file_len);
        if (h.globals_len > h.manifest.len) abort();
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *value;
        if (format_value((const char *)data + part, size - part, keys[i], &value, NULL) == BRU_OK)
            if (strlen(value) > size) abort();
        mem_free(value);
    }
    return 0;
}
