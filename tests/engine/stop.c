/* Deadlines, CPU time, interrupts; soft and hard. */
#include "host.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull

static engine_limits in_ms(uint64_t ms) {
    return (engine_limits){ .deadline = clock_monotonic() + ms * MS };
}

/* What spin_until_told waits for, and a value beside it. */
static engine_soft tell(uint32_t value) {
    return (engine_soft){ 2, { { 68, value, false }, { 64, 4, true } } };
}

static const struct {
    const char *name, *type;
    uint64_t a;
} loops[] = {
    { "spin", ":", 0 },
    { "spin_until_told", ":i", 0 },
    { "spin_in_doors", "i:i", 1 },
    { "spin_in_memmove", "i:", 60000 },
};

TEST(a_deadline_ends_every_loop_and_a_reset_makes_good) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    EACH(l, loops) {
        for (int round = 0; round < 10; round++) {
            uint64_t start = clock_monotonic();
            engine_limits limits = in_ms(10);
            engine_report r = call(i, l->name, l->type, l->a, 0, &limits);
            uint64_t took = clock_monotonic() - start;
            CHECK_EQ(r.outcome, ENGINE_HARD_STOP);
            CHECK(took >= 9 * MS && took < 3000 * MS);
            CHECK_EQ(instance_state_of(i), INSTANCE_DEAD);
            CHECK_EQ(instance_reset(i, &err), BRU_OK);
            CHECK_EQ(call(i, "load", "ii:i", 16, 0, NULL).value, 'd');
        }
    }
    instance_free(i);
}

TEST(cpu_time_is_limited_and_told) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits limits = { .cpu = 20 * MS };
    engine_report r = call(i, "spin", ":", 0, 0, &limits);
    CHECK_EQ(r.outcome, ENGINE_CPU_STOP);
    CHECK(r.cpu_used >= 20 * MS && r.cpu_used < 3000 * MS);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    r = call(i, "add", "ii:i", 1, 2, &limits);
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    CHECK(r.cpu_used > 0 && r.cpu_used < 20 * MS);
    instance_free(i);
}

TEST(a_limit_that_has_passed_ends_the_call_at_once) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits past = { .deadline = 1 };
    CHECK_EQ(call(i, "spin", ":", 0, 0, &past).outcome, ENGINE_HARD_STOP);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    instance_free(i);
}

/* Short calls leave the timer armed; it must serve the later call that needs it. */
TEST(a_call_after_many_short_ones_is_stopped_in_time) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    for (int n = 0; n < 100; n++) {
        engine_limits far = in_ms(n % 2 ? 30000 : 1 + (unsigned)n % 7);
        CHECK_EQ(call(i, "add", "ii:i", 1, 2, &far).value, 3);
        if (n % 20 == 0) usleep(9000);
    }
    for (unsigned ms = 1; ms < 40; ms += 9) {
        engine_limits near = in_ms(ms);
        uint64_t start = clock_monotonic();
        CHECK_EQ(call(i, "spin", ":", 0, 0, &near).outcome, ENGINE_HARD_STOP);
        CHECK(clock_monotonic() - start < (ms + 2000) * MS);
        CHECK_EQ(instance_reset(i, &err), BRU_OK);
    }
    instance_free(i);
}

/* ---- Doors ----------------------------------------------------------------------------------- */

static uint64_t slow(world *w, gmem mem, uint64_t value) {
    (void)w;
    (void)mem;
    uint64_t end = clock_monotonic() + value * MS;
    while (clock_monotonic() < end) continue;
    return 0;
}

TEST(a_door_is_never_cut_off) {
    world w = { .on_echo = slow };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(5);
    uint64_t start = clock_monotonic();
    engine_report r = call(i, "call_echo", "i:i", 40, 0, &limits);
    CHECK(clock_monotonic() - start >= 40 * MS);
    CHECK_EQ(r.outcome, ENGINE_HARD_STOP);
    instance_free(i);
}

