/* Snapshots: a sleeping session as bytes, to be woken in this process or another one.
 *
 *     bru_session_snapshot(session, NULL, &snapshot, &err);    the session goes on as before
 *     bru_session_restore(session, snapshot, &err);            back to where it was: an undo
 *     bru_session_resume(image, &options, snapshot, &other, &err);   the same in a new session
 *     bru_session_fork(session, &twin, &err);                  both at once, in microseconds
 *
 * A snapshot holds what the guest is: the memory that differs from its image, the session's own
 * files, open descriptors, host calls that wait for a reply, the time that is left. It does not
 * hold what the session was given: limits, mounts, storage, host functions and environment are
 * those of the session that it is put into.
 *
 * It is data. One that was made up can do no more than the code that could have run instead: what
 * is in it is checked, and counts against the limits of the session that takes it. */
#ifndef BRUMATE_SNAPSHOT_H
#define BRUMATE_SNAPSHOT_H

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable: any number of threads at once, until it is freed. */
typedef struct bru_snapshot bru_snapshot;

enum bru_snapshot_flag {
    BRU_SNAPSHOT_NO_FILES = 1u /* leave the in-memory files out: a restore keeps those there are */
};

typedef struct bru_snapshot_options {
    size_t size;
    unsigned flags;           /* of bru_snapshot_flag */
    int level;                /* of compression, 1 (fast) to 19 (small); 0: 1 */
    const bru_snapshot *base; /* store only what changed since this one, which is whole and of the
                               * same image; NULL: all. To be joined before it is put back */
    const void *key;          /* sign with these bytes, at least 16; NULL: do not */
    size_t key_len;
} bru_snapshot_options;
#define BRU_SNAPSHOT_OPTIONS_INIT { .size = sizeof(bru_snapshot_options) }

/* Takes a snapshot. The session must be at rest: nothing runs in it, or what runs waits in an
 * `await` and bru_session_next() has said WAIT. Output that was not handed out yet goes along.
 * BRU_ESTATE  it is not: it has ended, a start was not followed by a next yet, or its code waits in
 *             the middle of a call (time.sleep, input(), asyncio.run); the message says which.
 * BRU_ELIMIT  more than a snapshot may hold. `*out` goes back by bru_snapshot_free(). */
BRU_API BRU_MUST_CHECK bru_status bru_session_snapshot(bru_session *session,
                                                       const bru_snapshot_options *options,
                                                       bru_snapshot **out, bru_error *err);

/* Its bytes, to be kept or sent; the snapshot's, as long as it lives. */
BRU_API const void *bru_snapshot_bytes(const bru_snapshot *snapshot, size_t *len);

/* A snapshot from such bytes, which are copied and checked: BRU_EFORMAT says what is wrong. */
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_open(const void *bytes, size_t len,
                                                    bru_snapshot **out, bru_error *err);

/* With a key what was not signed with it is refused before anything else is looked at, and without
 * one what was signed with any: BRU_EPERM. */
typedef struct bru_snapshot_open_options {
    size_t size;
    const void *key;
    size_t key_len;
} bru_snapshot_open_options;
#define BRU_SNAPSHOT_OPEN_OPTIONS_INIT { .size = sizeof(bru_snapshot_open_options) }

BRU_API BRU_MUST_CHECK bru_status bru_snapshot_open_with(const void *bytes, size_t len,
                                                         const bru_snapshot_open_options *options,
                                                         bru_snapshot **out, bru_error *err);

/* The same to and from a file. Saving puts the file at `path` whole and on the disk, or not at all:
 * what was there stays until then. */
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_save(const bru_snapshot *snapshot, const char *path,
                                                    bru_error *err);
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_load(const char *path, bru_snapshot **out,
                                                    bru_error *err);
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_load_with(const char *path,
                                                         const bru_snapshot_open_options *options,
                                                         bru_snapshot **out, bru_error *err);

enum bru_save_flag {
    BRU_SAVE_UNSYNCED = 1u /* whole or not at all, but not waiting for the disk: a power cut may
                            * undo it; some 50 us instead of what the disk takes */
};
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_save_with(const bru_snapshot *snapshot,
                                                         const char *path, unsigned flags,
                                                         bru_error *err);

