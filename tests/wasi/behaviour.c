/* What the functions do, as far as the tables of every.c do not say. */
#include "guest.h"

TEST(a_guest_begins_with_streams_and_the_root) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    static const uint8_t kinds[] = { 2, 2, 2, 3 };
    for (uint32_t fd = 0; fd < 4; fd++) {
        CHECK_EQ(call(&g, "fd_fdstat_get", fd, RESULT), OK);
        CHECK_EQ(g.memory[RESULT], kinds[fd]);
        /* A character device without the rights to seek and tell would be a terminal. */
        if (fd < 3) CHECK_EQ(get64(&g, RESULT + 8) >> 2 & 9, 9);
        if (fd < 3) CHECK_EQ(call(&g, "fd_seek", fd, 0, 1, RESULT), ESPIPE_);
        if (fd < 3) CHECK_EQ(call(&g, "fd_tell", fd, RESULT), ESPIPE_);
        CHECK_EQ(call(&g, "fd_prestat_get", fd, RESULT), fd == 3 ? OK : EBADF_);
    }
    CHECK_EQ(get32(&g, RESULT + 4), 1);
    CHECK_EQ(call(&g, "fd_prestat_dir_name", 3, RESULT, 0), ENAMETOOLONG_);
    CHECK_EQ(call(&g, "fd_prestat_dir_name", 3, RESULT, 1), OK);
    CHECK_EQ(g.memory[RESULT], '/');
    CHECK(read_text(&g, 0, 10) && get32(&g, RESULT) == 0); /* input is at its end */
    CHECK_EQ(write_text(&g, 1, "out"), OK);
    CHECK_EQ(write_text(&g, 2, "err"), OK);
    CHECK_EQ(write_text(&g, 0, "x"), ENOTCAPABLE_);
    CHECK_STR(output_of(&g, SINK_OUT), "out");
    CHECK_STR(output_of(&g, SINK_ERR), "err");
    guest_close(&g);
}

TEST(arguments_and_environment_are_what_was_set_last) {
    guest g;
    static const char *const args[] = { "python", "-c", "" };
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(call(&g, "args_sizes_get", RESULT, RESULT + 4), OK);
    CHECK_EQ(get64(&g, RESULT), 0);
    CHECK_EQ(call(&g, "args_get", MEMORY, MEMORY), OK); /* nothing at the very end */
    CHECK_EQ(wasi_set_args(g.w, args, 3, NULL), BRU_OK);
    CHECK_EQ(call(&g, "args_sizes_get", RESULT, RESULT + 4), OK);
    CHECK_EQ(get32(&g, RESULT), 3);
    CHECK_EQ(get32(&g, RESULT + 4), 7 + 3 + 1);
    CHECK_EQ(call(&g, "args_get", RESULT, DATA), OK);
    CHECK_STR((char *)g.memory + get32(&g, RESULT + 4), "-c");
    CHECK_STR((char *)g.memory + get32(&g, RESULT + 8), "");
    CHECK_EQ(call(&g, "args_get", MEMORY - 8, DATA), EFAULT_);
    CHECK_EQ(call(&g, "args_get", RESULT, MEMORY - 4), EFAULT_);
    static char much[WASI_STRINGS_MAX + 1];
    memset(much, 'x', sizeof much - 1);
    const char *const too_much[] = { much };
    bru_error err;
    CHECK_EQ(wasi_set_env(g.w, too_much, 1, &err), BRU_ELIMIT);
    guest_close(&g);
}

