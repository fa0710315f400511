/* Open files, and what lies behind them, through sleep and fork. */
#include "asleep.h"

#include <sys/stat.h>
#include <unistd.h>

/* What makes the state, what goes on with it, and what that prints. */
static const struct {
    const char *make, *look, *want;
} files[] = {
    { "open('/data/t', 'w').write('one\\ntwo\\nthree\\n'); f = open('/data/t'); f.readline()",
      "print(f.readline(), end=''); print(f.read(), end='')", "two\nthree\n" },
    { "f = open('/data/t', 'w'); f.write('not flushed ')",
      "f.write('yet'); f.close(); print(open('/data/t').read())", "not flushed yet\n" },
    { "f = open('/data/t', 'ab', 0); f.write(b'1')", "f.write(b'2'); print(open('/data/t').read())",
      "12\n" },
    { "import os; f = open('/data/t', 'w+b', 0); f.write(b'x' * 9000 + b'end'); "
      "os.remove('/data/t')",
      "f.seek(8999); print(f.read(), os.path.exists('/data/t'), os.listdir('/data'))",
      "b'xend' False []\n" },
    { "import tempfile; f = tempfile.TemporaryFile(); f.write(b'temporary'); f.seek(4)",
      "print(f.read())", "b'orary'\n" },
    { "import os; f = open('/data/t', 'w'); f.write('moved'); os.rename('/data/t', '/data/u')",
      "f.flush(); print(open('/data/u').read())", "moved\n" },
    { "import os, stat; os.mkdir('/data/d'); d = os.open('/data/d', os.O_RDONLY)",
      "print(stat.S_ISDIR(os.fstat(d).st_mode)); os.close(d)", "True\n" },
    { "import os\nfor n in range(9): open(f'/data/{n}', 'w')\nos.remove('/data/0')\n"
      "it = os.scandir('/data'); seen = [next(it).name for _ in range(3)]",
      "print(sorted(seen + [e.name for e in it]))", "['1', '2', '3', '4', '5', '6', '7', '8']\n" },
    { "f = open('/lib/python3.13/this.py'); f.read(3)", "print(len(f.readline()) > 3)", "True\n" },
    { "f = open('/dev/null', 'w'); g = open('/dev/urandom', 'rb', 0)",
      "print(f.write('x'), len(g.read(4)))", "1 4\n" },
    { "import zipfile\n"
      "with zipfile.ZipFile('/data/z', 'w') as z: z.writestr('m', 'a' * 5000 + 'b' * 5000)\n"
      "z = zipfile.ZipFile('/data/z'); m = z.open('m'); m.read(5000)",
      "print(m.read() == b'b' * 5000)", "True\n" },
    { "import sqlite3\n"
      "db = sqlite3.connect('/data/db'); db.execute('create table t (n)'); db.commit()\n"
      "db.execute('insert into t values (1)')",
      "print(db.in_transaction, db.execute('select count(*) from t').fetchone()); db.rollback()\n"
      "print(db.execute('select count(*) from t').fetchone())\n"
      "db.execute('insert into t values (2)'); db.commit()\n"
      "print(sqlite3.connect('/data/db').execute('select n from t').fetchall())",
      "True (1,)\n(0,)\n[(2,)]\n" },
    { "import os; f = open('/data/t', 'w'); f.write('a link'); f.flush()\n"
      "os.symlink('/data/t', '/data/l'); g = open('/data/l')",
      "print(g.read(), os.readlink('/data/l'))", "a link /data/t\n" },
    { "import os; a = os.open('/data/t', os.O_RDWR | os.O_CREAT); b = os.open('/data/t', "
      "os.O_RDONLY)\n"
      "os.close(a)",
      "print(os.open('/data/t', os.O_RDONLY) == a, b == a + 1)", "True True\n" },
};

TEST(open_files_go_on_in_another_session_and_in_a_twin) {
    EACH(row, files) {
        bru_session *s = session_with(NULL), *twin = NULL;
        bru_result_free(run(s, row->make));
        bru_snapshot *snapshot = snapshot_of(s);
        REQUIRE(snapshot);
        CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
        bru_session *other = resumed(snapshot);
        REQUIRE(other && twin);
        CHECK_RUN(other, row->look, row->want);
        CHECK_RUN(twin, row->look, row->want);
        CHECK_RUN(s, row->look, row->want);
        CHECK_EQ(bru_session_restore(s, snapshot, NULL), BRU_OK);
        CHECK_RUN(s, row->look, row->want);
        bru_session_free(other);
        bru_session_free(twin);
        bru_session_free(s);
        bru_snapshot_free(snapshot);
    }
}

static const char read_on[] = "try: print(f.read())\nexcept OSError as e: print(e.errno)";

TEST(files_of_mounts_go_on_where_the_mount_is_there_and_else_are_closed) {
    char folder[] = "/tmp/asleep.XXXXXX", path[64];
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/f", folder);
    FILE *f = fopen(path, "w");
    REQUIRE(f);
    fputs("of the host", f);
    fclose(f);
    bru_mount mount = { folder, "/mnt/host", 0 };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.mounts = &mount;
    o.mount_count = 1;
    bru_session *s = session_with(&o), *twin = NULL, *with = NULL;
    CHECK_RUN(s, "f = open('/mnt/host/f', 'rb', 0); f.read(3); g = open('/data/g', 'w')", "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
    CHECK_EQ(bru_session_resume(the_image(), &o, snapshot, &with, NULL), BRU_OK);
    bru_session *without = resumed(snapshot);
    REQUIRE(twin && with && without);
    CHECK_RUN(twin, read_on, "b'the host'\n");
    CHECK_RUN(with, read_on, "b'the host'\n");
    CHECK_RUN(without, read_on, "8\n");
    CHECK_RUN(without, "print(g.write('on'))", "2\n");
    bru_session_free(twin);
    bru_session_free(with);
    bru_session_free(without);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
    unlink(path);
    rmdir(folder);
}

TEST(files_of_a_storage_are_shared_by_twins_and_not_in_a_snapshot) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    CHECK_EQ(bru_storage_new(0, &o.storage, NULL), BRU_OK);
    bru_session *s = session_with(&o), *twin = NULL;
    CHECK_RUN(s, "f = open('/data/f', 'w+'); f.write('stored'); f.flush(); f.seek(0)", "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
    bru_session *without = resumed(snapshot);
    REQUIRE(twin && without);
    CHECK_RUN(twin, "print(open('/data/f').read()); f.truncate(3)", "stored\n");
    CHECK_RUN(s, read_on, "sto\n");
    CHECK_RUN(without, "import os; print(os.listdir('/data'))", "[]\n");
    CHECK_RUN(without, read_on, "8\n");
    bru_session_free(twin);
    bru_session_free(without);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
    bru_storage_unref(o.storage);
}

TEST(a_snapshot_without_files_leaves_those_that_are_there) {
    bru_session *s = session_with(NULL);
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_snapshot *snapshot = NULL;
    o.flags = BRU_SNAPSHOT_NO_FILES;
    CHECK_RUN(s, "x = 1; open('/data/f', 'w').write('old')", "");
    CHECK_EQ(bru_session_snapshot(s, &o, &snapshot, NULL), BRU_OK);
    REQUIRE(snapshot);
    CHECK_RUN(s, "x = 2; open('/data/f', 'w').write('new')", "");
    CHECK_EQ(bru_session_restore(s, snapshot, NULL), BRU_OK);
    CHECK_RUN(s, "print(x, open('/data/f').read())", "1 new\n");
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST_MAIN
