/* Calls, doors, traps, parking, growth. */
#include "host.h"

#include <fenv.h>
#include <pthread.h>

TEST(a_call_returns_its_value) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    CHECK_EQ(call(i, "add", "ii:i", 40, 2, NULL).value, 42);
    CHECK_EQ(call(i, "call_echo", "i:i", 5, 0, NULL).value, 5);
    CHECK_EQ(call(i, "call_add", "Ii:I", 1ull << 40, 2, NULL).value, (1ll << 40) + 102);
    CHECK_EQ(w.echoes, 1);
    CHECK_EQ(instance_state_of(i), INSTANCE_REST);
    engine_report r;
    CHECK_EQ(engine_call(i, 10000, NULL, NULL, &r, &err), BRU_EINVAL);
    CHECK_EQ(engine_resume(i, NULL, &r, &err), BRU_ESTATE);
    instance_free(i);
}

static const struct {
    const char *name, *type;
    uint64_t a, b;
    engine_trap want;
} traps[] = {
    { "trap", "i:", 1, 0, ENGINE_TRAP_OOB },
    { "trap", "i:", 2, 0, ENGINE_TRAP_INT_OVERFLOW },
    { "trap", "i:", 3, 0, ENGINE_TRAP_DIV_BY_ZERO },
    { "trap", "i:", 4, 0, ENGINE_TRAP_INVALID_CONVERSION },
    { "trap", "i:", 5, 0, ENGINE_TRAP_UNREACHABLE },
    { "trap", "i:", 6, 0, ENGINE_TRAP_CALL_INDIRECT },
    { "trap", "i:", 7, 0, ENGINE_TRAP_OTHER },
    { "trap", "i:", 1234, 0, ENGINE_TRAP_OTHER },
    { "load", "ii:i", 2 * 65536, 0, ENGINE_TRAP_OOB },
    { "load", "ii:i", UINT32_MAX, 0, ENGINE_TRAP_OOB },
    { "load", "ii:i", UINT32_MAX, UINT32_MAX, ENGINE_TRAP_OOB },
    { "store", "ii:", UINT32_MAX - 1, 1, ENGINE_TRAP_OOB },
    { "divide", "ii:i", 1, 0, ENGINE_TRAP_DIV_BY_ZERO },
    { "illegal", ":", 0, 0, ENGINE_TRAP_UNREACHABLE },
    { "wild", "I:i", 16, 0, ENGINE_TRAP_FAULT },
    { "wild", "I:i", 0x7ffffffff000, 0, ENGINE_TRAP_FAULT },
    { "deep", "i:i", UINT32_MAX, 0, ENGINE_TRAP_STACK },
    { "deep_import", "i:i", UINT32_MAX, 0, ENGINE_TRAP_STACK },
};

TEST(every_trap_ends_the_call_and_a_reset_makes_good) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    EACH(t, traps) {
        engine_report r = call(i, t->name, t->type, t->a, t->b, NULL);
        CHECK_EQ(r.outcome, ENGINE_TRAPPED);
        CHECK_EQ(r.trap, t->want);
        CHECK(strlen(engine_trap_text(r.trap)) > 3);
        CHECK_EQ(instance_state_of(i), INSTANCE_DEAD);
        uint64_t args[2] = { 1, 2 };
        CHECK_EQ(engine_call(i, 0, args, NULL, &r, &err), BRU_ESTATE);
        CHECK_EQ(instance_reset(i, &err), BRU_OK);
        CHECK_EQ(call(i, "add", "ii:i", 40, 2, NULL).value, 42);
        CHECK_EQ(call(i, "count", ":I", 0, 0, NULL).value, 1001);
        CHECK_EQ(instance_reset(i, &err), BRU_OK);
    }
    instance_free(i);
}

/* The stack may end anywhere: in guest code, in the engine's import, in the trap itself. */
TEST(a_stack_that_ends_at_any_depth_is_a_trap) {
    world w = { 0 };
    for (size_t stack = 256u << 10; stack < (256u << 10) + 4 * 65536; stack += 65536) {
        instance *i = test_instance(&w, stack);
        for (int round = 0; round < 20; round++) {
            engine_report r = call(i, "deep_import", "i:i", UINT32_MAX - (unsigned)round, 0, NULL);
            CHECK_EQ(r.outcome, ENGINE_TRAPPED);
            CHECK_EQ(r.trap, ENGINE_TRAP_STACK);
            CHECK_EQ(instance_reset(i, &err), BRU_OK);
        }
        instance_free(i);
    }
}