TEST(files_are_read_written_and_sought) {
    guest g;
    uint32_t fd = 0;
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(open_path(&g, "data/f", 0, ALL_RIGHTS, &fd), ENOENT_);
    CHECK_EQ(open_path(&g, "data/f", CREAT | EXCL, ALL_RIGHTS, &fd), OK);
    CHECK_EQ(write_text(&g, fd, "hello world"), OK);
    CHECK_EQ(get32(&g, RESULT), 11);
    static const struct {
        int64_t delta;
        uint64_t whence;
        int want;
        uint64_t at;
    } seeks[] = {
        { 0, 1, OK, 11 },
        { -5, 2, OK, 6 },
        { 1, 1, OK, 7 },
        { 2, 0, OK, 2 },
        { -1, 0, EINVAL_, 0 },
        { -3, 1, EINVAL_, 0 },
        { -12, 2, EINVAL_, 0 },
        { INT64_MAX, 1, EINVAL_, 0 },
        { INT64_MIN, 2, EINVAL_, 0 },
        { 0, 3, EINVAL_, 0 },
        { 0, 255, EINVAL_, 0 },
        { INT64_MAX, 0, OK, INT64_MAX },
        { 6, 0, OK, 6 },
    };
    EACH(s, seeks) {
        CHECK_EQ(call(&g, "fd_seek", fd, (uint64_t)s->delta, s->whence, RESULT), s->want);
        if (s->want == OK) CHECK_EQ(get64(&g, RESULT), s->at);
    }
    CHECK_STR(read_text(&g, fd, 100), "world");
    CHECK_STR(read_text(&g, fd, 100), "");
    set_iov(&g, 0, DATA, 2);
    set_iov(&g, 1, DATA + 100, 0);
    set_iov(&g, 2, DATA + 2, 100);
    CHECK_EQ(call(&g, "fd_pread", fd, IOVS, 3, 1, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 10);
    CHECK(memcmp(g.memory + DATA, "ello world", 10) == 0);
    CHECK_EQ(call(&g, "fd_pread", fd, IOVS, 3, 1ull << 63, RESULT), EINVAL_);
    CHECK_EQ(call(&g, "fd_pread", 1, IOVS, 3, 0, RESULT), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "fd_pwrite", 1, IOVS, 3, 0, RESULT), ESPIPE_);
    put_str(&g, DATA, "XY");
    CHECK_EQ(call(&g, "fd_pwrite", fd, IOVS, 1, 4, RESULT), OK);
    CHECK_EQ(call(&g, "fd_seek", fd, 0, 0, RESULT), OK);
    CHECK_STR(read_text(&g, fd, 100), "hellXYworld");
    CHECK_EQ(call(&g, "fd_fdstat_set_flags", fd, 1), OK); /* append */
    CHECK_EQ(call(&g, "fd_fdstat_set_flags", fd, 32), EINVAL_);
    CHECK_EQ(call(&g, "fd_seek", fd, 0, 0, RESULT), OK);
    CHECK_EQ(write_text(&g, fd, "!"), OK);
    CHECK_EQ(call(&g, "fd_tell", fd, RESULT), OK);
    CHECK_EQ(get64(&g, RESULT), 12);
    CHECK_EQ(call(&g, "fd_filestat_set_size", fd, 3), OK);
    CHECK_EQ(call(&g, "fd_filestat_set_size", fd, 1ull << 40), 22);
    CHECK_EQ(call(&g, "fd_filestat_set_times", fd, 1, 2, 3), EINVAL_);
    CHECK_EQ(call(&g, "fd_filestat_set_times", fd, 1, 2, 16), EINVAL_);
    CHECK_EQ(call(&g, "fd_filestat_set_times", fd, 123, 456, 5), OK);
    CHECK_EQ(call(&g, "fd_filestat_get", fd, RESULT), OK);
    CHECK_EQ(g.memory[RESULT + 16], 4);
    CHECK_EQ(get64(&g, RESULT + 24), 1);
    CHECK_EQ(get64(&g, RESULT + 32), 3);
    CHECK_EQ(get64(&g, RESULT + 40), 123);
    CHECK_EQ(get64(&g, RESULT + 48), 456);
    CHECK_EQ(get64(&g, RESULT + 56), g.wall);
    CHECK_EQ(call(&g, "fd_close", fd), OK);
    CHECK_EQ(call(&g, "fd_close", fd), EBADF_);
    guest_close(&g);
}

