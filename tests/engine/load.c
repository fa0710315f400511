/* Loading guests, binding their imports, and instances from images. */
#include "host.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

static const struct {
    int number;
    bru_status want;
    const char *says;
} wrong[] = {
    { 1, BRU_EMISMATCH, "version 2" },
    { 2, BRU_EFORMAT, "instance_size" },
    { 3, BRU_EFORMAT, "exports no brumate_guest" },
    { 99, BRU_ENOENT, "test-guest-99.so" },
};

TEST(wrong_guests_are_refused_with_a_reason) {
    EACH(w, wrong) {
        guest *g = NULL;
        CHECK_EQ(guest_open(guest_path(w->number), &g, &err), w->want);
        CHECK(!g);
        CHECK(strstr(err.message, w->says));
    }
}

/* Writes the first `len` bytes of the good guest, or of itself if that is longer, to a file. */
static void cut(const char *path, size_t len) {
    int in = open(guest_path(0), O_RDONLY), out = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);
    char *bytes = calloc(1, len + 1);
    CHECK(read(in, bytes, len) > 0 && write(out, bytes, len) > 0);
    free(bytes);
    close(in);
    close(out);
}

TEST(files_that_are_no_guests_or_cut_short_are_refused) {
    char path[] = "/tmp/brumate-test-XXXXXX";
    close(mkstemp(path));
    guest *g = NULL;
    static const size_t lengths[] = { 3, 63, 64, 700, 4096, 12000 };
    EACH(len, lengths) {
        cut(path, *len);
        CHECK_EQ(guest_open(path, &g, &err), BRU_EFORMAT);
        CHECK(!g);
    }
    int fd = open(path, O_WRONLY | O_TRUNC);
    CHECK(write(fd, "#!/bin/sh\n", 10) == 10);
    close(fd);
    CHECK_EQ(guest_open(path, &g, &err), BRU_EFORMAT);
    CHECK(strstr(err.message, "not a shared object"));
    CHECK(guest_open("/", &g, &err) != BRU_OK);
    unlink(path);
}

TEST(one_file_is_loaded_once_under_any_name) {
    guest *a = NULL, *b = NULL, *c = NULL;
    REQUIRE(guest_open(guest_path(0), &a, &err) == BRU_OK);
    char other[] = "/tmp/brumate-test-XXXXXX";
    close(mkstemp(other));
    unlink(other);
    REQUIRE(symlink(guest_path(0), other) == 0);
    CHECK_EQ(guest_open(other, &b, &err), BRU_OK);
    CHECK(a == b);
    CHECK_STR(guest_name(a), "test");
    CHECK_EQ(guest_memory_max(a), 1000 * 65536);
    guest_unref(a);
    guest_unref(b);
    CHECK_EQ(guest_open(guest_path(0), &c, &err), BRU_OK);
    guest_unref(c);
    unlink(other);
}

static const struct {
    const char *name, *type;
    bru_status want;
} finds[] = {
    { "add", "ii:i", BRU_OK },
    { "add", "i:i", BRU_EMISMATCH },
    { "missing", ":", BRU_ENOENT },
};

TEST(exports_are_found_by_name_and_type) {
    guest *g = NULL;
    REQUIRE(guest_open(guest_path(0), &g, &err) == BRU_OK);
    uint32_t number;
    EACH(f, finds) CHECK_EQ(guest_export_find(g, f->name, f->type, &number, &err), f->want);
    guest_unref(g);
}

TEST(a_missing_or_mistyped_import_is_named) {
    guest *g = NULL;
    guest_link *l = NULL;
    REQUIRE(guest_open(guest_path(0), &g, &err) == BRU_OK);
    CHECK_EQ(guest_link_new(g, all_doors, 1, &l, &err), BRU_EMISMATCH);
    CHECK(strstr(err.message, "more.add"));
    static const door mistyped[] = { { "more", "add", "II:I", door_add } };
    door_table tables[] = { { test_doors, 3 }, { mistyped, 1 }, { more_doors, 1 } };
    CHECK_EQ(guest_link_new(g, tables, 2, &l, &err), BRU_EMISMATCH);
    CHECK(strstr(err.message, "more.add") && strstr(err.message, "II:I"));
    CHECK_EQ(guest_link_new(g, tables, 3, &l, &err), BRU_OK);
    guest_link_unref(l);
    CHECK_EQ(guest_link_new(g, tables, LINK_TABLES + 1, &l, &err), BRU_EINVAL);
    guest_unref(g);
}

TEST(data_segments_that_do_not_fit_are_an_error) {
    guest *g = NULL;
    guest_link *l = NULL;
    instance *i = NULL;
    REQUIRE(guest_open(guest_path(4), &g, &err) == BRU_OK);
    CHECK_EQ(guest_link_new(g, all_doors, 2, &l, &err), BRU_OK);
    CHECK_EQ(instance_new(l, NULL, NULL, 0, NULL, &i, &err), BRU_EGUEST);
    CHECK(!i && strstr(err.message, "out of bounds"));
    guest_link_unref(l);
    guest_unref(g);
}

/* ---- Images ---------------------------------------------------------------------------------- */

typedef struct frozen {
    mem_image *im;
    buf globals;
} frozen;

static void freeze(instance *i, frozen *f) {
    gmem m = instance_memory(i);
    CHECK_EQ(mem_image_copy(m.base, m.size, &f->im, &err), BRU_OK);
    buf_init(&f->globals, 4096);
    CHECK_EQ(instance_globals(i, &f->globals, &err), BRU_OK);
}

