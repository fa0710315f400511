/* The doors of module "brumate" and the calls behind them, against what a hostile guest may pass:
 * natively, with no guest. */
#include "test.h"
#include "session/session.h"

static void session_bare(bru_session *s) {
    *s = (bru_session){ .phase = PHASE_IDLE };
    calls_init(&s->calls);
    buf_init(&s->run.posted, SESSION_RESULT_MAX);
    buf_init(&s->reply, SESSION_REPLY_MAX);
    buf_init(&s->failure, SESSION_FAILURE_MAX);
}

static void session_drop(bru_session *s) {
    calls_free(&s->calls);
    buf_free(&s->run.posted);
    buf_free(&s->reply);
    buf_free(&s->failure);
}

static door_fn door_named(const char *name) {
    door_table tables[SESSION_TABLES];
    session_tables(tables);
    const door_table *own = &tables[SESSION_TABLE_OWN];
    for (size_t i = 0; i < own->count; i++)
        if (strcmp(own->doors[i].name, name) == 0) return own->doors[i].fn;
    return NULL;
}

static uint8_t memory[4096];

static door_next through(bru_session *s, const char *name, uint64_t a, uint64_t b, uint64_t c,
                         uint32_t *result) {
    uint64_t args[] = { a, b, c }, value = 0;
    door_next next = door_named(name)(s, (gmem){ memory, sizeof memory }, args, &value);
    *result = (uint32_t)value;
    return next;
}

/* A call message at offset 0; its length. */
static uint32_t message(uint32_t id, uint32_t name_len, const char *rest) {
    memcpy(memory, &id, 4);
    memcpy(memory + 4, &name_len, 4);
    memcpy(memory + 8, rest, strlen(rest));
    return 8 + (uint32_t)strlen(rest);
}

static const struct {
    uint64_t kind, at, len;
} refused_posts[] = {
    { AGENT_POST_RESULT, 4096, 1 },
    { AGENT_POST_RESULT, 0, 4097 },
    { AGENT_POST_RESULT, 0xFFFFFFFF, 2 },
    { AGENT_POST_REPLY, 1, 0xFFFFFFFF },
    { AGENT_POST_CALL, 0, 0 },
    { AGENT_POST_CALL, 0, 7 },
    { AGENT_POST_CALL, 4090, 8 },
    { AGENT_POST_DROP, 0, 3 },
    { 0, 0, 8 },
    { 99, 0, 8 },
    { 0xFFFFFFFF, 0, 8 },
};

TEST(a_post_that_is_malformed_or_out_of_memory_is_refused) {
    bru_session s;
    session_bare(&s);
    uint32_t result;
    memset(memory, 0xFF, sizeof memory); /* every length in it is absurd */
    EACH(row, refused_posts) {
        CHECK_EQ(through(&s, "post", row->kind, row->at, row->len, &result), DOOR_RETURN);
        CHECK_EQ((int32_t)result, -1);
    }
    CHECK_EQ(s.calls.open, 0);
    CHECK_EQ(s.run.posted.len, 0);
    session_drop(&s);
}

TEST(a_call_parks_until_it_was_seen_and_then_tells_what_replies_there_are) {
    bru_session s;
    session_bare(&s);
    uint32_t result, len = message(7, 1, "fxy");
    CHECK_EQ(through(&s, "post", AGENT_POST_CALL, 0, len, &result), DOOR_PARK);
    const call *c = calls_next(&s.calls);
    REQUIRE(c);
    CHECK_STR(c->name, "f");
    CHECK(c->len == 2 && memcmp(call_payload(c), "xy", 2) == 0);
    CHECK_EQ(calls_reply(&s.calls, 7, true, "r", 1, NULL), BRU_OK);
    CHECK_EQ(through(&s, "post", AGENT_POST_CALL, 0, len, &result), DOOR_RETURN);
    CHECK_EQ(result, sizeof(agent_reply) + 1);
    CHECK_EQ(s.calls.open, 0);
    session_drop(&s);
}

TEST(two_open_calls_cannot_have_one_id_and_a_name_no_nul) {
    bru_session s;
    session_bare(&s);
    CHECK_EQ(calls_post(&s.calls, 1, "f", 1, "", 0), BRU_OK);
    CHECK_EQ(calls_post(&s.calls, 1, "g", 1, "", 0), BRU_ELIMIT);
    CHECK_EQ(calls_post(&s.calls, 2, "a\0b", 3, "", 0), BRU_ELIMIT);
    CHECK_EQ(s.calls.open, 1);
    session_drop(&s);
}

