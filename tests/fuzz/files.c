/* Files in memory against a model of them that is too simple to be wrong: a few names in one
 * folder, and for each file its bytes. Forks and saved copies must equal the model as well. */
#include "recount.h"

#define NAMES 6u
#define FILES 24u
#define LONG  40000u /* bytes of a file */
#define OPEN  3u

typedef struct model_file {
    uint32_t size;
    uint8_t bytes[LONG];
} model_file;

typedef struct model {
    int file[NAMES]; /* index of the file by that name, -1 */
    unsigned made;
    model_file files[FILES]; /* never used again, so that open ones stay */
} model;

static const char *const names[NAMES] = { "/data/a", "/data/bb", "/data/ccc",
                                          "/data/d", "/data/e",  "/data/f" };

typedef struct state {
    vfs_fs *tree;
    vfs *v;
    vfs_file *open[OPEN];
    int opened[OPEN]; /* index of the file */
    model m;
} state;

static vfs_err opening(state *s, unsigned name, unsigned flags, vfs_file **f) {
    return vfs_open(s->v, NULL, names[name], strlen(names[name]), flags, f);
}

static void file_equals(vfs_file *f, const model_file *want) {
    static uint8_t have[LONG + 100];
    size_t n = 0;
    MUST(vfs_read(f, 0, have, sizeof have, &n) == VFS_OK);
    MUST(n == want->size && memcmp(have, want->bytes, n) == 0);
}

/* Whether a namespace holds just what the model does. */
static void equals(state *s) {
    for (unsigned i = 0; i < NAMES; i++) {
        vfs_file *f = NULL;
        vfs_err e = opening(s, i, VFS_READ, &f);
        MUST(e == (s->m.file[i] < 0 ? VFS_ENOENT : VFS_OK));
        if (f) file_equals(f, &s->m.files[s->m.file[i]]);
        vfs_close(f);
    }
}

static void step_open(state *s, input *in) {
    unsigned slot = take(in, 1) % OPEN, name = take(in, 1) % NAMES, how = take(in, 1);
    unsigned flags = VFS_READ | VFS_WRITE | (how & 1 ? VFS_CREATE : 0u) |
                     (how & 2 ? VFS_EXCL : 0u) | (how & 4 ? VFS_TRUNC : 0u);
    vfs_close(s->open[slot]);
    s->open[slot] = NULL;
    bool there = s->m.file[name] >= 0;
    if (!there && s->m.made == FILES) return;
    vfs_err e = opening(s, name, flags, &s->open[slot]);
    if (!there && !(how & 1))
        MUST(e == VFS_ENOENT);
    else if (there && (how & 3) == 3)
        MUST(e == VFS_EEXIST);
    else
        MUST(e == VFS_OK);
    if (e) return;
    if (!there) s->m.file[name] = (int)s->m.made++;
    s->opened[slot] = s->m.file[name];
    if (how & 4) s->m.files[s->opened[slot]].size = 0;
    if (how & 4) memset(s->m.files[s->opened[slot]].bytes, 0, LONG);
}

static void step_write(state *s, input *in, bool append) {
    unsigned slot = take(in, 1) % OPEN;
    uint64_t at = take(in, 2) % (LONG + 200);
    size_t len = take(in, 2) % 9000, n = 0;
    static uint8_t bytes[9000];
    memset(bytes, (int)take(in, 1) | 1, len);
    if (!s->open[slot]) return;
    model_file *f = &s->m.files[s->opened[slot]];
    if (append) at = f->size;
    uint64_t given = append ? 12345 : at;
    size_t room = at < LONG ? LONG - (size_t)at : 0, want = len < room ? len : room;
    vfs_err e = vfs_write(s->open[slot], &given, append, bytes, len, &n);
    MUST(e == (len && !room ? VFS_EFBIG : VFS_OK));
    if (e || len == 0) return;
    MUST(n == want && given == at + n);
    memcpy(f->bytes + at, bytes, n);
    if (at + n > f->size) f->size = (uint32_t)(at + n);
}