TEST(a_door_can_end_the_guest) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_report r = call(i, "call_exit", "i:i", 3, 0, NULL);
    CHECK_EQ(r.outcome, ENGINE_STOPPED);
    CHECK_EQ(w.exit_code, 3);
    uint32_t cell;
    CHECK(gmem_get32(instance_memory(i), 0, &cell) && cell == 0);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    CHECK_EQ(call(i, "add", "ii:i", 1, 1, NULL).value, 2);
    instance_free(i);
}

/* ---- Parking --------------------------------------------------------------------------------- */

TEST(a_parked_call_goes_on_with_the_same_door) {
    world w = { .waits = 5 };
    instance *i = test_instance(&w, 0);
    engine_report r = call(i, "call_wait", "i:i", 3, 0, NULL);
    int parks = 0;
    for (; r.outcome == ENGINE_PARKED && parks < 100; parks++) {
        CHECK_EQ(instance_state_of(i), INSTANCE_PARKED);
        uint64_t none = 0;
        engine_report refused;
        CHECK_EQ(engine_call(i, 0, &none, NULL, &refused, &err), BRU_ESTATE);
        CHECK_EQ(engine_resume(i, NULL, &r, &err), BRU_OK);
    }
    CHECK_EQ(parks, 5);
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    CHECK_EQ(r.value, 3 * 7 + 3);
    instance_free(i);
}

static void *resume_once(void *ctx) {
    world *w = ctx;
    static engine_report r;
    CHECK_EQ(engine_resume(w->i, NULL, &r, &err), BRU_OK);
    return &r;
}

TEST(a_parked_call_goes_on_on_other_threads) {
    world w = { .waits = 10 };
    instance *i = test_instance(&w, 0);
    engine_report r = call(i, "call_wait", "i:i", 4, 0, NULL);
    while (r.outcome == ENGINE_PARKED) {
        pthread_t thread;
        void *report = NULL;
        REQUIRE(pthread_create(&thread, NULL, resume_once, &w) == 0);
        pthread_join(thread, &report);
        r = *(engine_report *)report;
    }
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    CHECK_EQ(r.value, 4 * 7 + 4);
    instance_free(i);
}

TEST(a_parked_call_can_be_given_up) {
    world w = { .waits = 1000 };
    instance *i = test_instance(&w, 0);
    for (int round = 0; round < 100; round++) {
        CHECK_EQ(call(i, "call_wait", "i:i", 1, 0, NULL).outcome, ENGINE_PARKED);
        CHECK_EQ(instance_reset(i, &err), BRU_OK);
    }
    CHECK_EQ(call(i, "call_wait", "i:i", 1, 0, NULL).outcome, ENGINE_PARKED);
    instance_free(i);
}

/* ---- Nesting --------------------------------------------------------------------------------- */

static uint64_t nested(world *w, gmem mem, uint64_t value) {
    (void)mem;
    uint64_t args[1] = { 1 };
    engine_report r;
    CHECK_EQ(engine_call(w->i, 0, args, NULL, &r, &err), BRU_EBUSY);
    CHECK_EQ(instance_reset(w->i, &err), BRU_EBUSY);
    if (value == 0) return 1;
    world inner = { .on_echo = nested };
    instance *i = test_instance(&inner, 0);
    r = call(i, "call_echo", "i:i", value - 1, 0, NULL);
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    CHECK_EQ(call(i, "load", "ii:i", UINT32_MAX, 0, NULL).trap, ENGINE_TRAP_OOB);
    instance_free(i);
    return 2 * r.value;
}

TEST(a_door_may_run_other_instances_but_not_its_own) {
    world w = { .on_echo = nested };
    instance *i = test_instance(&w, 0);
    CHECK_EQ(call(i, "call_echo", "i:i", 5, 0, NULL).value, 32);
    instance_free(i);
}

/* ---- Growth ---------------------------------------------------------------------------------- */

