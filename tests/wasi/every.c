/* Every function of the standard: that it works, and what it answers to a bad descriptor, to
 * pointers out of the memory, and to a descriptor without rights. */
#include "guest.h"

/* A good call of each. In `kinds`, by argument: d a descriptor, p a pointer that is written or read
 * through, f the descriptor of a folder, . anything else. Descriptors: 4 is the file "f" with the
 * text "hello", 5 the folder "d". At PATH lies "f", at PATH2 "new". */
static const struct {
    const char *name, *kinds;
    uint64_t args[9];
    int want;
} every[] = {
    { "args_get", "pp", { RESULT, RESULT + 64 }, OK },
    { "args_sizes_get", "pp", { RESULT, RESULT + 4 }, OK },
    { "environ_get", "pp", { RESULT, RESULT + 64 }, OK },
    { "environ_sizes_get", "pp", { RESULT, RESULT + 4 }, OK },
    { "clock_res_get", ".p", { 0, RESULT }, OK },
    { "clock_time_get", "..p", { 1, 0, RESULT }, OK },
    { "fd_advise", "d...", { 4, 0, 0, 1 }, OK },
    { "fd_allocate", "d..", { 4, 0, 100 }, OK },
    { "fd_close", "d", { 4 }, OK },
    { "fd_datasync", "d", { 4 }, OK },
    { "fd_fdstat_get", "dp", { 4, RESULT }, OK },
    { "fd_fdstat_set_flags", "d.", { 4, 1 }, OK },
    { "fd_fdstat_set_rights", "d..", { 4, 2, 0 }, OK },
    { "fd_filestat_get", "dp", { 4, RESULT }, OK },
    { "fd_filestat_set_size", "d.", { 4, 3 }, OK },
    { "fd_filestat_set_times", "d...", { 4, 1, 2, 5 }, OK },
    { "fd_pread", "dp..p", { 4, IOVS, 1, 1, RESULT }, OK },
    { "fd_prestat_get", "dp", { 3, RESULT }, OK },
    { "fd_prestat_dir_name", "dp.", { 3, RESULT, 1 }, OK },
    { "fd_pwrite", "dp..p", { 4, IOVS, 1, 1, RESULT }, OK },
    { "fd_read", "dp.p", { 4, IOVS, 1, RESULT }, OK },
    { "fd_readdir", "fp..p", { 5, BIG, 1000, 0, RESULT }, OK },
    { "fd_renumber", "d.", { 4, 9 }, OK },
    { "fd_seek", "d..p", { 4, 1, 0, RESULT }, OK },
    { "fd_sync", "d", { 4 }, OK },
    { "fd_tell", "dp", { 4, RESULT }, OK },
    { "fd_write", "dp.p", { 4, IOVS, 1, RESULT }, OK },
    { "path_create_directory", "fp.", { 3, PATH2, 3 }, OK },
    { "path_filestat_get", "f.p.p", { 3, 1, PATH, 1, RESULT }, OK },
    { "path_filestat_set_times", "f.p....", { 3, 1, PATH, 1, 7, 8, 5 }, OK },
    { "path_link", "f.p.fp.", { 3, 0, PATH, 1, 3, PATH2, 3 }, OK },
    { "path_open", "f.p.....p", { 3, 1, PATH, 1, 0, 2, 0, 0, RESULT }, OK },
    { "path_readlink", "fp.p.p", { 3, PATH + 8, 1, BIG, 100, RESULT }, OK },
    { "path_remove_directory", "fp.", { 3, PATH + 16, 1 }, OK },
    { "path_rename", "fp.fp.", { 3, PATH, 1, 3, PATH2, 3 }, OK },
    { "path_symlink", "p.fp.", { PATH, 1, 3, PATH2, 3 }, OK },
    { "path_unlink_file", "fp.", { 3, PATH, 1 }, OK },
    { "poll_oneoff", "pp.p", { DATA, BIG, 1, RESULT }, OK },
    { "proc_exit", ".", { 3 }, STOPPED },
    { "proc_raise", ".", { 6 }, STOPPED },
    { "sched_yield", "", { 0 }, OK },
    { "random_get", "p.", { RESULT, 16 }, OK },
    { "sock_accept", "d.p", { 4, 0, RESULT }, ENOTSOCK_ },
    { "sock_recv", "dp..pp", { 4, IOVS, 1, 0, RESULT, RESULT + 4 }, ENOTSOCK_ },
    { "sock_send", "dp..p", { 4, IOVS, 1, 0, RESULT }, ENOTSOCK_ },
    { "sock_shutdown", "d.", { 4, 1 }, ENOTSOCK_ },
};