TEST(a_parked_call_is_held_to_the_limits_of_its_resume) {
    world w = { .waits = 1 };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(5);
    engine_report r = call(i, "call_wait", "i:i", 1, 0, &limits);
    CHECK_EQ(r.outcome, ENGINE_PARKED);
    usleep(20000);
    CHECK_EQ(engine_resume(i, NULL, &r, &err), BRU_OK);
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    w.waits = 1;
    CHECK_EQ(call(i, "call_wait", "i:i", 1, 0, NULL).outcome, ENGINE_PARKED);
    limits = in_ms(0);
    usleep(1000);
    w.waits = 1000000000;
    do CHECK_EQ(engine_resume(i, &limits, &r, &err), BRU_OK);
    while (r.outcome == ENGINE_PARKED);
    CHECK_EQ(r.outcome, ENGINE_HARD_STOP);
    instance_free(i);
}

/* ---- Soft stops ------------------------------------------------------------------------------ */

TEST(a_soft_stop_lets_the_guest_end_itself) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    for (uint32_t n = 1; n < 20; n++) {
        engine_limits limits = in_ms(2);
        limits.grace = 2000 * MS;
        limits.soft_deadline = tell(n);
        engine_report r = call(i, "spin_until_told", ":i", 0, 0, &limits);
        CHECK_EQ(r.outcome, ENGINE_RETURNED);
        CHECK_EQ(r.value, n);
        CHECK(r.soft_fired);
        CHECK_EQ(call(i, "store", "ii:", 64, 0, NULL).outcome, ENGINE_RETURNED);
    }
    engine_limits limits = { .cpu = 2 * MS, .grace = 2000 * MS, .soft_cpu = tell(33) };
    CHECK_EQ(call(i, "spin_until_told", ":i", 0, 0, &limits).value, 33);
    instance_free(i);
}

TEST(a_guest_that_does_not_listen_is_ended_after_the_grace) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(5);
    limits.grace = 20 * MS;
    limits.soft_deadline = tell(1);
    uint64_t start = clock_monotonic();
    engine_report r = call(i, "spin", ":", 0, 0, &limits);
    uint64_t took = clock_monotonic() - start;
    CHECK_EQ(r.outcome, ENGINE_HARD_STOP);
    CHECK(r.soft_fired);
    CHECK(took >= 24 * MS && took < 3000 * MS);
    uint32_t told;
    CHECK(gmem_get32(instance_memory(i), 68, &told) && told == 1);
    instance_free(i);
}

TEST(stores_outside_of_memory_or_unaligned_are_skipped) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(2);
    limits.grace = 1000 * MS;
    limits.soft_deadline = (engine_soft){ ENGINE_STORES,
                                          { { 2 * 65536, 1, false },
                                            { UINT32_MAX - 3, 1, true },
                                            { 2 * 65536 - 2, 1, false },
                                            { 65, 1, false },
                                            { 68, 12, false },
                                            { 64, 1, true } } };
    engine_report r = call(i, "spin_until_told", ":i", 0, 0, &limits);
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    CHECK_EQ(r.value, 12);
    instance_free(i);
}

static uint64_t ask_for_time(world *w, gmem mem, uint64_t value) {
    (void)mem;
    if (w->waits == 0 && engine_soft_ack(w->i, value * MS)) {
        w->waits = 1;
        CHECK(!engine_soft_ack(w->i, value * MS));
    }
    return 0;
}

TEST(a_guest_may_ask_once_for_more_time_after_a_soft_stop) {
    world w = { .on_echo = ask_for_time };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(5);
    limits.grace = 10 * MS;
    limits.soft_deadline = tell(1);
    uint64_t start = clock_monotonic();
    CHECK_EQ(call(i, "spin_in_doors", "i:i", 60, 0, &limits).outcome, ENGINE_HARD_STOP);
    uint64_t took = clock_monotonic() - start;
    CHECK_EQ(w.waits, 1);
    CHECK(took >= 60 * MS && took < 3000 * MS);
    instance_free(i);
}

/* ---- Interrupts ------------------------------------------------------------------------------ */

typedef struct interrupter {
    instance *i;
    useconds_t after;
    uint64_t grace;
} interrupter;

static void *interrupt(void *ctx) {
    interrupter *n = ctx;
    usleep(n->after);
    engine_interrupt(n->i, n->grace);
    return NULL;
}