TEST(memory_grows_up_to_its_limit_and_no_further) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    instance_memory_limit(i, 10 * 65536);
    CHECK_EQ(call(i, "grow", "i:i", 0, 0, NULL).value, 2);
    CHECK_EQ(call(i, "grow", "i:i", 8, 0, NULL).value, 2);
    CHECK_EQ(call(i, "store", "ii:", 10 * 65536 - 4, 1, NULL).outcome, ENGINE_RETURNED);
    CHECK(!instance_usage_of(i).grow_refused);
    CHECK_EQ((int64_t)call(i, "grow", "i:i", 1, 0, NULL).value, -1);
    CHECK(instance_usage_of(i).grow_refused);
    CHECK_EQ(instance_usage_of(i).memory_peak, 10 * 65536);
    instance_usage_clear(i);
    CHECK(!instance_usage_of(i).grow_refused);
    instance_memory_limit(i, 0);
    static const uint64_t absurd[] = { 991, 65536, UINT32_MAX, UINT64_MAX, UINT64_MAX / 65536 };
    EACH(pages, absurd) CHECK_EQ((int64_t)call(i, "grow", "i:i", *pages, 0, NULL).value, -1);
    CHECK_EQ(call(i, "grow", "i:i", 990, 0, NULL).value, 10);
    CHECK_EQ(call(i, "load", "ii:i", 1000 * 65536, 0, NULL).trap, ENGINE_TRAP_OOB);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    CHECK_EQ(instance_memory(i).size, 2 * 65536);
    CHECK_EQ(instance_grow(i, 5 * 65536, &err), BRU_OK);
    CHECK_EQ(call(i, "grow", "i:i", 0, 0, NULL).value, 5);
    instance_free(i);
}

TEST(an_instance_beyond_its_limit_is_refused) {
    guest_link *l = test_link();
    instance *i = NULL;
    instance_options opt = { .size = sizeof opt, .memory_limit = 65536 };
    CHECK_EQ(instance_new(l, NULL, NULL, 0, &opt, &i, &err), BRU_ELIMIT);
    CHECK(!i);
    guest_link_unref(l);
}

/* ---- Threads, floating point ----------------------------------------------------------------- */

enum { THREADS = 2, EACH_HAS = 20, ROUNDS = 200 };

static void *many(void *ctx) {
    (void)ctx;
    static _Atomic unsigned bad;
    world w[EACH_HAS] = { 0 };
    for (int n = 0; n < EACH_HAS; n++) test_instance(&w[n], 0);
    uint32_t echo = export_number("call_echo", "i:i"), load = export_number("load", "ii:i");
    for (int n = 0; n < ROUNDS * EACH_HAS; n++) {
        instance *i = w[n % EACH_HAS].i;
        uint64_t args[2] = { n % 7 ? (uint64_t)n : UINT32_MAX, 0 };
        engine_report r;
        bru_status st = engine_call(i, n % 7 ? echo : load, args, NULL, &r, NULL);
        bool fine = n % 7 ? r.value == args[0] : r.trap == ENGINE_TRAP_OOB;
        if (st || !fine || (n % 7 == 0 && instance_reset(i, NULL))) bad++;
    }
    for (int n = 0; n < EACH_HAS; n++) instance_free(w[n].i);
    return (void *)&bad;
}

TEST(threads_run_many_instances_side_by_side) {
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++) REQUIRE(!pthread_create(&threads[n], NULL, many, NULL));
    for (int n = 0; n < THREADS; n++) {
        void *bad = NULL;
        pthread_join(threads[n], &bad);
        CHECK_EQ(*(_Atomic unsigned *)bad, 0);
    }
}

static uint64_t look_at_rounding(world *w, gmem mem, uint64_t value) {
    (void)w;
    (void)mem;
    return value + (fegetround() == FE_UPWARD);
}

TEST(guests_round_to_nearest_whatever_the_host_does) {
    world w = { .on_echo = look_at_rounding };
    instance *i = test_instance(&w, 0);
    uint64_t nearest = call(i, "third", "i:F", 3, 0, NULL).value;
    fesetround(FE_UPWARD);
    CHECK_EQ(call(i, "third", "i:F", 3, 0, NULL).value, nearest);
    CHECK_EQ(call(i, "call_echo", "i:i", 1, 0, NULL).value, 2);
    CHECK_EQ(call(i, "load", "ii:i", UINT32_MAX, 0, NULL).trap, ENGINE_TRAP_OOB);
    CHECK_EQ(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    instance_free(i);
}

TEST_MAIN