TEST(open_calls_have_a_ceiling) {
    bru_session s;
    session_bare(&s);
    uint32_t n = 0;
    while (n <= CALLS_OPEN_MAX && calls_post(&s.calls, n, "f", 1, "", 0) == BRU_OK) n++;
    CHECK_EQ(n, CALLS_OPEN_MAX);
    session_drop(&s);
}

TEST(a_payload_beyond_the_largest_value_is_refused) {
    bru_session s;
    session_bare(&s);
    void *large = mem_zero(BRU_VALUE_MAX + 1, 1);
    REQUIRE(large);
    CHECK_EQ(calls_post(&s.calls, 1, "f", 1, large, BRU_VALUE_MAX + 1), BRU_ELIMIT);
    CHECK_EQ(calls_post(&s.calls, 1, "f", 1, large, BRU_VALUE_MAX), BRU_OK);
    mem_free(large);
    session_drop(&s);
}

/* Ids that meet in the index, since some of them differ only above its size. */
static uint32_t scattered(uint32_t n) {
    return n % 3 ? n * 65536 + n : n;
}

TEST(calls_are_found_by_their_ids_however_others_come_and_go) {
    enum { COUNT = 3000 };
    bru_session s;
    session_bare(&s);
    for (uint32_t n = 0; n < COUNT; n++) {
        CHECK_EQ(calls_post(&s.calls, scattered(n), "f", 1, "", 0), BRU_OK);
        const call *c = calls_next(&s.calls);
        CHECK(c && c->id == scattered(n));
        if (n % 2)
            CHECK_EQ(calls_reply(&s.calls, scattered(n / 2 + n / 4), true, "", 0, NULL), BRU_OK);
    }
    for (uint32_t n = 0; n < COUNT; n++)
        (void)!calls_reply(&s.calls, scattered(n), true, "", 0, NULL);
    CHECK_EQ(s.calls.open, 0);
    session_drop(&s);
}

TEST(calls_and_drops_are_told_in_the_order_they_came) {
    bru_session s;
    session_bare(&s);
    for (uint32_t id = 1; id <= 4; id++) CHECK_EQ(calls_post(&s.calls, id, "f", 1, "", 0), BRU_OK);
    CHECK_EQ(calls_next(&s.calls)->id, 1);
    CHECK_EQ(calls_next(&s.calls)->id, 2);
    calls_drop(&s.calls, 3); /* never seen: not told of */
    calls_drop(&s.calls, 2);
    calls_drop(&s.calls, 2);
    CHECK_EQ(calls_next(&s.calls)->id, 4);
    const call *dropped = calls_next(&s.calls);
    REQUIRE(dropped);
    CHECK(dropped->id == 2 && dropped->dropped);
    CHECK(calls_next(&s.calls) == NULL);
    CHECK_EQ(calls_reply(&s.calls, 2, true, "late", 4, NULL), BRU_OK);
    CHECK_EQ(s.calls.replies.len, 0);
    CHECK_EQ(s.calls.open, 2);
    session_drop(&s);
}

TEST(artifacts_are_kept_up_to_their_limit_and_malformed_ones_refused) {
    bru_session s;
    session_bare(&s);
    uint32_t result;
    s.limits.artifact_bytes = 20;
    s.run.result = result_new();
    REQUIRE(s.run.result);
    static const struct {
        uint32_t type_len;
        const char *rest;
        bool taken;
    } rows[] = {
        { 3, "a/bdata", true },       { 3, "a/b", true },
        { 0, "data", false },         { 4, "a/b", false },
        { 0xFFFFFFFF, "a/b", false }, { 3, "a/b12345678", false },
        { 3, "c/d1234567", true },    { 1, "x", false },
    };
    EACH(row, rows) {
        memcpy(memory, &row->type_len, 4);
        memcpy(memory + 4, row->rest, strlen(row->rest));
        CHECK_EQ(through(&s, "post", AGENT_POST_SHOW, 0, 4 + strlen(row->rest), &result),
                 DOOR_RETURN);
        CHECK_EQ(result, row->taken ? 0 : UINT32_MAX);
    }
    const char *type;
    size_t len;
    CHECK_EQ(bru_result_artifact_count(s.run.result), 3);
    CHECK_STR(bru_result_artifact(s.run.result, 2, &type, &len), "1234567");
    CHECK_STR(type, "c/d");
    CHECK_EQ(len, 7);
    CHECK(bru_result_artifact(s.run.result, 3, &type, &len) == NULL);
    bru_result_free(s.run.result);
    session_drop(&s);
}

