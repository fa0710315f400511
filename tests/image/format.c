#include "test.h"
#include "brumate.h"
#include "image/format.h"

#include <fcntl.h>
#include <unistd.h>

enum { FILE_LEN = FORMAT_PAGE * 40 };

static format_header sound(void) {
    format_header h = { .version = FORMAT_VERSION,
                        .globals_len = 8,
                        .file_len = FILE_LEN,
                        .manifest = { FORMAT_PAGE, 100 },
                        .memory = { 2 * FORMAT_PAGE, 65536 },
                        .root = { 20 * FORMAT_PAGE, 20 * FORMAT_PAGE },
                        .stored_bytes = FORMAT_PAGE };
    memcpy(h.magic, FORMAT_MAGIC, sizeof h.magic);
    format_header_sum(&h, h.header_sum);
    return h;
}

TEST(a_sound_header_passes) {
    format_header h = sound();
    CHECK_EQ(format_check(&h, FILE_LEN, "x", NULL), BRU_OK);
}

/* Fields that a maker of a hostile file would set, with the checksum made right again. */
static const struct {
    size_t offset, size;
    uint64_t value;
} hostile[] = {
    { offsetof(format_header, version), 4, FORMAT_VERSION + 1 },
    { offsetof(format_header, file_len), 8, FILE_LEN + 1 },
    { offsetof(format_header, manifest.offset), 8, 0 },
    { offsetof(format_header, manifest.offset), 8, FORMAT_PAGE + 1 },
    { offsetof(format_header, manifest.offset), 8, UINT64_MAX - 4095 },
    { offsetof(format_header, manifest.len), 8, FORMAT_MANIFEST_MAX + 1ull },
    { offsetof(format_header, manifest.len), 8, 7 },
    { offsetof(format_header, memory.len), 8, 65537 },
    { offsetof(format_header, memory.len), 8, UINT64_MAX },
    { offsetof(format_header, memory.len), 8, FILE_LEN },
    { offsetof(format_header, memory.offset), 8, FILE_LEN },
    { offsetof(format_header, root.len), 8, UINT64_MAX },
    { offsetof(format_header, root.offset), 8, FILE_LEN + FORMAT_PAGE },
    { offsetof(format_header, globals_len), 4, 101 },
    { offsetof(format_header, stored_bytes), 8, 65537 },
};

TEST(each_field_that_does_not_fit_is_refused_even_with_a_right_checksum) {
    EACH(row, hostile) {
        format_header h = sound();
        memcpy((char *)&h + row->offset, &row->value, row->size);
        format_header_sum(&h, h.header_sum);
        bru_error err;
        CHECK_EQ(format_check(&h, FILE_LEN, "x", &err), BRU_EFORMAT);
        CHECK(strstr(err.message, "x") != NULL);
    }
}

TEST(each_flipped_byte_of_a_header_is_noticed) {
    for (size_t i = 0; i < sizeof(format_header); i++) {
        format_header h = sound();
        ((uint8_t *)&h)[i] ^= 0x10;
        CHECK_EQ(format_check(&h, FILE_LEN, "x", NULL), BRU_EFORMAT);
    }
}

TEST(a_manifest_value_is_the_rest_of_its_line) {
    static const char lines[] = "a 1\nkey two words\nlines x\x1fy\nkeyed 3\n";
    char *value;
    CHECK_EQ(format_value(lines, sizeof lines - 1, "key", &value, NULL), BRU_OK);
    CHECK_STR(value, "two words");
    mem_free(value);
    CHECK_EQ(format_value(lines, sizeof lines - 1, "lines", &value, NULL), BRU_OK);
    CHECK_STR(value, "x\ny");
    mem_free(value);
    CHECK_EQ(format_value(lines, sizeof lines - 1, "none", &value, NULL), BRU_EFORMAT);
    CHECK(value == NULL);
    CHECK_EQ(format_value("cut 1", 5, "cut", &value, NULL), BRU_EFORMAT);
}

TEST(a_manifest_with_control_characters_is_refused) {
    static const char *const bad[] = { "a \033[2J\n", "a \r\n", "a \a\n", "a \x7f\n" };
    EACH(text, bad) CHECK_EQ(format_lines_check(*text, strlen(*text), "x", NULL), BRU_EFORMAT);
    CHECK_EQ(format_lines_check("a b\x1f"
                                "c\n",
                                6, "x", NULL),
             BRU_OK);
}

