/* Images built on an image: what is added, what cannot be, and imports that do not end well. */
#define _GNU_SOURCE
#include "test.h"
#include "brumate.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define SITE "python3.13/site-packages/"

static char folder[64], target[96];

static bool folder_setup(void) {
    snprintf(folder, sizeof folder, "/tmp/brumate-build-XXXXXX");
    if (!mkdtemp(folder)) return false;
    snprintf(target, sizeof target, "%s/out.bru", folder);
    return true;
}

/* How many files are in the folder, which is emptied of `target` and removed. */
static int folder_teardown(void) {
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
    if (d) closedir(d);
    unlink(target);
    CHECK_EQ(rmdir(folder), 0);
    return count;
}

static const char *from_environment(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static bru_image *opened(const char *path) {
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    bru_image *im = NULL;
    bru_error err;
    o.guest_path = from_environment("BRUMATE_GUEST", "build/core.so");
    if (bru_image_open(path, &o, &im, &err) != BRU_OK) fprintf(stderr, "%s\n", err.message);
    return im;
}

static bru_image *the_base(void) {
    static bru_image *base;
    if (!base) base = opened(from_environment("BRUMATE_IMAGE", "build/core.bru"));
    return base;
}

static bru_build_file text_file(const char *path, const char *text) {
    return (bru_build_file){ path, text, strlen(text) };
}

static bru_status build_one(const char *path, const char *source, const char *preload,
                            bru_error *err) {
    bru_build_file file = text_file(path, source);
    bru_build_options o = BRU_BUILD_OPTIONS_INIT;
    o.base = the_base();
    o.files = &file;
    o.file_count = 1;
    o.preload = preload;
    o.timeout_ns = 3000000000;
    o.memory_bytes = 96 << 20;
    return bru_image_build(&o, target, err);
}

#define CHECK_OUTPUT(image, source, want)                                                          \
    do {                                                                                           \
        bru_session *s_ = NULL;                                                                    \
        bru_result *r_ = NULL;                                                                     \
        bru_error e_ = { 0 };                                                                      \
        CHECK_EQ(bru_session_new(image, NULL, &s_, &e_), BRU_OK);                                  \
        if (s_) CHECK_EQ(bru_session_run(s_, source, strlen(source), NULL, &r_, &e_), BRU_OK);     \
        CHECK_STR(r_ ? bru_result_text(r_, BRU_TEXT_OUTPUT, NULL) : e_.message, want);             \
        bru_result_free(r_);                                                                       \
        bru_session_free(s_);                                                                      \
    } while (0)

TEST(what_is_added_can_be_imported_and_what_the_base_has_is_there_still) {
    const bru_build_file files[] = {
        text_file(SITE "pkg/__init__.py", "from pkg import deep\n"),
        text_file(SITE "pkg/deep/__init__.py", "word = 'deep'\n"),
        text_file(SITE "pkg/data.txt", ""),
        text_file(SITE "alone.py", "import random\nshared = random.Random(1)\n"),
        text_file("python3.13/json/more.py", "answer = 42\n"), /* into a folder of the base */
    };
    bru_build_options o = BRU_BUILD_OPTIONS_INIT;
    bru_image_info base, info;
    bru_error err = { 0 };
    REQUIRE(folder_setup());
    o.base = the_base();
    o.files = files;
    o.file_count = sizeof files / sizeof *files;
    o.preload = "alone\npkg.deep";
    o.note = "{\"packages\": [\"pkg\"]}";
    CHECK_EQ(bru_image_build(&o, target, &err), BRU_OK);
    CHECK_STR(err.message, "");
    bru_image *im = opened(target);
    REQUIRE(im != NULL);
    bru_image_get_info(im, &info);
    bru_image_get_info(the_base(), &base);
    CHECK_STR(info.note, "{\"packages\": [\"pkg\"]}");
    CHECK_STR(base.note, "");
    CHECK_EQ(info.root_entries, base.root_entries + 7);
    CHECK(strncmp(info.preloaded, base.preloaded, strlen(base.preloaded)) == 0);
    CHECK_STR(info.preloaded + strlen(base.preloaded), "\nalone\npkg.deep");
    CHECK_OUTPUT(im,
                 "import sys\nprint('pkg' in sys.modules, 'json' in sys.modules)\n"
                 "import pkg, json.more, os\n"
                 "print(pkg.deep.word, json.more.answer, json.dumps([1]))\n"
                 "print(sorted(os.listdir('/lib/python3.13/site-packages')))\n"
                 "print(os.stat(pkg.__path__[0] + '/data.txt').st_size)\n",
                 "True True\ndeep 42 [1]\n['alone.py', 'pkg']\n0\n");
    CHECK_OUTPUT(
        im, "import alone\nprint(alone.shared.random() == __import__('random').Random(1).random())",
        "False\n");
    bru_image_unref(im);
    CHECK_EQ(folder_teardown(), 1);
}

TEST(an_image_can_be_the_base_of_the_next) {
    bru_error err = { 0 };
    REQUIRE(folder_setup());
    CHECK_EQ(build_one(SITE "one.py", "", "one", &err), BRU_OK);
    bru_image *one = opened(target);
    REQUIRE(one != NULL);
    bru_build_file file = text_file(SITE "two.py", "import one\n");
    bru_build_options o = BRU_BUILD_OPTIONS_INIT;
    o.base = one;
    o.files = &file;
    o.file_count = 1;
    CHECK_EQ(bru_image_build(&o, target, &err), BRU_OK); /* over the file that `one` is */
    bru_image *two = opened(target);
    REQUIRE(two != NULL);
    CHECK_OUTPUT(two, "import sys, two\nprint(two.one is sys.modules['one'])\n", "True\n");
    CHECK_OUTPUT(one, "import importlib.util\nprint(importlib.util.find_spec('two'))\n", "None\n");
    bru_image_unref(one);
    bru_image_unref(two);
    CHECK_EQ(folder_teardown(), 1);
}

static const struct {
    const char *path;
    bru_status want;
} paths[] = {
    { "", BRU_EINVAL },
    { "/abs.py", BRU_EINVAL },
    { "../up.py", BRU_EINVAL },
    { "a/../../b.py", BRU_EINVAL },
    { "a/./b.py", BRU_EINVAL },
    { "a//b.py", BRU_EINVAL },
    { "a/", BRU_EINVAL },
    { "\xff.py", BRU_EINVAL },
    { "python3.13/json/__init__.py", BRU_EINVAL }, /* a file of the base */
    { "python3.13/json", BRU_EINVAL },             /* a folder of the base */
    { "python3.13/os.py/x.py", BRU_EINVAL },       /* through a file of the base */
    { SITE "ok.py", BRU_OK },
};

TEST(a_file_that_cannot_be_added_is_named) {
    REQUIRE(folder_setup());
    EACH(row, paths) {
        bru_error err = { 0 };
        CHECK_EQ(build_one(row->path, "", "", &err), row->want);
        if (row->want && row->path && row->path[0] && row->path[0] != '\xff')
            CHECK(strstr(err.message, row->want == BRU_EINVAL ? "/" : row->path) != NULL);
    }
    bru_error err;
    static char deep[300], name[300];
    for (int i = 0; i < 100; i++) memcpy(deep + 2 * i, i < 99 ? "d/" : "f", 2);
    memset(name, 'n', 256);
    CHECK_EQ(build_one(deep, "", "", &err), BRU_ELIMIT);
    CHECK_EQ(build_one(name, "", "", &err), BRU_EINVAL);
    CHECK_EQ(folder_teardown(), 1);
}

static const char *const pairs[][2] = {
    { "same.py", "same.py" },
    { "x", "x/below.py" },
    { "x/below.py", "x" },
    { "a-b", "a-b/c/d" },
};

TEST(files_that_get_in_each_others_way_are_refused) {
    REQUIRE(folder_setup());
    EACH(pair, pairs) {
        bru_build_file files[] = { text_file((*pair)[0], ""), text_file("a.py", ""),
                                   text_file((*pair)[1], ""), text_file("x!", "") };
        bru_build_options o = BRU_BUILD_OPTIONS_INIT;
        bru_error err = { 0 };
        o.base = the_base();
        o.files = files;
        o.file_count = 4;
        CHECK_EQ(bru_image_build(&o, target, &err), BRU_EINVAL);
        CHECK(strstr(err.message, "added twice") != NULL);
    }
    CHECK_EQ(folder_teardown(), 0);
}

static const struct {
    const char *source;
    bru_status want;
    const char *message;
} imports[] = {
    { "while True: pass", BRU_ELIMIT, "did not end in time" },
    { "import time\ntime.sleep(1000)", BRU_ELIMIT, "did not end in time" },
    { "import sys\nsys.stderr.write('still busy\\n')\nwhile True: pass", BRU_ELIMIT, "still busy" },
    { "import os\nos._exit(3)", BRU_EGUEST, "ended the process with code 3" },
    { "import sys\nsys.exit('no such luck')", BRU_EGUEST, "no such luck" },
    { "raise ValueError('bad\\nluck')", BRU_EGUEST, "ValueError" },
    { "raise KeyboardInterrupt", BRU_EGUEST, "KeyboardInterrupt" },
    { "import os\nos.abort()", BRU_EGUEST, "did not boot" },
    { "x = bytearray(1 << 30)", BRU_EGUEST, "memory limit" },
    { "f = open('/tmp/left', 'w')", BRU_EGUEST, "files open" },
    { "input()", BRU_EGUEST, "EOFError" },
    { "import none_such", BRU_EGUEST, "none_such" },
    { "def f(", BRU_EGUEST, "SyntaxError" },
    { "import time\ntime.sleep(0.01)\nimport asyncio\nasyncio.run(asyncio.sleep(0.01))", BRU_OK,
      "" },
};

TEST(an_import_that_does_not_end_well_is_told_in_one_line_and_leaves_nothing) {
    EACH(row, imports) {
        bru_error err = { 0 };
        REQUIRE(folder_setup());
        CHECK_EQ(build_one(SITE "bad.py", row->source, "bad", &err), row->want);
        CHECK(strstr(err.message, row->message) && !strchr(err.message, '\n'));
        if (!strstr(err.message, row->message))
            fprintf(stderr, "  \"%s\" has no \"%s\"\n", err.message, row->message);
        CHECK_EQ(folder_teardown(), row->want == BRU_OK);
    }
}

TEST(what_an_import_prints_is_dropped) {
    bru_error err = { 0 };
    REQUIRE(folder_setup());
    CHECK_EQ(build_one(SITE "loud.py",
                       "import sys\nprint('hello')\nprint('end', end='')\n"
                       "sys.stderr.write('careful')\n",
                       "loud", &err),
             BRU_OK);
    bru_image *im = opened(target);
    REQUIRE(im != NULL);
    CHECK_OUTPUT(im, "import loud, sys\nprint('mine', sys.argv)\n", "mine ['']\n");
    bru_image_unref(im);
    CHECK_EQ(folder_teardown(), 1);
}

TEST(a_build_that_fails_leaves_the_image_that_was_there) {
    struct stat before, after;
    REQUIRE(folder_setup());
    CHECK_EQ(build_one(SITE "good.py", "", "good", NULL), BRU_OK);
    CHECK_EQ(stat(target, &before), 0);
    CHECK_EQ(build_one(SITE "bad.py", "1 / 0", "bad", NULL), BRU_EGUEST);
    CHECK_EQ(stat(target, &after), 0);
    CHECK(before.st_ino == after.st_ino && before.st_size == after.st_size);
    CHECK_EQ(folder_teardown(), 1);
}

TEST(an_image_is_opened_with_the_guest_of_another) {
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    bru_image *im = NULL;
    REQUIRE(folder_setup());
    REQUIRE(build_one(SITE "one.py", "", "one", NULL) == BRU_OK);
    CHECK_EQ(bru_image_open(target, NULL, &im, NULL), BRU_ENOENT); /* no guest beside it */
    o.guest_of = the_base();
    CHECK_EQ(bru_image_open(target, &o, &im, NULL), BRU_OK);
    CHECK_OUTPUT(im, "import sys; print('one' in sys.modules)", "True\n");
    bru_image_unref(im);
    o.guest_path = "core.so";
    CHECK_EQ(bru_image_open(target, &o, &im, NULL), BRU_EINVAL);
    CHECK_EQ(folder_teardown(), 1);
}

TEST(options_that_make_no_image_are_refused) {
    static char long_text[(256 << 10) + 2];
    memset(long_text, 'x', sizeof long_text - 1);
    const struct {
        bru_build_options o;
        const char *message;
    } rows[] = {
        { { .size = sizeof(bru_build_options) }, "no guest" },
        { { .size = sizeof(bru_build_options), .guest_path = "x" }, "no folder" },
        { { .size = sizeof(bru_build_options), .base = the_base(), .root_path = "x" },
          "not of both" },
        { { .size = sizeof(bru_build_options), .base = the_base(), .file_count = 1 }, "files" },
        { { .size = sizeof(bru_build_options), .base = the_base(), .preload = "a\rb" }, "control" },
        { { .size = sizeof(bru_build_options), .base = the_base(), .note = "a\nb" }, "control" },
        { { .size = sizeof(bru_build_options), .base = the_base(), .note = long_text }, "bytes" },
    };
    EACH(row, rows) {
        bru_error err = { 0 };
        CHECK_EQ(bru_image_build(&row->o, "/nonexistent/x.bru", &err), BRU_EINVAL);
        CHECK(strstr(err.message, row->message) != NULL);
    }
}

TEST_MAIN