/* Makes one whole snapshot of a whole one and what changed since. It holds what one without a base
 * would, may be put back, and be the base of the next. `options`: its level and key.
 * BRU_EMISMATCH  `base` is not what `changes` was taken over. BRU_EFORMAT  they were made up. */
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_join(const bru_snapshot *base,
                                                    const bru_snapshot *changes,
                                                    const bru_snapshot_options *options,
                                                    bru_snapshot **out, bru_error *err);

/* NULL is allowed. */
BRU_API void bru_snapshot_free(bru_snapshot *snapshot);

/* What a snapshot is; texts are borrowed from it. */
typedef struct bru_snapshot_info {
    const char *image_id;    /* of the image it belongs to */
    const char *wasm_sha256; /* of the guest build */
    const char *id;          /* its own: of what it holds, whichever way it came about */
    const char *base_id;     /* of the one that it holds the changes of; "": it is whole */
    uint64_t wall_ns;        /* when it was taken, since 1970, by the session's clock */
    uint64_t memory_bytes;   /* linear memory */
    uint64_t changed_bytes;  /* of it, what differs from the image */
    uint64_t stored_bytes;   /* of that, what is stored, before compression */
    uint64_t file_bytes;     /* of saved files, before compression; 0: left out, or its base's */
    uint64_t left_ns;        /* of the execution's time; BRU_NO_LIMIT; 0 if nothing runs */
    int waiting;             /* an execution waits; else the session was idle */
    uint32_t call_count;     /* host calls that wait for a reply */
    uint32_t descriptors;    /* open files, the standard streams not counted */
    uint32_t format;
    int is_signed;
} bru_snapshot_info;

BRU_API void bru_snapshot_get_info(const bru_snapshot *snapshot, bru_snapshot_info *out);

/* A host call that waits for a reply; borrowed from the snapshot. */
typedef struct bru_snapshot_call {
    uint32_t id;
    const char *name;
    const void *data; /* the arguments, as in a CALL event */
    size_t len;
} bru_snapshot_call;

/* Call number `index`; BRU_ENOENT: there is none. */
BRU_API BRU_MUST_CHECK bru_status bru_snapshot_get_call(const bru_snapshot *snapshot, size_t index,
                                                        bru_snapshot_call *out, bru_error *err);

/* Puts a snapshot into a session of the same image, in any state but inside another call: its
 * Python, its files unless they were left out, its descriptors are replaced; what ran in it is
 * forgotten. If an execution waited, it goes on by bru_session_next(): its open calls come as CALL
 * events again, unless bru_session_reply() answered them before. Descriptors of files that are not
 * here any more are closed: the guest gets EBADF. Clocks go on: the time asleep has passed.
 * Replies to calls that were made before must not come any more: their ids may be used again.
 * BRU_ESTATE     it holds only changes: join it first.
 * BRU_EMISMATCH  of another image or guest build; BRU_ELIMIT beyond this session's limits;
 *                BRU_ENOMEM before anything was done: the session is as before.
 * Else           the message says that the session was reset. */
BRU_API BRU_MUST_CHECK bru_status bru_session_restore(bru_session *session,
                                                      const bru_snapshot *snapshot, bru_error *err);

/* A new session with the snapshot in it; as bru_session_new(), then bru_session_restore(). */
BRU_API BRU_MUST_CHECK bru_status bru_session_resume(bru_image *image,
                                                     const bru_session_options *options,
                                                     const bru_snapshot *snapshot,
                                                     bru_session **out, bru_error *err);

/* A twin of a session at rest, with the same limits, mounts, storage, functions and environment;
 * its own files are shared until either side writes. The twin has entropy of its own. Statuses as
 * of bru_session_snapshot() and bru_session_new(). `*out` goes back by bru_session_free(). */
BRU_API BRU_MUST_CHECK bru_status bru_session_fork(bru_session *session, bru_session **out,
                                                   bru_error *err);

#ifdef __cplusplus
}
#endif
#endif