TEST(an_interrupt_reaches_the_call_from_another_thread) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    EACH(l, loops) {
        for (useconds_t after = 0; after < 3000; after += 300) {
            interrupter n = { i, after, 0 };
            pthread_t thread;
            REQUIRE(pthread_create(&thread, NULL, interrupt, &n) == 0);
            engine_report r = call(i, l->name, l->type, l->a, 0, NULL);
            pthread_join(thread, NULL);
            CHECK_EQ(r.outcome, ENGINE_INTERRUPTED);
            CHECK_EQ(instance_reset(i, &err), BRU_OK);
            CHECK_EQ(call(i, "add", "ii:i", 1, 2, NULL).value, 3);
        }
    }
    instance_free(i);
}

TEST(a_soft_interrupt_lets_the_guest_end_itself) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits limits = { .soft_interrupt = tell(44) };
    interrupter n = { i, 2000, 2000 * MS };
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, interrupt, &n) == 0);
    engine_report r = call(i, "spin_until_told", ":i", 0, 0, &limits);
    pthread_join(thread, NULL);
    CHECK_EQ(r.outcome, ENGINE_RETURNED);
    CHECK_EQ(r.value, 44);
    CHECK(r.soft_fired);
    CHECK_EQ(call(i, "store", "ii:", 64, 0, NULL).outcome, ENGINE_RETURNED);
    n.after = 1000;
    n.grace = 10 * MS;
    REQUIRE(pthread_create(&thread, NULL, interrupt, &n) == 0);
    CHECK_EQ(call(i, "spin", ":", 0, 0, &limits).outcome, ENGINE_INTERRUPTED);
    pthread_join(thread, NULL);
    instance_free(i);
}

TEST(a_wish_waits_for_the_next_call_unless_it_is_cleared) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_interrupt(i, 0);
    CHECK_EQ(call(i, "add", "ii:i", 1, 2, NULL).outcome, ENGINE_INTERRUPTED);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    CHECK_EQ(call(i, "add", "ii:i", 1, 2, NULL).outcome, ENGINE_RETURNED);
    engine_interrupt(i, 0);
    engine_interrupt_clear(i);
    CHECK_EQ(call(i, "add", "ii:i", 1, 2, NULL).outcome, ENGINE_RETURNED);
    instance_free(i);
}

/* ---- Nesting, forking ------------------------------------------------------------------------ */