static void step_resize(state *s, input *in, bool allocate) {
    unsigned slot = take(in, 1) % OPEN;
    uint32_t size = take(in, 2) % (LONG + 200), at = allocate ? size / 3 : 0;
    if (!s->open[slot] || (allocate && size == at)) return;
    model_file *f = &s->m.files[s->opened[slot]];
    vfs_err e = allocate ? vfs_file_allocate(s->open[slot], at, size - at)
                         : vfs_file_resize(s->open[slot], size);
    MUST(e == (size > LONG ? VFS_EFBIG : VFS_OK));
    if (e || (allocate && size <= f->size)) return;
    if (size < f->size) memset(f->bytes + size, 0, f->size - size);
    f->size = size;
}

static void step_names(state *s, input *in, unsigned what) {
    unsigned a = take(in, 1) % NAMES, b = take(in, 1) % NAMES;
    const char *from = names[a], *to = names[b];
    int *fa = &s->m.file[a], *fb = &s->m.file[b];
    vfs_err e;
    if (what == 0) {
        e = vfs_unlink(s->v, NULL, from, strlen(from));
        MUST(e == (*fa < 0 ? VFS_ENOENT : VFS_OK));
        *fa = -1;
    } else if (what == 1) {
        e = vfs_rename(s->v, NULL, from, strlen(from), NULL, to, strlen(to));
        MUST(e == (*fa < 0 ? VFS_ENOENT : VFS_OK));
        if (e || *fa == *fb) return;
        *fb = *fa;
        *fa = -1;
    } else {
        e = vfs_link(s->v, NULL, from, strlen(from), false, NULL, to, strlen(to));
        MUST(e == (*fa < 0 ? VFS_ENOENT : *fb >= 0 ? VFS_EEXIST : VFS_OK));
        if (!e) *fb = *fa;
    }
}

/* Goes on in a fork, or in what was saved and loaded again. */
static void step_move_on(state *s, bool fork) {
    vfs_fs *next = NULL;
    buf b;
    buf_init(&b, 4 << 20);
    memtree_options opt = { .max_bytes = 8 << 20, .max_file = LONG };
    if (fork) {
        MUST(memtree_fork(s->tree, &next, NULL) == BRU_OK);
    } else {
        MUST(memtree_new(&opt, &next, NULL) == BRU_OK);
        MUST(memtree_save(s->tree, &b, NULL) == BRU_OK);
        MUST(memtree_load(next, b.data, b.len, NULL) == BRU_OK);
    }
    recount_check(next);
    state other = { .tree = next, .m = { { 0 }, 0, { { 0, { 0 } } } } };
    MUST(vfs_new(next, NULL, NULL, NULL, &other.v, NULL) == BRU_OK);
    for (unsigned i = 0; fork && i < OPEN; i++) /* the old one is written on, behind its back */
        if (s->open[i]) {
            uint64_t at = 10;
            size_t n;
            MUST(vfs_write(s->open[i], &at, false, "overwritten", 11, &n) == VFS_OK);
        }
    for (unsigned i = 0; i < OPEN; i++) vfs_close(s->open[i]);
    memset(s->open, 0, sizeof s->open);
    recount_check(s->tree);
    vfs_free(s->v);
    fs_unref(s->tree);
    s->v = other.v;
    s->tree = next;
    buf_free(&b);
    equals(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = { data, size };
    static state s;
    memset(&s, 0, sizeof s);
    for (unsigned i = 0; i < NAMES; i++) s.m.file[i] = -1;
    memtree_options opt = { .max_bytes = 8 << 20, .max_file = LONG };
    MUST(memtree_new(&opt, &s.tree, NULL) == BRU_OK);
    MUST(vfs_new(s.tree, NULL, NULL, NULL, &s.v, NULL) == BRU_OK);
    for (int n = 0; in.left > 0 && n < 300; n++) {
        uint32_t what = take(&in, 1) % 32;
        if (what < 8)
            step_open(&s, &in);
        else if (what < 14)
            step_write(&s, &in, false);
        else if (what < 17)
            step_write(&s, &in, true);
        else if (what < 21)
            step_resize(&s, &in, false);
        else if (what < 23)
            step_resize(&s, &in, true);
        else if (what < 30)
            step_names(&s, &in, what % 3);
        else
            step_move_on(&s, what == 30);
    }
    equals(&s);
    for (unsigned i = 0; i < OPEN; i++)
        if (s.open[i]) file_equals(s.open[i], &s.m.files[s.opened[i]]);
    for (unsigned i = 0; i < OPEN; i++) vfs_close(s.open[i]);
    recount_check(s.tree);
    vfs_free(s.v);
    fs_unref(s.tree);
    return 0;
}