static bool furnish(guest *g) {
    static const char *const args[] = { "prog", "arg" };
    static const char *const env[] = { "A=1", "B=2" };
    uint32_t fd = 0;
    if (guest_open(g, NULL, false)) return false;
    if (vfs_put(g->files, "/f", "hello", 5, NULL)) return false;
    if (vfs_symlink(g->files, "f", 1, NULL, "/l", 2)) return false;
    if (vfs_make_folder(g->files, "/d", NULL)) return false;
    if (wasi_set_args(g->w, args, 2, NULL) || wasi_set_env(g->w, env, 2, NULL)) return false;
    if (open_path(g, "f", 0, ALL_RIGHTS, &fd) || fd != 4) return false;
    if (open_path(g, "d", DIRECTORY, ALL_RIGHTS, &fd) || fd != 5) return false;
    set_iov(g, 0, DATA, 4);
    put_str(g, PATH, "f");
    put_str(g, PATH + 8, "l");
    put_str(g, PATH + 16, "d");
    put_str(g, PATH2, "new");
    return true;
}

/* Runs a row in a new guest with one argument replaced (none if `at` is -1). Checks that a call
 * that fails wrote nothing. */
static int run(size_t row, int at, uint64_t value) {
    guest g;
    uint64_t args[9];
    memcpy(args, every[row].args, sizeof args);
    if (!furnish(&g)) {
        CHECK(!"the guest could be set up");
        return -1;
    }
    if (at >= 0) args[at] = value;
    uint8_t *before = malloc(MEMORY);
    memcpy(before, g.memory, MEMORY);
    int e = call_with(&g, every[row].name, args);
    if (e != OK && memcmp(before, g.memory, MEMORY) != 0) {
        fprintf(stderr, "%s failed with %d and wrote\n", every[row].name, e);
        CHECK(!"a failed call leaves the memory alone");
    }
    free(before);
    guest_close(&g);
    return e;
}

static void expect(size_t row, int at, uint64_t value, int want) {
    int have = run(row, at, value);
    if (have != want)
        fprintf(stderr, "%s with argument %d as %llu: %d, not %d\n", every[row].name, at,
                (unsigned long long)value, have, want);
    CHECK_EQ(have, want);
}

#define ROWS (sizeof every / sizeof *every)

TEST(the_table_names_every_function_of_the_standard_in_order) {
    REQUIRE(wasi_door_count == ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        CHECK_STR(wasi_doors[i].name, every[i].name);
        CHECK_STR(wasi_doors[i].module, "wasi_snapshot_preview1");
        CHECK_EQ(strcspn(wasi_doors[i].type, ":"), strlen(every[i].kinds));
    }
}

TEST(every_function_works) {
    for (size_t i = 0; i < ROWS; i++) expect(i, -1, 0, every[i].want);
}

TEST(every_function_refuses_a_bad_descriptor) {
    static const uint64_t bad[] = { 6, 31, 32, 255, 0x7FFFFFFF, 0xFFFFFFFF };
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; every[i].kinds[k]; k++)
            if (strchr("df", every[i].kinds[k])) EACH(b, bad) expect(i, (int)k, *b, EBADF_);
}

TEST(every_function_by_path_refuses_a_file_as_a_folder) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; every[i].kinds[k]; k++)
            if (every[i].kinds[k] == 'f') expect(i, (int)k, 4, ENOTDIR_);
}

TEST(every_function_refuses_pointers_out_of_the_memory) {
    static const uint64_t bad[] = { MEMORY, MEMORY + 1, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF };
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; every[i].kinds[k]; k++)
            if (every[i].kinds[k] == 'p' && every[i].want != ENOTSOCK_)
                EACH(b, bad) expect(i, (int)k, *b, EFAULT_);
}

TEST(every_function_refuses_a_result_that_is_half_inside) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; every[i].kinds[k]; k++) {
            const char *name = every[i].name;
            bool one_byte = strncmp(name, "path_", 5) == 0 && k + 1 < strlen(every[i].kinds);
            if (every[i].kinds[k] != 'p' || every[i].want == ENOTSOCK_ || one_byte) continue;
            if (strcmp(name, "fd_prestat_dir_name") == 0) continue;
            expect(i, (int)k, MEMORY - 1, EFAULT_);
        }
}

