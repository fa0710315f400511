/* Any sequence of WASI calls with any arguments over any memory, on a namespace of memory, an
 * archive and a host folder with links planted in it. Afterwards: the books of the memory are
 * right, and what lies outside the host folder was neither seen nor changed. */
#define _GNU_SOURCE
#include "recount.h"
#include "wasi/wasi.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY 65536u

static char top[64], in[80];
static char secret[32]; /* a new one for each input: a fuzzer learns what it is compared with */
static buf archive;

static const char *const paths[] = {
    "data/a",     "data/b",    "data/d", "data/d/x",       "data/l",         "tmp",
    "lib/mod.py", "lib/pkg/x", "mnt/f",  "mnt/d/g",        "mnt/out/secret", "mnt/abs",
    "mnt/new",    "dev/null",  "..",     "a/../data/./a/",
};
#define PATHS      (sizeof paths / sizeof *paths)
#define PATH_AT(i) (256u + (uint32_t)(i) * 32u)

static bru_status to_buf(void *ctx, const void *bytes, size_t len, bru_error *err) {
    bru_status st = buf_append(ctx, bytes, len);
    return st ? error_set(err, st, "buffer") : BRU_OK;
}

static void write_at(int dir, const char *name, const char *text) {
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void tidy_away(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    if (system(command)) fprintf(stderr, "%s is left behind\n", top);
}

static void host_fill(void) {
    int dir = open(in, O_PATH | O_DIRECTORY);
    MUST(dir >= 0);
    write_at(dir, "f", "in f");
    MUST(mkdirat(dir, "d", 0755) == 0);
    write_at(dir, "d/g", "in g");
    MUST(symlinkat("../out", dir, "out") == 0 && symlinkat("/etc/passwd", dir, "abs") == 0);
    close(dir);
}

static void host_make(void) {
    char path[160];
    snprintf(top, sizeof top, "/tmp/bru-fuzz-XXXXXX");
    MUST(mkdtemp(top) != NULL);
    atexit(tidy_away);
    snprintf(in, sizeof in, "%s/in", top);
    snprintf(path, sizeof path, "%s/out", top);
    MUST(mkdir(in, 0755) == 0 && mkdir(path, 0755) == 0);
    int dir = open(top, O_PATH | O_DIRECTORY);
    MUST(mkdirat(dir, "arch", 0755) == 0 && mkdirat(dir, "arch/pkg", 0755) == 0);
    write_at(dir, "arch/mod.py", "import pkg\n");
    write_at(dir, "arch/pkg/x", "0123456789");
    MUST(symlinkat("pkg/x", dir, "arch/l") == 0);
    close(dir);
    snprintf(path, sizeof path, "%s/arch", top);
    buf_init(&archive, 1 << 16);
    MUST(archive_build(path, 0, NULL, NULL, to_buf, &archive, NULL) == BRU_OK);
    host_fill();
}

static void secret_change(void) {
    static uint64_t state;
    char path[160];
    state = (state + clock_monotonic()) * 6364136223846793005u + 1442695040888963407u;
    snprintf(secret, sizeof secret, "secret-%016llx", (unsigned long long)state);
    snprintf(path, sizeof path, "%s/out/secret", top);
    write_at(AT_FDCWD, path, secret);
}

static void secret_check(const uint8_t *memory) {
    char path[160], text[64] = "";
    snprintf(path, sizeof path, "%s/out/secret", top);
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    MUST(strcmp(text, secret) == 0);
    MUST(memmem(memory, MEMORY, secret, strlen(secret)) == NULL);
}

/* Changes when something there does, or nearly always: times have a grain. */
static uint64_t host_state(void) {
    static const char *const what[] = { "", "/f", "/d", "/d/g" };
    uint64_t sum = 0;
    for (size_t i = 0; i < 4; i++) {
        char path[160];
        struct stat st = { 0 };
        snprintf(path, sizeof path, "%s%s", in, what[i]);
        if (lstat(path, &st)) return 0;
        sum = sum * 31 + (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec;
        sum += st.st_ino + (uint64_t)st.st_size;
    }
    return sum;
}

/* Removes all that is there, whatever the guest made, and begins anew. */
static void host_refresh(vfs_fs *host) {
    vfs_fs *tree = NULL;
    vfs *v = NULL;
    vfs_dirent d;
    MUST(!memtree_new(NULL, &tree, NULL) && !vfs_new(tree, NULL, NULL, NULL, &v, NULL));
    MUST(!vfs_mount(v, "/h", host, NULL));
    for (;;) {
        vfs_file *f = NULL;
        MUST(vfs_open(v, NULL, "/h", 2, VFS_READ | VFS_FOLDER, &f) == VFS_OK);
        vfs_err e = vfs_readdir(f, 2, &d);
        vfs_close(f);
        MUST(e == VFS_OK);
        if (d.len == 0) break;
        char path[300];
        snprintf(path, sizeof path, "/h/%s", d.name);
        MUST(vfs_remove(v, path, NULL) == BRU_OK);
    }
    vfs_free(v);
    fs_unref(tree);
    host_fill();
}

/* What the arguments of each function are: d a descriptor, D mostly a folder, s a path and l its
 * length, v a list of buffers and c their count, p a pointer, n a length, o an offset, r rights, L
 * whether to follow, O how to open, F flags of a descriptor, f other small numbers, t a time. */
static const struct {
    const char *name, *kinds;
} kinds[] = {
    { "args_get", "pp" },
    { "args_sizes_get", "pp" },
    { "environ_get", "pp" },
    { "environ_sizes_get", "pp" },
    { "clock_res_get", "fp" },
    { "clock_time_get", "ftp" },
    { "fd_advise", "doof" },
    { "fd_allocate", "doo" },
    { "fd_close", "d" },
    { "fd_datasync", "d" },
    { "fd_fdstat_get", "dp" },
    { "fd_fdstat_set_flags", "df" },
    { "fd_fdstat_set_rights", "drr" },
    { "fd_filestat_get", "dp" },
    { "fd_filestat_set_size", "do" },
    { "fd_filestat_set_times", "dttf" },
    { "fd_pread", "dvcop" },
    { "fd_prestat_get", "Dp" },
    { "fd_prestat_dir_name", "Dpf" },
    { "fd_pwrite", "dvcop" },
    { "fd_read", "dvcp" },
    { "fd_readdir", "Dpnfp" },
    { "fd_renumber", "dd" },
    { "fd_seek", "dofp" },
    { "fd_sync", "d" },
    { "fd_tell", "dp" },
    { "fd_write", "dvcp" },
    { "path_create_directory", "Dsl" },
    { "path_filestat_get", "DLslp" },
    { "path_filestat_set_times", "DLslttf" },
    { "path_link", "DLslDsl" },
    { "path_open", "DLslOrrFp" },
    { "path_readlink", "Dslpnp" },
    { "path_remove_directory", "Dsl" },
    { "path_rename", "DslDsl" },
    { "path_symlink", "slDsl" },
    { "path_unlink_file", "Dsl" },
    { "poll_oneoff", "ppcp" },
    { "proc_exit", "f" },
    { "proc_raise", "f" },
    { "sched_yield", "" },
    { "random_get", "pn" },
    { "sock_accept", "dfp" },
    { "sock_recv", "dvcfpp" },
    { "sock_send", "dvcfp" },
    { "sock_shutdown", "df" },
};

#define IOVS_AT 2048u

/* A good argument of a kind, or in one case of sixteen anything. `*len` is of the last path. */
static uint64_t argument(input *in_, char kind, bool wide, uint64_t *len) {
    uint32_t how = take(in_, 1), pick = how >> 4;
    if ((how & 15) == 15) {
        static const uint64_t odd[] = { UINT64_MAX, INT64_MAX, 1ull << 63, UINT32_MAX,
                                        MEMORY - 1, MEMORY,    1ull << 31, 0xFFFFFFF0 };
        uint64_t v = pick < 8 ? odd[pick] : take(in_, pick & 1 ? 4 : 2);
        return wide ? v : (uint32_t)v;
    }
    switch (kind) {
    case 'd': return how % 12;
    case 'D': return pick < 12 ? 3 : pick - 8;
    case 's': *len = strlen(paths[how % PATHS]); return PATH_AT(how % PATHS);
    case 'l': return pick == 7 ? how & 7 : *len;
    case 'v': return IOVS_AT + pick % 4 * 8;
    case 'c': return how % 5;
    case 'p': return 4096 + (uint64_t)take(in_, 1) * 64;
    case 'n': return take(in_, 1) * 8;
    case 'o': return pick < 12 ? take(in_, 1) * 16 : pick == 12 ? UINT64_MAX - 40 : take(in_, 2);
    case 'r': return pick < 14 ? (1u << 30) - 1 - (pick & 1 ? 0x400141u : 0) : take(in_, 4);
    case 'L': return pick & 1;
    case 'O': return (uint64_t)"\0\0\0\0\0\1\1\1\1\5\x8\x9\2\2\4\6"[pick];
    case 'F': return pick < 12 ? 0 : pick == 12 ? 4 : 1;
    case 'f': return how & 7 ? pick : take(in_, 1);
    default: return take(in_, 2);
    }
}

/* Some files that are open from the beginning, and lists of buffers. */
static void begin(wasi *w, uint8_t *memory) {
    static const uint32_t iovs[] = { 8192,  300, 9000, 0,  10000, 5000, 4096, 1,
                                     20000, 40,  8192, 60, 30000, 9000, 100,  7 };
    static const struct {
        size_t path;
        uint64_t oflags, rights;
    } files[] = { { 0, 1, (1u << 30) - 1 }, { 2, 0, 0 }, { 8, 0, 0x600006 } };
    memcpy(memory + IOVS_AT, iovs, sizeof iovs);
    gmem m = { memory, MEMORY };
    uint64_t result, make[] = { 3, PATH_AT(2), strlen(paths[2]) };
    for (size_t i = 0; i < wasi_door_count; i++)
        if (strcmp(wasi_doors[i].name, "path_create_directory") == 0)
            wasi_doors[i].fn(w, m, make, &result);
    for (size_t i = 0; i < wasi_door_count; i++)
        for (size_t f = 0; f < 3 && strcmp(wasi_doors[i].name, "path_open") == 0; f++) {
            uint64_t args[] = { 3,
                                1,
                                PATH_AT(files[f].path),
                                strlen(paths[files[f].path]),
                                files[f].oflags,
                                files[f].rights,
                                (1u << 30) - 1,
                                0,
                                4096 };
            wasi_doors[i].fn(w, m, args, &result);
        }
}

static void play(wasi *w, uint8_t *memory, input *in_, sink *out, source *src) {
    gmem m = { memory, MEMORY };
    for (int n = 0; in_->left > 0 && n < 400; n++) {
        size_t which = take(in_, 1) % wasi_door_count;
        const door *d = &wasi_doors[which];
        MUST(strcmp(d->name, kinds[which].name) == 0);
        uint64_t args[9] = { 0 }, result = 0, len = 0;
        for (size_t i = 0; d->type[i] != ':'; i++)
            args[i] = argument(in_, kinds[which].kinds[i], d->type[i] == 'I', &len);
        door_next next = d->fn(w, m, args, &result);
        if (next == DOOR_RETURN) MUST(result <= 76);
        if (next == DOOR_STOP) MUST(wasi_stop(w).cause != WASI_RUNNING);
        if (next == DOOR_STOP) wasi_restart_stdio(w);
        if (next != DOOR_PARK) continue;
        MUST(wasi_wait(w).reasons != 0);
        switch (take(in_, 1) % 5) {
        case 0: sink_take(out); break;
        case 1: (void)!source_give(src, "given", 5, NULL); break;
        case 2: wasi_interrupt(w); break;
        case 3: wasi_forget_wait(w); break;
        default: break;
        }
        next = d->fn(w, m, args, &result);
        if (next == DOOR_PARK && n % 2) wasi_reset(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!top[0]) host_make();
    secret_change();
    uint64_t state = host_state();
    input in_ = { data, size };
    uint8_t *memory = malloc(MEMORY);
    MUST(memory != NULL);
    memset(memory, 0, MEMORY);
    for (size_t i = 0; i < PATHS; i++) memcpy(memory + PATH_AT(i), paths[i], strlen(paths[i]));
    for (size_t i = 0; i < MEMORY - 4096 && size; i++) memory[4096 + i] = data[i % size];
    uint32_t how = take(&in_, 1);
    memtree_options tree_opt = { .max_bytes = 1 << 18, .max_entries = 60 };
    sink_options sink_opt = { .mode = how & 1 ? SINK_STREAM : SINK_COLLECT,
                              .limit = 5000,
                              .stop = how & 2,
                              .merge = how & 4 ? 100 : 0 };
    hostfs_options host_opt = {
        .writable = how & 8, .max_open = 6, .max_write = 10000, .by_parts = how & 16
    };
    vfs_fs *tree = NULL, *lib = NULL, *host = NULL;
    sink *out = NULL;
    source *src = NULL;
    vfs *files = NULL;
    wasi *w = NULL;
    MUST(!memtree_new(&tree_opt, &tree, NULL));
    MUST(!archive_open(archive.data, archive.len, false, NULL, NULL, &lib, NULL));
    MUST(!hostfs_open(in, &host_opt, &host, NULL));
    MUST(!sink_new(&sink_opt, &out, NULL) && !source_new(how & 32, &src, NULL));
    MUST(!vfs_new(tree, out, src, NULL, &files, NULL));
    MUST(!vfs_mount(files, "/lib", lib, NULL) && !vfs_mount(files, "/mnt", host, NULL));
    wasi_options opt = { .files = files, .max_fds = 12 };
    MUST(!wasi_new(&opt, &w, NULL));
    begin(w, memory);
    play(w, memory, &in_, out, src);
    secret_check(memory);
    wasi_reset(w);
    recount_check(tree);
    memtree_clear(tree);
    recount_check(tree);
    wasi_free(w);
    vfs_free(files);
    if (how & 8 && host_state() != state) host_refresh(host);
    fs_unref(host);
    fs_unref(lib);
    fs_unref(tree);
    sink_free(out);
    source_free(src);
    free(memory);
    return 0;
}
