/* Files from the embedder's side, and storages that several sessions show. */
#include "world.h"

#include <pthread.h>
#include <unistd.h>

static bru_status put(bru_session *s, const char *path, const char *text) {
    return bru_session_write_file(s, path, 0, text, strlen(text), BRU_FILE_REPLACE, NULL);
}

static const char *get(bru_session *s, const char *path) {
    static char text[1000];
    size_t n = 0;
    bru_status st = bru_session_read_file(s, path, 0, text, sizeof text - 1, &n, NULL);
    if (st) return bru_status_text(st);
    text[n] = '\0';
    return text;
}

/* Names and kinds of a folder, in the order in which they are told. */
static int add_name(void *ctx, const bru_file_info *file) {
    static const char kinds[] = "fdlc";
    char *to = ctx;
    sprintf(to + strlen(to), "%c:%s:%d ", kinds[file->kind], file->name, (int)file->size);
    return 1;
}

static const char *list(bru_session *s, const char *path) {
    static char names[1000];
    names[0] = '\0';
    bru_status st = bru_session_list_files(s, path, add_name, names, NULL);
    return st ? bru_status_text(st) : names;
}

TEST(what_the_host_writes_the_guest_reads_and_the_other_way_round) {
    bru_session *s = session_with(NULL);
    CHECK_EQ(put(s, "/data/in/deep/a.txt", "from the host"), BRU_OK);
    CHECK_RUN(s, "print(open('in/deep/a.txt').read())", "from the host\n");
    CHECK_RUN(s, "n = open('/tmp/b', 'w').write('from the guest')", "");
    CHECK_STR(get(s, "/tmp/b"), "from the guest");
    bru_session_free(s);
}

TEST(a_file_is_written_in_parts) {
    bru_session *s = session_with(NULL);
    char part[3];
    size_t n;
    CHECK_EQ(put(s, "/data/a", "0123456789"), BRU_OK);
    CHECK_EQ(bru_session_write_file(s, "/data/a", 8, "xyz", 3, 0, NULL), BRU_OK);
    CHECK_STR(get(s, "/data/a"), "01234567xyz");
    CHECK_EQ(bru_session_read_file(s, "/data/a", 9, part, 3, &n, NULL), BRU_OK);
    CHECK_EQ(n, 2);
    CHECK_EQ(bru_session_read_file(s, "/data/a", 11, part, 3, &n, NULL), BRU_OK);
    CHECK_EQ(n, 0);
    CHECK_EQ(bru_session_read_file(s, "/data/a", UINT64_MAX, part, 3, &n, NULL), BRU_OK);
    CHECK_EQ(n, 0);
    CHECK_EQ(put(s, "/data/a", "short"), BRU_OK);
    CHECK_STR(get(s, "/data/a"), "short");
    bru_session_free(s);
}

TEST(folders_are_listed_by_name_and_links_as_links) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s,
              "import os\n"
              "for n in 'b', 'a', 'c': os.mkdir(n) if n == 'b' else open(n, 'w').write(n)\n"
              "os.symlink('a', 'link')",
              "");
    CHECK_STR(list(s, "/data"), "f:a:1 d:b:0 f:c:1 l:link:1 ");
    CHECK_STR(list(s, "/data/b"), "");
    CHECK_STR(list(s, "/data/a"), bru_status_text(BRU_EINVAL));
    CHECK_STR(list(s, "/none"), bru_status_text(BRU_ENOENT));
    bru_session_free(s);
}

TEST(links_are_followed_inside_the_guests_files_only) {
    bru_session *s = session_with(NULL);
    bru_file_info info;
    CHECK_RUN(s, "import os\nos.symlink('/etc/passwd', 'out'); os.symlink('x/../y', 'in')", "");
    CHECK_STR(get(s, "/data/out"), bru_status_text(BRU_ENOENT));
    CHECK_EQ(put(s, "/data/out", "made inside"), BRU_ENOENT);
    CHECK_RUN(s, "os.mkdir('x'); open('y', 'w').write('four')", "");
    CHECK_EQ(bru_session_stat_file(s, "/data/in", &info, NULL), BRU_OK);
    CHECK_EQ(info.kind, BRU_FILE);
    CHECK_EQ(info.size, 4);
    CHECK_STR(info.name, "in");
    CHECK_STR(get(s, "/data/../../data/in"), "four");
    bru_session_free(s);
}