TEST(a_list_of_buffers_may_lie_anywhere_but_outside) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    /* The list itself is what is read over: each buffer is looked at when its turn comes. */
    uint32_t fd = 0;
    CHECK_EQ(open_path(&g, "data/f", CREAT, ALL_RIGHTS, &fd), OK);
    uint8_t evil[16] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F };
    memcpy(g.memory + DATA, evil, 16);
    set_iov(&g, 0, DATA, 16);
    CHECK_EQ(call(&g, "fd_pwrite", fd, IOVS, 1, 0, RESULT), OK);
    set_iov(&g, 0, IOVS + 8, 8);
    set_iov(&g, 1, DATA, 8);
    CHECK_EQ(call(&g, "fd_pread", fd, IOVS, 2, 0, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 8);
    set_iov(&g, 0, DATA, 4);
    set_iov(&g, 1, MEMORY - 2, 3);
    CHECK_EQ(call(&g, "fd_write", 1, IOVS, 2, RESULT), EFAULT_);
    CHECK_STR(output_of(&g, SINK_OUT), ""); /* and not the first half either */
    for (unsigned i = 0; i < 1024; i++) set_iov(&g, i, DATA, 1);
    CHECK_EQ(call(&g, "fd_write", 2, IOVS, 1024, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 1024);
    CHECK_EQ(call(&g, "fd_write", 2, IOVS, 1025, RESULT), EINVAL_);
    CHECK_EQ(call(&g, "fd_write", 2, IOVS, 0, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 0);
    guest_close(&g);
}

TEST(opening_asks_for_rights_and_gets_those_that_apply) {
    guest g;
    uint32_t fd = 0, dir = 0, file = 0;
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(vfs_put(g.files, "/data/f", "text", 4, NULL), BRU_OK);
    CHECK_EQ(open_path(&g, "data", DIRECTORY, ALL_RIGHTS, &dir), OK);
    CHECK_EQ(call(&g, "fd_fdstat_get", dir, RESULT), OK);
    CHECK_EQ(g.memory[RESULT], 3);
    CHECK_EQ(get64(&g, RESULT + 8) & 1ull << 6, 0); /* no writing to a folder */
    CHECK_EQ(open_path(&g, "data", 0, ALL_RIGHTS, &fd), EISDIR_);
    CHECK_EQ(open_path(&g, "data", 0, READ_RIGHTS, &fd), OK);
    CHECK_EQ(open_path(&g, "data/f", DIRECTORY, READ_RIGHTS, &fd), ENOTDIR_);
    CHECK_EQ(open_path(&g, "data/f", CREAT | EXCL, READ_RIGHTS, &fd), EEXIST_);
    CHECK_EQ(open_path(&g, "data/x", CREAT | DIRECTORY, READ_RIGHTS, &fd), EINVAL_);
    CHECK_EQ(open_path(&g, "data/f", 16, READ_RIGHTS, &fd), EINVAL_);
    CHECK_EQ(open_path(&g, "data/f", 0, READ_RIGHTS, &file), OK);
    CHECK_EQ(write_text(&g, file, "x"), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "fd_filestat_set_size", file, 0), ENOTCAPABLE_);
    CHECK_EQ(open_path(&g, "dev/stdin", 0, ALL_RIGHTS, &fd), EACCES_);
    CHECK_EQ(open_path(&g, "dev/null", TRUNC | CREAT, ALL_RIGHTS, &fd), OK);
    /* A folder can hand on no more than it has. */
    CHECK_EQ(call(&g, "fd_fdstat_set_rights", dir, ALL_RIGHTS & ~(1ull << 30), 2), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "fd_fdstat_set_rights", dir, 1ull << 13, 2), OK);
    put_str(&g, PATH, "f");
    CHECK_EQ(call(&g, "path_open", dir, 0, PATH, 1, 0, 2, 0, 0, RESULT), OK);
    CHECK_EQ(call(&g, "path_open", dir, 0, PATH, 1, 0, 2 | 64, 0, 0, RESULT), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "path_open", dir, 0, PATH, 1, 0, 2, 4, 0, RESULT), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "path_open", dir, 0, PATH, 1, CREAT, 2, 0, 0, RESULT), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "path_open", dir, 0, PATH, 1, TRUNC, 2, 0, 0, RESULT), ENOTCAPABLE_);
    CHECK_EQ(call(&g, "path_open", dir, 0, PATH, 1, 0, 2, 0, 64, RESULT), EINVAL_);
    CHECK_EQ(call(&g, "path_open", dir, 2, PATH, 1, 0, 2, 0, 0, RESULT), EINVAL_);
    guest_close(&g);
}

