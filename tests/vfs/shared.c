/* One tree, and one archive, in the namespaces of several threads at once. */
#include "world.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define ROUNDS  400

static vfs_fs *tree;
static atomic_uint failures;

static void *work(void *ctx) {
    int me = (int)(intptr_t)ctx;
    world w = { 0 };
    char path[64], other[64];
    if (vfs_new(tree, NULL, NULL, NULL, &w.v, NULL)) return NULL;
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(path, sizeof path, "/data/own%d/%d", me, i % 20);
        snprintf(other, sizeof other, "/data/common/%d", i % 7);
        if (put_text(&w, path, "mine")) atomic_fetch_add(&failures, 1);
        put_text(&w, other, "anyone's");
        vfs_file *f = NULL;
        char text[16];
        size_t n = 0;
        if (!open_file(&w, other, VFS_READ, &f)) vfs_read(f, 0, text, sizeof text, &n);
        if (i % 3 == me % 3) remove_file(&w, other);
        if (i % 5 == 0) move(&w, other, path);
        if (i % 11 == 0) hard_link(&w, path, other);
        vfs_dirent d = { .next = 0 };
        vfs_file *dir = NULL;
        if (!open_file(&w, "/data/common", VFS_READ | VFS_FOLDER, &dir))
            while (!vfs_readdir(dir, d.next, &d) && d.len) continue;
        vfs_close(dir);
        if (i % 50 == 49) {
            vfs_fs *fork = NULL;
            if (!memtree_fork(tree, &fork, NULL)) memtree_clear(fork);
            fs_unref(fork);
        }
        if (n && memcmp(text, "anyone's", n) != 0 && memcmp(text, "mine", 4) != 0)
            atomic_fetch_add(&failures, 1);
        vfs_close(f);
    }
    vfs_free(w.v);
    return NULL;
}

TEST(several_threads_share_a_tree) {
    pthread_t threads[THREADS];
    memtree_usage usage;
    REQUIRE(!memtree_new(NULL, &tree, NULL));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&failures), 0);
    memtree_clear(tree);
    memtree_get_usage(tree, &usage);
    CHECK_EQ(usage.entries, 2);
    fs_unref(tree);
}

/* A fork that is written on another thread shares blocks with the original. */
static void *write_fork(void *ctx) {
    world w = { .tree = ctx };
    if (vfs_new(w.tree, NULL, NULL, NULL, &w.v, NULL)) return NULL;
    for (int i = 0; i < 200; i++) put_text(&w, "/data/f", i % 2 ? "odd" : "even");
    vfs_free(w.v);
    return NULL;
}

TEST(forks_are_written_on_several_threads) {
    world w;
    vfs_fs *forks[THREADS];
    pthread_t threads[THREADS];
    REQUIRE(!world_open(&w, NULL));
    CHECK_EQ(put_text(&w, "/data/f", "original"), BRU_OK);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(memtree_fork(w.tree, &forks[i], NULL), BRU_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, write_fork, forks[i]), 0);
    CHECK_STR(text_of(&w, "/data/f"), "original");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_STR(text_of(&w, "/data/f"), "original");
    for (int i = 0; i < THREADS; i++) fs_unref(forks[i]);
    world_close(&w);
}

TEST_MAIN