TEST(removing_takes_folders_whole_and_leaves_what_links_lead_to) {
    bru_session *s = session_with(NULL);
    CHECK_EQ(put(s, "/data/keep", "kept"), BRU_OK);
    CHECK_EQ(put(s, "/data/d/e/f", "gone"), BRU_OK);
    CHECK_RUN(s, "import os\nos.symlink('/data/keep', '/data/d/e/link')", "");
    CHECK_EQ(bru_session_remove_file(s, "/data/d", NULL), BRU_OK);
    CHECK_STR(list(s, "/data"), "f:keep:4 ");
    CHECK_EQ(bru_session_remove_file(s, "/data/d", NULL), BRU_ENOENT);
    CHECK_EQ(bru_session_remove_file(s, "/data", NULL), BRU_EBUSY);
    CHECK_STR(get(s, "/data/keep"), "kept");
    CHECK_EQ(bru_session_make_folder(s, "/data/n/m", NULL), BRU_OK);
    CHECK_EQ(bru_session_make_folder(s, "/data/n/m", NULL), BRU_OK);
    CHECK_EQ(bru_session_make_folder(s, "/data/keep/m", NULL), BRU_EINVAL);
    bru_session_free(s);
}

TEST(bad_paths_folders_for_files_and_devices_are_refused) {
    static const struct {
        const char *path;
        bru_status read, write;
    } rows[] = {
        { "relative", BRU_EINVAL, BRU_EINVAL },
        { "", BRU_EINVAL, BRU_EINVAL },
        { NULL, BRU_EINVAL, BRU_EINVAL },
        { "/data", BRU_EINVAL, BRU_EINVAL },
        { "/dev/stdout", BRU_EPERM, BRU_EINVAL },
        { "/dev/zero", BRU_EINVAL, BRU_EINVAL },
        { "/data/file/x", BRU_EINVAL, BRU_EINVAL },
        { "/data/\xff", BRU_EINVAL, BRU_EINVAL },
        { "/none", BRU_ENOENT, BRU_OK },
        { "/lib/none", BRU_ENOENT, BRU_EPERM },
    };
    bru_session *s = session_with(NULL);
    bru_error err;
    size_t n;
    char byte;
    CHECK_EQ(put(s, "/data/file", ""), BRU_OK);
    EACH(row, rows) {
        bru_status st = bru_session_read_file(s, row->path, 0, &byte, 1, &n, &err);
        CHECK_EQ(st, row->read);
        CHECK(st == BRU_OK || err.message[0]);
        CHECK_EQ(bru_session_write_file(s, row->path, 0, "x", 1, 0, &err), row->write);
    }
    CHECK_EQ(bru_session_write_file(s, "/data/f", 0, "x", 1, 8, NULL), BRU_EINVAL);
    bru_session_free(s);
}

TEST(a_file_beyond_the_limit_says_so) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.file_bytes = 1 << 20;
    bru_session *s = session_with(&o);
    char *much = calloc(2, 1 << 20);
    bru_error err;
    REQUIRE(much);
    CHECK_EQ(bru_session_write_file(s, "/data/f", 0, much, 2 << 20, 0, &err), BRU_ELIMIT);
    CHECK(strstr(err.message, "/data/f"));
    CHECK_EQ(bru_session_write_file(s, "/data/f", INT64_MAX, "x", 1, 0, &err), BRU_ELIMIT);
    CHECK_EQ(bru_session_remove_file(s, "/data/f", NULL), BRU_OK);
    CHECK_EQ(put(s, "/data/f", "small"), BRU_OK);
    free(much);
    bru_session_free(s);
}

TEST(mounts_keep_their_own_rule) {
    char folder[] = "/tmp/brumate-files-XXXXXX", path[100];
    REQUIRE(mkdtemp(folder));
    bru_mount mounts[] = { { folder, "/ro", 0 }, { folder, "/rw", BRU_MOUNT_WRITE } };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.mounts = mounts;
    o.mount_count = 2;
    bru_session *s = session_with(&o);
    CHECK_EQ(put(s, "/ro/f", "x"), BRU_EPERM);
    CHECK_EQ(put(s, "/rw/f", "x"), BRU_OK);
    CHECK_STR(get(s, "/ro/f"), "x");
    CHECK_EQ(bru_session_remove_file(s, "/ro/f", NULL), BRU_EPERM);
    CHECK_EQ(bru_session_remove_file(s, "/rw", NULL), BRU_EBUSY);
    CHECK_EQ(bru_session_remove_file(s, "/rw/f", NULL), BRU_OK);
    snprintf(path, sizeof path, "%s/f", folder);
    CHECK(access(path, F_OK) != 0);
    bru_session_free(s);
    rmdir(folder);
}