TEST(lengths_and_counts_out_of_the_memory_are_refused) {
    static const struct {
        const char *name;
        int at, want;
    } lengths[] = {
        { "fd_prestat_dir_name", 2, EFAULT_ },
        { "fd_readdir", 2, EFAULT_ },
        { "path_create_directory", 2, EFAULT_ },
        { "path_filestat_get", 3, EFAULT_ },
        { "path_filestat_set_times", 3, EFAULT_ },
        { "path_link", 3, EFAULT_ },
        { "path_link", 6, EFAULT_ },
        { "path_open", 3, EFAULT_ },
        { "path_readlink", 2, EFAULT_ },
        { "path_readlink", 4, EFAULT_ },
        { "path_remove_directory", 2, EFAULT_ },
        { "path_rename", 2, EFAULT_ },
        { "path_rename", 5, EFAULT_ },
        { "path_symlink", 1, EFAULT_ },
        { "path_symlink", 4, EFAULT_ },
        { "path_unlink_file", 2, EFAULT_ },
        { "random_get", 1, EFAULT_ },
        { "fd_read", 2, EINVAL_ },
        { "fd_write", 2, EINVAL_ },
        { "fd_pread", 2, EINVAL_ },
        { "fd_pwrite", 2, EINVAL_ },
        { "poll_oneoff", 2, EINVAL_ },
    };
    static const uint64_t values[] = { MEMORY + 1, 0x20000000, 0x80000000, 0xFFFFFFFF };
    EACH(l, lengths)
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(every[i].name, l->name) == 0) EACH(v, values) expect(i, l->at, *v, l->want);
}

TEST(no_number_in_any_place_breaks_anything) {
    static const uint64_t values[] = { 0,      1,          2,          3,          4,
                                       5,      0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, MEMORY - 1,
                                       MEMORY, INT64_MAX,  1ull << 63, UINT64_MAX };
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; every[i].kinds[k]; k++) EACH(v, values) {
                bool wide = wasi_doors[i].type[k] == 'I';
                int e = run(i, (int)k, wide ? *v : (uint32_t)*v);
                CHECK(e >= 0 && (e <= 76 || e == PARKED || e == STOPPED));
            }
}

/* Rights by number that a call cannot do without. */
static const struct {
    const char *name;
    unsigned right;
} needs[] = {
    { "fd_datasync", 0 },
    { "fd_read", 1 },
    { "fd_pread", 1 },
    { "fd_seek", 2 },
    { "fd_fdstat_set_flags", 3 },
    { "fd_sync", 4 },
    { "fd_tell", 5 },
    { "fd_write", 6 },
    { "fd_pwrite", 6 },
    { "fd_advise", 7 },
    { "fd_allocate", 8 },
    { "path_create_directory", 9 },
    { "path_link", 11 },
    { "path_link", 12 },
    { "path_open", 13 },
    { "fd_readdir", 14 },
    { "path_readlink", 15 },
    { "path_rename", 16 },
    { "path_rename", 17 },
    { "path_filestat_get", 18 },
    { "path_filestat_set_times", 20 },
    { "fd_filestat_get", 21 },
    { "fd_filestat_set_size", 22 },
    { "fd_filestat_set_times", 23 },
    { "path_symlink", 24 },
    { "path_remove_directory", 25 },
    { "path_unlink_file", 26 },
};

TEST(a_right_that_was_given_up_is_gone) {
    EACH(n, needs)
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(every[i].name, n->name) != 0) continue;
        guest g;
        if (!furnish(&g)) continue;
        for (uint32_t fd = 3; fd < 6; fd++) { /* wherever the call goes */
            CHECK_EQ(call(&g, "fd_fdstat_get", fd, RESULT), OK);
            uint64_t base = get64(&g, RESULT + 8), inheriting = get64(&g, RESULT + 16);
            uint64_t less = base & ~(1ull << n->right);
            CHECK_EQ(call(&g, "fd_fdstat_set_rights", fd, less, inheriting), OK);
            if (less != base)
                CHECK_EQ(call(&g, "fd_fdstat_set_rights", fd, base, inheriting), ENOTCAPABLE_);
        }
        CHECK_EQ(call_with(&g, n->name, every[i].args), ENOTCAPABLE_);
        guest_close(&g);
    }
}

TEST(every_function_survives_each_failed_allocation) {
    for (size_t i = 0; i < ROWS; i++) FAULT_SWEEP {
            guest g;
            if (furnish(&g)) {
                int e = call_with(&g, every[i].name, every[i].args);
                CHECK(e >= 0);
            }
            guest_close(&g);
        }
}

TEST_MAIN