/* ---- With the real image ------------------------------------------------------------------- */

static const char *image_path(void) {
    const char *path = getenv("BRUMATE_IMAGE");
    return path ? path : "build/core.bru";
}

static const char *guest_path(void) {
    const char *path = getenv("BRUMATE_GUEST");
    return path ? path : "build/core.so";
}

/* A copy of the image in a temporary file; its descriptor. */
static int image_copy(char *path) {
    static char chunk[1 << 16];
    int from = open(image_path(), O_RDONLY), to = mkstemp(path);
    for (ssize_t n; (n = read(from, chunk, sizeof chunk)) > 0;)
        if (write(to, chunk, (size_t)n) != n) break;
    close(from);
    return to;
}

static bru_status try_open(const char *path, unsigned flags, bru_error *err) {
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    bru_image *im = NULL;
    o.guest_path = guest_path();
    o.flags = flags;
    bru_status st = bru_image_open(path, &o, &im, err);
    bru_image_unref(im);
    return st;
}

TEST(an_image_with_a_flipped_byte_anywhere_is_refused_by_name) {
    char path[] = "/tmp/brumate-test-XXXXXX";
    int fd = image_copy(path);
    off_t len = lseek(fd, 0, SEEK_END);
    REQUIRE(len > FORMAT_PAGE);
    for (int i = 0; i < 32; i++) {
        off_t at =
            i < 8 ? i * 500
                  : FORMAT_PAGE + (off_t)((uint64_t)(len - FORMAT_PAGE) * (unsigned)(i - 8) / 24);
        uint8_t was, now;
        bru_error err;
        REQUIRE(pread(fd, &was, 1, at) == 1);
        now = was ^ 1;
        REQUIRE(pwrite(fd, &now, 1, at) == 1);
        CHECK_EQ(try_open(path, 0, &err), BRU_EFORMAT);
        CHECK(strstr(err.message, path) != NULL);
        REQUIRE(pwrite(fd, &was, 1, at) == 1);
    }
    CHECK_EQ(try_open(path, 0, NULL), BRU_OK);
    close(fd);
    unlink(path);
}

TEST(an_image_cut_short_anywhere_is_refused) {
    char path[] = "/tmp/brumate-test-XXXXXX";
    int fd = image_copy(path);
    off_t len = lseek(fd, 0, SEEK_END);
    for (off_t cut = len - 1; cut > 0; cut = cut * 2 / 3) {
        REQUIRE(ftruncate(fd, cut) == 0);
        CHECK_EQ(try_open(path, 0, NULL), BRU_EFORMAT);
        CHECK_EQ(try_open(path, BRU_IMAGE_TRUSTED, NULL), BRU_EFORMAT);
    }
    close(fd);
    unlink(path);
}

TEST(what_an_image_says_of_itself_is_filled_in) {
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    bru_image *im = NULL;
    bru_image_info i;
    o.guest_path = guest_path();
    REQUIRE(bru_image_open(image_path(), &o, &im, NULL) == BRU_OK);
    bru_image_get_info(im, &i);
    CHECK(i.guest_build[0] && i.preloaded[0]);
    CHECK_EQ(strlen(i.wasm_sha256), 64);
    CHECK_EQ(strlen(i.id), 32);
    CHECK(i.memory_bytes > i.stored_bytes && i.stored_bytes > 0);
    CHECK(i.file_bytes > i.root_bytes && i.root_bytes > 0);
    CHECK(i.root_entries > 500 && i.format > 0);
    bru_image_unref(im);
}

static const struct {
    const char *path;
    bru_status want;
} wrong_paths[] = {
    { "/nonexistent/core.bru", BRU_ENOENT },
    { "/dev/null", BRU_EFORMAT },
    { "/tmp", BRU_EFORMAT },
    { "/proc/self/exe", BRU_EFORMAT },
};

TEST(what_is_no_image_is_told_in_one_line) {
    EACH(row, wrong_paths) {
        bru_error err;
        CHECK_EQ(try_open(row->path, 0, &err), row->want);
        CHECK(strstr(err.message, row->path) && !strchr(err.message, '\n'));
    }
}

TEST(opening_survives_each_failed_allocation) {
    FAULT_SWEEP {
        bru_status st = try_open(image_path(), BRU_IMAGE_TRUSTED, NULL);
        CHECK(st == BRU_OK || st == BRU_ENOMEM || st == BRU_ELIMIT);
    }
}

TEST_MAIN