TEST(files_can_be_reached_while_the_guest_waits) {
    bru_session *s = session_with(NULL);
    bru_event e;
    static const char source[] = "import asyncio\nopen('w', 'w').write('now')\n"
                                 "await asyncio.sleep(1000)";
    CHECK_EQ(bru_session_start(s, source, sizeof source - 1, NULL, NULL), BRU_OK);
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_OK);
    CHECK_EQ(e.kind, BRU_EVENT_WAIT);
    CHECK_STR(get(s, "/data/w"), "now");
    bru_session_free(s);
}

/* ---- Storages ---------------------------------------------------------------------------------
 */

static bru_storage *storage_of(uint64_t bytes) {
    bru_storage *storage;
    return bru_storage_new(bytes, &storage, NULL) ? NULL : storage;
}

static bru_session *session_on(bru_storage *storage, const char *path) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.storage = storage;
    o.storage_path = path;
    return session_with(&o);
}

TEST(a_storage_outlives_its_sessions_and_their_resets) {
    bru_storage *storage = storage_of(0);
    bru_session *s = session_on(storage, NULL);
    CHECK_RUN(s, "n = open('a', 'w').write('kept'); open('/tmp/b', 'w').close()", "");
    CHECK_EQ(bru_session_reset(s, BRU_RESET_FILES, NULL), BRU_OK);
    CHECK_RUN(s, "import os; print(open('/data/a').read(), os.listdir('/tmp'))", "kept []\n");
    bru_session_free(s);
    s = session_on(storage, NULL);
    bru_storage_unref(storage);
    CHECK_RUN(s, "print(open('a').read())", "kept\n");
    bru_session_free(s);
}

TEST(a_storage_elsewhere_leaves_the_sessions_own_data) {
    bru_storage *storage = storage_of(0);
    bru_session *a = session_on(storage, "/mnt/shared"), *b = session_on(storage, "/mnt/shared/");
    CHECK_RUN(a, "for p in '/mnt/shared/x', 'own': open(p, 'w').close()", "");
    CHECK_RUN(b, "import os; print(os.listdir(), os.listdir('/mnt/shared'), os.getcwd())",
              "[] ['x'] /data\n");
    bru_session_free(a);
    bru_session_free(b);
    bru_storage_unref(storage);
}

TEST(a_full_storage_is_no_space_left_and_nothing_of_the_sessions_own) {
    bru_storage *storage = storage_of(100000);
    bru_session *s = session_on(storage, NULL);
    uint64_t most;
    CHECK_EQ(bru_storage_bytes(storage, &most), 0);
    CHECK_EQ(most, 100000);
    CHECK_RUN(s,
              "import errno\n"
              "try: open('big', 'wb').write(bytes(200000))\n"
              "except OSError as e: print(errno.errorcode[e.errno])\n"
              "print(open('/tmp/big', 'wb').write(bytes(200000)))",
              "ENOSPC\n200000\n");
    CHECK(bru_storage_bytes(storage, NULL) > 0 && bru_storage_bytes(storage, NULL) <= most);
    CHECK_EQ(bru_storage_write_file(storage, "/more", 0, &most, 8, 0, NULL), BRU_ELIMIT);
    CHECK_EQ(bru_storage_remove_file(storage, "/big", NULL), BRU_OK);
    CHECK_EQ(bru_storage_write_file(storage, "/more", 0, &most, 8, 0, NULL), BRU_OK);
    bru_session_free(s);
    bru_storage_unref(storage);
}

TEST(a_storage_is_read_and_written_without_a_session) {
    bru_storage *storage = storage_of(0);
    char text[20] = "", names[100] = "";
    size_t n = 0;
    bru_file_info info;
    CHECK_EQ(bru_storage_list_files(storage, "/", add_name, names, NULL), BRU_OK);
    CHECK_STR(names, "");
    CHECK_EQ(bru_storage_write_file(storage, "/in/f", 0, "text", 4, 0, NULL), BRU_OK);
    CHECK_EQ(bru_storage_make_folder(storage, "/a", NULL), BRU_OK);
    CHECK_EQ(bru_storage_list_files(storage, "/", add_name, names, NULL), BRU_OK);
    CHECK_STR(names, "d:a:0 d:in:0 ");
    CHECK_EQ(bru_storage_stat_file(storage, "/in/f", &info, NULL), BRU_OK);
    CHECK(info.size == 4 && info.mtime_ns > 0);
    bru_session *s = session_on(storage, NULL);
    CHECK_RUN(s, "print(open('in/f').read()); n = open('in/f', 'a').write(' more')", "text\n");
    bru_session_free(s);
    CHECK_EQ(bru_storage_read_file(storage, "/in/f", 0, text, sizeof text - 1, &n, NULL), BRU_OK);
    CHECK_STR(text, "text more");
    CHECK_EQ(bru_storage_write_file(storage, "/../../x", 0, "", 0, 0, NULL), BRU_OK);
    CHECK_EQ(bru_storage_remove_file(storage, "/", NULL), BRU_EBUSY);
    CHECK_EQ(bru_storage_stat_file(storage, "/in/f", &info, NULL), BRU_OK);
    bru_storage_unref(storage);
}