TEST(an_instance_from_an_image_goes_on_where_it_was_frozen) {
    world w = { 0 };
    instance *i = test_instance(&w, 0), *j = NULL;
    CHECK_EQ(call(i, "count", ":I", 0, 0, NULL).value, 1001);
    CHECK_EQ(call(i, "grow", "i:i", 3, 0, NULL).value, 2);
    CHECK_EQ(call(i, "store", "ii:", 4 * 65536, 77, NULL).outcome, ENGINE_RETURNED);
    frozen f;
    freeze(i, &f);
    guest_link *l = test_link();
    instance_options opt = { .size = sizeof opt, .ctx = { &w, &more_context } };
    REQUIRE(instance_new(l, f.im, f.globals.data, f.globals.len, &opt, &j, &err) == BRU_OK);
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(call(j, "count", ":I", 0, 0, NULL).value, 1002);
        CHECK_EQ(call(j, "load", "ii:i", 4 * 65536, 0, NULL).value, 77);
        CHECK_EQ(call(j, "load", "ii:i", 16, 1, NULL).value, 'a');
        CHECK_EQ(call(j, "grow", "i:i", 1, 0, NULL).value, 5);
        CHECK_EQ(call(j, "store", "ii:", 4 * 65536, 78, NULL).outcome, ENGINE_RETURNED);
        CHECK_EQ(instance_reset(j, &err), BRU_OK);
    }
    CHECK(instance_image(j) == f.im);
    instance_free(i);
    instance_free(j);
    guest_link_unref(l);
    mem_image_unref(f.im);
    buf_free(&f.globals);
}

TEST(globals_of_another_guest_or_damaged_ones_change_nothing) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    frozen f;
    freeze(i, &f);
    CHECK_EQ(call(i, "count", ":I", 0, 0, NULL).value, 1001);
    for (size_t len = 0; len < f.globals.len; len++)
        CHECK_EQ(instance_globals_set(i, f.globals.data, len, &err), BRU_EMISMATCH);
    static const size_t heads[] = { 0, 1, 2, 4, 20, 23 };
    EACH(at, heads) {
        f.globals.data[*at] ^= 1;
        CHECK_EQ(instance_globals_set(i, f.globals.data, f.globals.len, &err), BRU_EMISMATCH);
        f.globals.data[*at] ^= 1;
    }
    CHECK_EQ(call(i, "count", ":I", 0, 0, NULL).value, 1002);
    CHECK_EQ(instance_globals_set(i, f.globals.data, f.globals.len, &err), BRU_OK);
    CHECK_EQ(call(i, "count", ":I", 0, 0, NULL).value, 1001);
    instance_free(i);
    mem_image_unref(f.im);
    buf_free(&f.globals);
}

TEST(the_function_table_is_shared_and_cannot_be_written) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    CHECK_EQ(call(i, "table_byte", "i:i", 33, 0, NULL).value, 33 * 7);
    engine_report r = call(i, "table_write", "i:", 33, 0, NULL);
    CHECK_EQ(r.outcome, ENGINE_TRAPPED);
    CHECK_EQ(r.trap, ENGINE_TRAP_FAULT);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    CHECK_EQ(call(i, "table_byte", "i:i", 33, 0, NULL).value, 33 * 7);
    instance_free(i);
}

/* ---- Costs and failures ---------------------------------------------------------------------- */

static unsigned entries(const char *path, bool folder) {
    unsigned n = 0;
    DIR *d = folder ? opendir(path) : NULL;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    FILE *f = folder ? NULL : fopen(path, "r");
    for (int c = f ? getc(f) : EOF; c != EOF; c = getc(f)) n += c == '\n';
    if (f) fclose(f);
    return n;
}

TEST(a_thousand_instances_come_and_go_without_a_trace) {
    world w = { 0 };
    guest_link *keep = test_link();
    instance_free(test_instance(&w, 0));
    unsigned maps = entries("/proc/self/maps", false), fds = entries("/proc/self/fd", true);
    (void)maps;
    for (int n = 0; n < 1000; n++) {
        instance *i = test_instance(&w, 0);
        if (n % 10 == 0) CHECK_EQ(call(i, "add", "ii:i", 1, 2, NULL).value, 3);
        instance_free(i);
    }
#if !defined(UNDER_ASAN) && !defined(UNDER_TSAN) /* which map memory as they please */
    CHECK(entries("/proc/self/maps", false) <= maps + 2);
#endif
    CHECK_EQ(entries("/proc/self/fd", true), fds);
    guest_link_unref(keep);
}

TEST(constructors_survive_each_failure) {
    world w = { 0 };
    instance *first = test_instance(&w, 0);
    frozen f;
    freeze(first, &f);
    instance_free(first);
    FAULT_SWEEP {
        guest *g = NULL;
        guest_link *l = NULL;
        instance *i = NULL, *j = NULL;
        bru_status st = guest_open(guest_path(0), &g, &err);
        if (!st) st = guest_link_new(g, all_doors, 2, &l, &err);
        if (!st) st = instance_new(l, NULL, NULL, 0, NULL, &i, &err);
        if (!st) st = instance_new(l, f.im, f.globals.data, f.globals.len, NULL, &j, &err);
        CHECK(st == BRU_OK || st == BRU_ENOMEM);
        CHECK(!st == (j != NULL));
        instance_free(i);
        instance_free(j);
        guest_link_unref(l);
        guest_unref(g);
    }
    mem_image_unref(f.im);
    buf_free(&f.globals);
}

TEST_MAIN