TEST(descriptors_have_a_ceiling_and_a_number_can_be_used_again) {
    guest g;
    uint32_t fd = 0, first = 0;
    REQUIRE(!guest_open(&g, NULL, false)); /* 32 at most */
    for (uint32_t i = 4; i < 32; i++) {
        CHECK_EQ(open_path(&g, "data", DIRECTORY, READ_RIGHTS, &fd), OK);
        CHECK_EQ(fd, i);
    }
    CHECK_EQ(open_path(&g, "data", DIRECTORY, READ_RIGHTS, &fd), EMFILE_);
    CHECK_EQ(open_path(&g, "new", CREAT, READ_RIGHTS, &fd), EMFILE_);
    vfs_stat st;
    CHECK_EQ(vfs_get_stat(g.files, NULL, "/new", 4, true, &st), VFS_ENOENT); /* nor was it made */
    CHECK_EQ(call(&g, "fd_close", 7), OK);
    CHECK_EQ(open_path(&g, "data", DIRECTORY, READ_RIGHTS, &first), OK);
    CHECK_EQ(first, 7);
    CHECK(wasi_has_open_files(g.w));
    wasi_reset(g.w);
    CHECK(!wasi_has_open_files(g.w));
    guest_close(&g);
}

TEST(renumbering_moves_a_descriptor_over_another) {
    guest g;
    uint32_t a = 0, b = 0, c = 0;
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(open_path(&g, "data/a", CREAT, ALL_RIGHTS, &a), OK);
    CHECK_EQ(open_path(&g, "data/b", CREAT, ALL_RIGHTS, &b), OK);
    CHECK_EQ(write_text(&g, a, "in a"), OK);
    CHECK_EQ(call(&g, "fd_renumber", a, a), OK);
    CHECK_EQ(open_path(&g, "data/c", CREAT, ALL_RIGHTS, &c), OK); /* after equal numbers */
    CHECK_EQ(call(&g, "fd_renumber", a, b), OK);
    CHECK_EQ(call(&g, "fd_close", a), EBADF_);
    CHECK_EQ(call(&g, "fd_tell", b, RESULT), OK); /* its offset came along */
    CHECK_EQ(get64(&g, RESULT), 4);
    CHECK_EQ(call(&g, "fd_close", c), OK);
    CHECK_EQ(call(&g, "fd_renumber", b, c), OK); /* onto one that was closed before */
    CHECK_EQ(open_path(&g, "data/d", CREAT, ALL_RIGHTS, &a), OK);
    CHECK_EQ(call(&g, "fd_renumber", c, 31), OK);
    CHECK_EQ(call(&g, "fd_renumber", 31, 32), EBADF_);
    CHECK_EQ(call(&g, "fd_renumber", 31, 0xFFFFFFFF), EBADF_);
    CHECK_EQ(call(&g, "fd_renumber", 30, 31), EBADF_);
    CHECK_EQ(call(&g, "fd_renumber", 30, 30), EBADF_);
    CHECK_EQ(call(&g, "fd_renumber", 31, 1), OK); /* output goes to a file from here on */
    CHECK_EQ(write_text(&g, 1, "more"), OK);
    CHECK_STR(output_of(&g, SINK_OUT), "");
    CHECK_EQ(call(&g, "fd_renumber", 2, 9), OK);
    CHECK_EQ(call(&g, "fd_renumber", 3, 10), OK);
    CHECK_EQ(write_text(&g, 9, "via 9"), OK);
    CHECK_EQ(call(&g, "fd_prestat_get", 10, RESULT), OK);
    wasi_restart_stdio(g.w);
    CHECK_EQ(write_text(&g, 1, "again"), OK);
    CHECK_EQ(write_text(&g, 2, "!"), OK);
    CHECK_EQ(write_text(&g, 9, "9"), OK); /* other descriptors stay */
    CHECK_STR(output_of(&g, SINK_OUT), "again");
    CHECK_STR(output_of(&g, SINK_ERR), "via 9!9");
    wasi_reset(g.w);
    CHECK_EQ(call(&g, "fd_prestat_get", 3, RESULT), OK);
    CHECK_EQ(call(&g, "fd_close", 9), EBADF_);
    guest_close(&g);
}