TEST(each_run_of_a_sandbox_finds_what_those_before_left_in_its_storage) {
    bru_storage *storage = storage_of(0);
    char path[] = "/mnt";
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    bru_sandbox *box;
    static const char source[] = "print(open('/mnt/f', 'a+').write('x'), open('/mnt/f').read())";
    o.storage = storage;
    o.storage_path = path;
    REQUIRE(bru_sandbox_new(the_image(), &o, &box, NULL) == BRU_OK);
    memset(path, 'x', sizeof path); /* was copied */
    bru_storage_unref(storage);
    for (int i = 0; i < 2; i++) {
        bru_result *r;
        CHECK_EQ(bru_sandbox_run(box, source, sizeof source - 1, NULL, &r, NULL), BRU_OK);
        CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), i ? "1 xx\n" : "1 x\n");
        bru_result_free(r);
    }
    bru_sandbox_free(box);
}

TEST(a_storage_must_have_a_place_of_its_own) {
    bru_storage *storage = storage_of(0);
    bru_mount mount = { "/usr", "/data", 0 };
    static const char *const bad[] = { "/", "data", "", "/dev", "/lib" };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    bru_session *s;
    bru_error err;
    o.storage = storage;
    EACH(path, bad) {
        o.storage_path = *path;
        CHECK_EQ(bru_session_new(the_image(), &o, &s, &err), BRU_EINVAL);
        CHECK(s == NULL && err.message[0]);
    }
    o.storage_path = NULL;
    o.mounts = &mount;
    o.mount_count = 1;
    CHECK_EQ(bru_session_new(the_image(), &o, &s, &err), BRU_EINVAL);
    bru_storage_unref(storage);
}

/* Sessions on several threads append to a file of their own and look at all, beside the host. */
enum { WRITERS = 4, LINES = 50 };

static void *write_lines(void *ctx) {
    static const char source[] = "import os\n"
                                 "name = f'w{len(os.listdir())}-{os.urandom(4).hex()}'\n"
                                 "for i in range(50):\n"
                                 "    with open(name, 'a') as f: f.write(f'{i}\\n')\n"
                                 "    for n in os.listdir():\n"
                                 "        try: open(n).read()\n"
                                 "        except (FileNotFoundError, IsADirectoryError): pass\n"
                                 "print(len(open(name).readlines()))";
    bru_session *s = session_on(ctx, NULL);
    CHECK_RUN(s, source, "50\n");
    bru_session_free(s);
    return NULL;
}

TEST(sessions_on_several_threads_share_a_storage_beside_the_host) {
    bru_storage *storage = storage_of(0);
    pthread_t threads[WRITERS];
    char names[2000];
    (void)the_image();
    for (int i = 0; i < WRITERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, write_lines, storage) == 0);
    for (int i = 0; i < LINES; i++) {
        CHECK_EQ(bru_storage_write_file(storage, "/host/f", 0, "x", 1, BRU_FILE_REPLACE, NULL),
                 BRU_OK);
        names[0] = '\0';
        CHECK_EQ(bru_storage_list_files(storage, "/", add_name, names, NULL), BRU_OK);
        CHECK_EQ(bru_storage_remove_file(storage, "/host", NULL), BRU_OK);
    }
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    bru_storage_unref(storage);
}

TEST(making_a_session_on_a_storage_fails_whole) {
    bru_storage *storage = storage_of(0);
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.storage = storage;
    FAULT_SWEEP {
        bru_session *s;
        if (bru_session_new(the_image(), &o, &s, NULL) == BRU_OK) bru_session_free(s);
    }
    FAULT_SWEEP {
        char names[100] = "";
        (void)!bru_storage_write_file(storage, "/a/b", 0, "x", 1, 0, NULL);
        (void)!bru_storage_list_files(storage, "/", add_name, names, NULL);
        (void)!bru_storage_remove_file(storage, "/a", NULL);
    }
    bru_session *s = session_on(storage, NULL);
    CHECK_RUN(s, "print(1)", "1\n");
    bru_session_free(s);
    bru_storage_unref(storage);
}

TEST_MAIN
