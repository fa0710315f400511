/* Running Python from C: five calls from an image to a result.
 *
 *     cc embed.c -o embed $(pkg-config --cflags --libs brumate)
 *     ./embed 'print(6 * 7)' */
#include <brumate.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *src = argc > 1 ? argv[1] : "import sys\nprint('Hello from', sys.platform)\n1 / 0";
    bru_error err;
    bru_image *image = NULL;
    bru_session *session = NULL;
    bru_result *result = NULL;
    bru_session_options options = BRU_SESSION_OPTIONS_INIT;
    options.limits.timeout_ns = 2000000000; /* all else is as it comes */
    options.limits.memory_bytes = 64 << 20;

    bru_status st = bru_image_open(NULL, NULL, &image, &err);
    if (!st) st = bru_session_new(image, &options, &session, &err);
    if (!st) st = bru_session_run(session, src, strlen(src), NULL, &result, &err);
    if (!st) {
        printf("%s", bru_result_text(result, BRU_TEXT_OUTPUT, NULL));
        const bru_usage *usage = bru_result_usage(result);
        printf("-- %s %s, %.3f ms, %.1f MB\n", bru_reason_text(bru_result_reason(result)),
               bru_result_text(result, BRU_TEXT_TYPE, NULL), (double)usage->duration_ns / 1e6,
               (double)usage->peak_memory / 1e6);
    } else {
        fprintf(stderr, "%s\n", err.message);
    }
    bru_result_free(result);
    bru_session_free(session);
    bru_image_unref(image);
    return st ? 1 : 0;
}