TEST(closed_standard_streams_come_back_with_the_next_run) {
    guest g;
    uint32_t fd = 0;
    REQUIRE(!guest_open(&g, NULL, false));
    for (uint32_t i = 0; i < 4; i++) CHECK_EQ(call(&g, "fd_close", i), OK);
    CHECK_EQ(write_text(&g, 1, "lost"), EBADF_);
    put_str(&g, PATH, "data");
    CHECK_EQ(call(&g, "path_open", 3, 1, PATH, 4, 0, 2, 0, 0, RESULT), EBADF_);
    wasi_restart_stdio(g.w);
    CHECK_EQ(write_text(&g, 1, "found"), OK);
    CHECK_STR(output_of(&g, SINK_OUT), "found");
    wasi_reset(g.w);
    CHECK_EQ(open_path(&g, "data", DIRECTORY, READ_RIGHTS, &fd), OK);
    guest_close(&g);
}

/* The names in the entries at BIG, up to `used` bytes; a cut one at the end is left out. */
static size_t names_at(guest *g, uint32_t used, char *out, uint64_t *cookie) {
    size_t count = 0;
    for (uint32_t at = 0; at + 24 <= used;) {
        uint32_t len = get32(g, BIG + at + 16);
        if (at + 24 + len > used) break;
        *cookie = get64(g, BIG + at);
        memcpy(out + strlen(out), g->memory + BIG + at + 24, len);
        strcat(out, " ");
        at += 24 + len;
        count++;
    }
    return count;
}