TEST(artifacts_have_a_ceiling_in_number) {
    bru_result *r = result_new();
    REQUIRE(r);
    size_t n = 0;
    while (n <= RESULT_ARTIFACTS_MAX && !result_add_artifact(r, 1 << 20, "a/b", 3, "", 0)) n++;
    CHECK_EQ(n, RESULT_ARTIFACTS_MAX);
    bru_result_free(r);
}

TEST(only_a_call_that_was_handed_out_takes_a_reply_and_only_one) {
    bru_session s;
    session_bare(&s);
    CHECK_EQ(calls_post(&s.calls, 1, "f", 1, "", 0), BRU_OK);
    CHECK_EQ(calls_reply(&s.calls, 1, true, "", 0, NULL), BRU_EINVAL);
    CHECK(calls_next(&s.calls) != NULL);
    CHECK_EQ(calls_reply(&s.calls, 2, true, "", 0, NULL), BRU_EINVAL);
    CHECK_EQ(calls_reply(&s.calls, 1, true, "", 0, NULL), BRU_OK);
    CHECK_EQ(calls_reply(&s.calls, 1, true, "", 0, NULL), BRU_EINVAL);
    session_drop(&s);
}

TEST(a_reply_beyond_the_ceiling_is_refused_and_the_call_stays_open) {
    bru_session s;
    session_bare(&s);
    bru_error err;
    CHECK_EQ(calls_post(&s.calls, 1, "f", 1, "", 0), BRU_OK);
    CHECK(calls_next(&s.calls) != NULL);
    CHECK_EQ(calls_reply(&s.calls, 1, true, memory, BRU_VALUE_MAX + 1, &err), BRU_ELIMIT);
    CHECK(strstr(err.message, "16777217"));
    CHECK_EQ(s.calls.replies.len, 0);
    CHECK_EQ(calls_reply(&s.calls, 1, false, "e", 1, NULL), BRU_OK);
    session_drop(&s);
}

TEST(take_copies_whole_replies_only) {
    bru_session s;
    session_bare(&s);
    uint32_t result;
    for (uint32_t id = 1; id <= 2; id++) {
        CHECK_EQ(calls_post(&s.calls, id, "f", 1, "", 0), BRU_OK);
        CHECK(calls_next(&s.calls) != NULL);
        CHECK_EQ(calls_reply(&s.calls, id, true, "abcd", 4, NULL), BRU_OK);
    }
    static const struct {
        uint64_t at, room;
        uint32_t want;
    } takes[] = { { 4090, 20, 0 }, { 0, 19, 0 }, { 0, 39, 20 }, { 0, 4096, 20 }, { 0, 4096, 0 } };
    EACH(row, takes) {
        CHECK_EQ(through(&s, "take", row->at, row->room, 0, &result), DOOR_RETURN);
        CHECK_EQ(result, row->want);
    }
    session_drop(&s);
}

TEST(a_wait_ends_with_its_time_with_replies_or_when_it_is_cut) {
    bru_session s;
    session_bare(&s);
    uint32_t result;
    CHECK_EQ(through(&s, "wait", 0, 0, 0, &result), DOOR_RETURN);
    CHECK_EQ(through(&s, "wait", UINT64_MAX, 0, 0, &result), DOOR_PARK);
    s.wait_cut = true;
    CHECK_EQ(through(&s, "wait", UINT64_MAX, 0, 0, &result), DOOR_RETURN);
    CHECK_EQ(through(&s, "wait", UINT64_MAX, 0, 0, &result), DOOR_PARK);
    CHECK_EQ(buf_append(&s.calls.replies, "12345678", 8), BRU_OK);
    CHECK_EQ(through(&s, "wait", UINT64_MAX, 0, 0, &result), DOOR_RETURN);
    CHECK_EQ(result, 8);
    session_drop(&s);
}

TEST(posting_survives_each_failed_allocation) {
    FAULT_SWEEP {
        bru_session s;
        session_bare(&s);
        bru_status st = calls_post(&s.calls, 1, "name", 4, "payload", 7);
        CHECK(st == BRU_OK || st == BRU_ENOMEM);
        CHECK_EQ(s.calls.open, st == BRU_OK);
        if (!st) {
            CHECK(calls_next(&s.calls) != NULL);
            st = calls_reply(&s.calls, 1, true, "reply", 5, NULL);
            CHECK_EQ(s.calls.open, st != BRU_OK);
        }
        session_drop(&s);
    }
}

TEST_MAIN