static uint64_t run_inner(world *w, gmem mem, uint64_t value) {
    (void)mem;
    (void)value;
    world inner = { 0 };
    instance *i = test_instance(&inner, 0);
    engine_limits limits = in_ms(5);
    CHECK_EQ(call(i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    instance_free(i);
    w->waits++;
    return 0;
}

TEST(the_deadlines_of_nested_calls_are_kept_apart) {
    world w = { .on_echo = run_inner };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(400);
    CHECK_EQ(call(i, "spin_in_doors", "i:i", 1, 0, &limits).outcome, ENGINE_HARD_STOP);
    CHECK(w.waits > 0);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
    limits = in_ms(2);
    w.waits = 0;
    CHECK_EQ(call(i, "spin_in_doors", "i:i", 1, 0, &limits).outcome, ENGINE_HARD_STOP);
    CHECK(w.waits <= 1);
    instance_free(i);
}

/* In the child, exits 0 if all is well; in the parent, answers whether it was. */
static bool in_child(bool (*body)(world *w), world *w) {
    pid_t child = fork();
    if (child == 0) _exit(body(w) ? 0 : 1);
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool child_runs(world *w) {
    instance *i = w->i;
    engine_limits limits = in_ms(10);
    bool fine = call(i, "add", "ii:i", 1, 2, &limits).value == 3;
    fine = fine && call(i, "spin", ":", 0, 0, &limits).outcome == ENGINE_HARD_STOP;
    fine = fine && instance_reset(i, &err) == BRU_OK;
    fine = fine && call(i, "load", "ii:i", UINT32_MAX, 0, NULL).trap == ENGINE_TRAP_OOB;
    fine = fine && instance_reset(i, &err) == BRU_OK;
    return fine && call(i, "count", ":I", 0, 0, NULL).value == 1001;
}

TEST(a_forked_child_has_a_working_engine) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits far = in_ms(30000);
    CHECK_EQ(call(i, "count", ":I", 0, 0, &far).value, 1001);
    CHECK(in_child(child_runs, &w));
    CHECK_EQ(call(i, "count", ":I", 0, 0, &far).value, 1002);
    CHECK(child_runs(&w));
    instance_free(i);
}

static uint64_t fork_here(world *w, gmem mem, uint64_t value) {
    (void)mem;
    if (w->waits++ == 0) w->exit_code = fork() == 0;
    return value == 5 ? 5 : 0;
}

/* The child's own timer has to end its copy of the call. */
TEST(a_call_in_whose_door_a_process_forks_is_stopped_in_both) {
    world w = { .on_echo = fork_here };
    instance *i = test_instance(&w, 0);
    engine_limits limits = in_ms(20);
    engine_report r = call(i, "spin_in_doors", "i:i", 1, 0, &limits);
    if (w.exit_code) _exit(r.outcome == ENGINE_HARD_STOP ? 0 : 1);
    CHECK_EQ(r.outcome, ENGINE_HARD_STOP);
    int status = -1;
    wait(&status);
    CHECK_EQ(status, 0);
    instance_free(i);
}

static void *spin_elsewhere(void *ctx) {
    engine_limits limits = in_ms(300);
    CHECK_EQ(call(((world *)ctx)->i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    return NULL;
}

static bool child_takes_over(world *w) {
    return instance_state_of(w->i) == INSTANCE_DEAD && instance_reset(w->i, &err) == BRU_OK &&
           call(w->i, "add", "ii:i", 1, 2, NULL).value == 3;
}

TEST(a_call_of_a_thread_that_did_not_fork_is_dead_in_the_child) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, spin_elsewhere, &w) == 0);
    while (instance_state_of(i) != INSTANCE_RUNNING) usleep(100);
    usleep(10000);
    CHECK(in_child(child_takes_over, &w));
    pthread_join(thread, NULL);
    instance_free(i);
}

/* A new thread has to be given an alternate stack and a timer, each of which may be refused. */
static void *first_call_fails(void *ctx) {
    world *w = ctx;
    uint32_t add = export_number("add", "ii:i");
    uint64_t args[2] = { 1, 2 };
    FAULT_SWEEP {
        engine_limits limits = in_ms(10000);
        engine_report r = { .value = 0 };
        bru_status st = engine_call(w->i, add, args, &limits, &r, &err);
        CHECK(st == BRU_OK || st == BRU_ENOMEM || st == BRU_ELIMIT);
        CHECK_EQ(r.value, st ? 0 : 3);
        CHECK_EQ(instance_state_of(w->i), INSTANCE_REST);
        w->waits++;
    }
    return NULL;
}

TEST(the_first_call_of_a_thread_survives_each_failure) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, first_call_fails, &w) == 0);
    pthread_join(thread, NULL);
    CHECK(w.waits >= 3);
    instance_free(i);
}

static void *one_stop(void *ctx) {
    engine_limits limits = in_ms(1);
    world *w = ctx;
    CHECK_EQ(call(w->i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    CHECK_EQ(instance_reset(w->i, &err), BRU_OK);
    return NULL;
}

/* Timers count against a limit of the system: a thread that leaked its own would show. */
TEST(threads_give_their_timers_back) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    for (int n = 0; n < 200; n++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, one_stop, &w) == 0);
        pthread_join(thread, NULL);
    }
    FILE *f = fopen("/proc/self/timers", "r");
    unsigned timers = 0;
    for (int c = f ? getc(f) : EOF; c != EOF; c = getc(f)) timers += c == '\n';
    if (f) fclose(f);
    CHECK(timers < 40);
    instance_free(i);
}

#if defined(UNDER_TSAN)
int main(void) {
    (void)test_main;
    puts("skipped: ThreadSanitizer holds signals back");
    return 77;
}
#else
TEST_MAIN
#endif