TEST(folders_are_read_with_buffers_of_any_size) {
    guest g;
    uint32_t fd = 0;
    REQUIRE(!guest_open(&g, NULL, false));
    static const char *const files[] = { "/data/one", "/data/two", "/data/three" };
    EACH(f, files) CHECK_EQ(vfs_put(g.files, *f, "", 0, NULL), BRU_OK);
    CHECK_EQ(open_path(&g, "data", DIRECTORY, READ_RIGHTS, &fd), OK);
    for (uint32_t len = 30; len < 200; len++) {
        char names[64] = "";
        uint64_t cookie = 0;
        for (;;) {
            CHECK_EQ(call(&g, "fd_readdir", fd, BIG, len, cookie, RESULT), OK);
            uint32_t used = get32(&g, RESULT);
            CHECK(used <= len);
            if (names_at(&g, used, names, &cookie) == 0) break;
        }
        CHECK_STR(names, ". .. one two three ");
    }
    CHECK_EQ(call(&g, "fd_readdir", fd, BIG, 10, 0, RESULT), OK); /* less than a head */
    CHECK_EQ(get32(&g, RESULT), 10);
    CHECK_EQ(call(&g, "fd_readdir", fd, BIG, 0, 0, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 0);
    CHECK_EQ(call(&g, "fd_readdir", fd, BIG, 100, UINT64_MAX, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 0);
    CHECK_EQ(call(&g, "fd_readdir", 1, BIG, 100, 0, RESULT), ENOTDIR_);
    guest_close(&g);
}

TEST(links_are_read_and_their_text_is_cut_to_the_buffer) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    put_str(&g, PATH, "data/l");
    put_str(&g, PATH2, "../some/where");
    CHECK_EQ(call(&g, "path_symlink", PATH2, 13, 3, PATH, 6), OK);
    CHECK_EQ(call(&g, "path_readlink", 3, PATH, 6, BIG, 4, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 4);
    CHECK(memcmp(g.memory + BIG, "../s\0", 5) == 0);
    CHECK_EQ(call(&g, "path_readlink", 3, PATH, 4, BIG, 4, RESULT), EINVAL_);
    CHECK_EQ(call(&g, "path_filestat_get", 3, 0, PATH, 6, RESULT), OK);
    CHECK_EQ(g.memory[RESULT + 16], 7);
    CHECK_EQ(call(&g, "path_filestat_get", 3, 1, PATH, 6, RESULT), ENOENT_);
    guest_close(&g);
}

TEST(clocks_and_randomness_are_the_ones_that_were_given) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(call(&g, "clock_time_get", 0, 0, RESULT), OK);
    CHECK_EQ(get64(&g, RESULT), g.wall);
    CHECK_EQ(call(&g, "clock_time_get", 1, 0, RESULT), OK);
    CHECK_EQ(get64(&g, RESULT), g.mono);
    CHECK_EQ(call(&g, "clock_time_get", 2, 0, RESULT), OK);
    CHECK_EQ(call(&g, "clock_time_get", 3, 0, RESULT), OK);
    CHECK_EQ(call(&g, "clock_time_get", 4, 0, RESULT), EINVAL_);
    CHECK_EQ(call(&g, "clock_res_get", 4, RESULT), EINVAL_);
    CHECK_EQ(call(&g, "random_get", BIG, 64), OK);
    unsigned zero = 0;
    for (unsigned i = 0; i < 64; i++) zero += g.memory[BIG + i] == 0;
    CHECK(zero < 32);
    clock_source real = { 0 };
    wasi_set_clock(g.w, &real); /* zeroed: the system's */
    CHECK_EQ(call(&g, "clock_time_get", 0, 0, RESULT), OK);
    CHECK(get64(&g, RESULT) > 1600000000ull * 1000000000ull);
    guest_close(&g);
}

TEST(exit_and_signals_end_the_guest_and_say_why) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(wasi_stop(g.w).cause, WASI_RUNNING);
    CHECK_EQ(call(&g, "proc_exit", 5), STOPPED);
    CHECK_EQ(wasi_stop(g.w).cause, WASI_STOP_EXIT);
    CHECK_EQ(wasi_stop(g.w).code, 5);
    wasi_restart_stdio(g.w);
    CHECK_EQ(wasi_stop(g.w).cause, WASI_RUNNING);
    CHECK_EQ(call(&g, "proc_raise", 0), OK);
    CHECK_EQ(call(&g, "proc_raise", 16), OK);
    CHECK_EQ(call(&g, "proc_raise", 31), EINVAL_);
    CHECK_EQ(call(&g, "proc_raise", 6), STOPPED);
    CHECK_EQ(wasi_stop(g.w).cause, WASI_STOP_SIGNAL);
    CHECK_EQ(wasi_stop(g.w).code, 6);
    wasi_reset(g.w);
    CHECK_EQ(wasi_stop(g.w).cause, WASI_RUNNING);
    guest_close(&g);
}

TEST(a_context_needs_files_and_room_for_its_first_descriptors) {
    wasi *w = NULL;
    bru_error err;
    CHECK_EQ(wasi_new(NULL, &w, &err), BRU_EINVAL);
    wasi_options opt = { 0 };
    CHECK_EQ(wasi_new(&opt, &w, &err), BRU_EINVAL);
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    opt.files = g.files;
    opt.max_fds = 3;
    CHECK_EQ(wasi_new(&opt, &w, &err), BRU_EINVAL);
    opt.max_fds = 4;
    CHECK_EQ(wasi_new(&opt, &w, &err), BRU_OK);
    wasi_free(w);
    uint32_t cursor = 0, seen = 0;
    wasi_fd_info info;
    while (wasi_fd_next(g.w, &cursor, &info)) seen += info.initial && info.fd == seen;
    CHECK_EQ(seen, 4);
    guest_close(&g);
}

TEST(a_context_survives_each_failed_allocation) {
    static const char *const args[] = { "a" };
    FAULT_SWEEP {
        guest g;
        uint32_t fd = 0;
        if (!guest_open(&g, NULL, false)) {
            (void)!wasi_set_args(g.w, args, 1, NULL);
            (void)!wasi_set_env(g.w, args, 1, NULL);
            for (unsigned i = 0; i < 20; i++) open_path(&g, "data/f", CREAT, ALL_RIGHTS, &fd);
            call(&g, "fd_renumber", 4, 31);
            wasi_reset(g.w);
        }
        guest_close(&g);
    }
}

TEST_MAIN
