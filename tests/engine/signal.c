/* Living with the embedder's signal handlers. Each body runs in a process of its own, since
 * handlers are the process's. */
#define _GNU_SOURCE
#include "host.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int in_child(void (*body)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        /* A sanitizer's handlers are not ours to test. */
        static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
        EACH(s, faults) signal(*s, SIG_DFL);
        body();
        _exit(test_failures ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static int exited(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int killed_by(int status) {
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static volatile char *nowhere(void) {
    return mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static sigjmp_buf back;
static volatile int seen;

static void embedder(int signal) {
    seen = signal;
    siglongjmp(back, 1);
}

static void trap_once(instance *i) {
    CHECK_EQ(call(i, "load", "ii:i", UINT32_MAX, 0, NULL).trap, ENGINE_TRAP_OOB);
    CHECK_EQ(instance_reset(i, &err), BRU_OK);
}

/* ---- Faults that are not the guest's --------------------------------------------------------- */

static void host_fault_with_handler(void) {
    signal(SIGSEGV, embedder);
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    for (int round = 0; round < 3; round++) {
        trap_once(i);
        seen = 0;
        if (sigsetjmp(back, 1) == 0) *nowhere() = 1;
        CHECK_EQ(seen, SIGSEGV);
    }
    instance_free(i);
}

TEST(a_fault_of_the_host_goes_to_the_embedders_handler) {
    CHECK_EQ(exited(in_child(host_fault_with_handler)), 0);
}

static void host_fault(void) {
    world w = { 0 };
    trap_once(test_instance(&w, 0));
    *nowhere() = 1;
}

TEST(a_fault_of_the_host_without_handler_kills_as_ever) {
    CHECK_EQ(killed_by(in_child(host_fault)), SIGSEGV);
}

static uint64_t bad_door(world *w, gmem mem, uint64_t value) {
    (void)w;
    if (value == 1)
        mem.base[mem.size + 10] = 1; /* a host bug must not pass for a trap */
    else
        *nowhere() = 1;
    return 0;
}

static void door_fault(void) {
    world w = { .on_echo = bad_door };
    call(test_instance(&w, 0), "call_echo", "i:i", 1, 0, NULL);
}

static void door_fault_elsewhere(void) {
    world w = { .on_echo = bad_door };
    call(test_instance(&w, 0), "call_echo", "i:i", 2, 0, NULL);
}

TEST(a_fault_in_a_door_is_the_hosts) {
    CHECK_EQ(killed_by(in_child(door_fault)), SIGSEGV);
    CHECK_EQ(killed_by(in_child(door_fault_elsewhere)), SIGSEGV);
}

static void sent_signal(void) {
    world w = { 0 };
    trap_once(test_instance(&w, 0));
    raise(SIGFPE);
}

TEST(a_fault_signal_that_was_sent_has_its_effect) {
    CHECK_EQ(killed_by(in_child(sent_signal)), SIGFPE);
}

static void ignored_signal(void) {
    signal(SIGFPE, SIG_IGN);
    world w = { 0 };
    trap_once(test_instance(&w, 0));
    raise(SIGFPE);
}

TEST(a_fault_signal_that_was_sent_and_ignored_stays_so) {
    CHECK_EQ(exited(in_child(ignored_signal)), 0);
}

/* ---- The embedder's handlers during guest code ----------------------------------------------- */

static volatile sig_atomic_t ticks, unfinished;

/* Slower than the deadline is away, without a stack of its own: the stop must not cut it off. */
static void slow_tick(int signal) {
    (void)signal;
    unfinished++;
    uint64_t end = clock_monotonic() + 3000000;
    while (clock_monotonic() < end) continue;
    unfinished--;
    ticks++;
}

static void ticking(void) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    struct sigaction action = { .sa_handler = slow_tick, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, NULL);
    for (int round = 0; round < 20; round++) {
        ualarm(4000, 0);
        engine_limits limits = { .deadline = clock_monotonic() + 5000000 };
        engine_report r = call(i, "spin", ":", 0, 0, &limits);
        CHECK_EQ(r.outcome, ENGINE_HARD_STOP);
        CHECK_EQ(unfinished, 0);
        CHECK_EQ(instance_reset(i, &err), BRU_OK);
        CHECK_EQ(call(i, "load", "ii:i", 16, 0, NULL).value, 'd');
    }
    CHECK(ticks >= 20);
}

TEST(a_handler_of_the_embedder_above_guest_code_is_not_cut_off) {
    CHECK_EQ(exited(in_child(ticking)), 0);
}

static char other_stack[1 << 16];

static void own_altstack(void) {
    stack_t mine = { .ss_sp = other_stack, .ss_size = sizeof other_stack }, now;
    sigaltstack(&mine, NULL);
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    CHECK_EQ(call(i, "deep", "i:i", UINT32_MAX, 0, NULL).trap, ENGINE_TRAP_STACK);
    sigaltstack(NULL, &now);
    CHECK(now.ss_sp == other_stack && now.ss_size == sizeof other_stack);
}

TEST(the_embedders_alternate_stack_is_kept) {
    CHECK_EQ(exited(in_child(own_altstack)), 0);
}

static void blocked_signals(void) {
    sigset_t all, now;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    trap_once(i);
    engine_limits limits = { .deadline = clock_monotonic() + 5000000 };
    CHECK_EQ(call(i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGALRM) && sigismember(&now, SIGTERM));
}

TEST(a_thread_that_blocks_all_signals_can_still_be_stopped) {
    CHECK_EQ(exited(in_child(blocked_signals)), 0);
}

static void mask_is_kept(void) {
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    sigset_t before, after;
    trap_once(i);
    sigprocmask(SIG_BLOCK, NULL, &before);
    trap_once(i);
    engine_limits limits = { .deadline = clock_monotonic() + 2000000 };
    CHECK_EQ(call(i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    sigprocmask(SIG_BLOCK, NULL, &after);
    for (int s = 1; s <= SIGRTMAX; s++) CHECK_EQ(sigismember(&before, s), sigismember(&after, s));
}

TEST(a_stop_leaves_the_signal_mask_as_it_was) {
    CHECK_EQ(exited(in_child(mask_is_kept)), 0);
}

/* ---- The stop signal ------------------------------------------------------------------------- */

static void taken_signal(void) {
    signal(SIGRTMAX - 2, embedder);
    world w = { 0 };
    CHECK_EQ(engine_signal_choose(SIGRTMAX - 2, &err), BRU_EINVAL);
    CHECK_EQ(engine_signal_choose(SIGTERM, &err), BRU_EINVAL);
    instance *i = test_instance(&w, 0);
    engine_limits limits = { .deadline = clock_monotonic() + 2000000 };
    CHECK_EQ(call(i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    CHECK_EQ(engine_signal_choose(SIGRTMIN, &err), BRU_ESTATE);
    struct sigaction now;
    sigaction(SIGRTMAX - 2, NULL, &now);
    CHECK(now.sa_handler == embedder);
}

TEST(a_signal_that_the_embedder_uses_is_left_alone) {
    CHECK_EQ(exited(in_child(taken_signal)), 0);
}

static void chosen_signal(void) {
    CHECK_EQ(engine_signal_choose(SIGRTMIN + 3, &err), BRU_OK);
    world w = { 0 };
    instance *i = test_instance(&w, 0);
    engine_limits limits = { .deadline = clock_monotonic() + 2000000 };
    CHECK_EQ(call(i, "spin", ":", 0, 0, &limits).outcome, ENGINE_HARD_STOP);
    struct sigaction now;
    sigaction(SIGRTMIN + 3, NULL, &now);
    CHECK(now.sa_flags & SA_SIGINFO);
    raise(SIGRTMIN + 3); /* out of the blue: nothing happens */
}

TEST(the_stop_signal_can_be_chosen) {
    CHECK_EQ(exited(in_child(chosen_signal)), 0);
}

/* ---- Files that are cut short ---------------------------------------------------------------- */

static void lost_image(void) {
    char path[] = "/tmp/brumate-test-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    REQUIRE(ftruncate(fd, 8 * 65536) == 0);
    world w = { 0 };
    instance *i = test_instance(&w, 0), *j = NULL;
    buf globals;
    buf_init(&globals, 4096);
    CHECK_EQ(instance_globals(i, &globals, &err), BRU_OK);
    mem_image *im = NULL;
    REQUIRE(mem_image_open(fd, 0, 8 * 65536, &im, &err) == BRU_OK);
    guest_link *l = test_link();
    REQUIRE(instance_new(l, im, globals.data, globals.len, NULL, &j, &err) == BRU_OK);
    CHECK_EQ(call(j, "load", "ii:i", 5 * 65536, 0, NULL).value, 0);
    CHECK_EQ(ftruncate(fd, 65536), 0);
    CHECK_EQ(call(j, "load", "ii:i", 5 * 65536, 0, NULL).trap, ENGINE_TRAP_IMAGE);
    CHECK_EQ(instance_reset(j, &err), BRU_EIO);
    CHECK_EQ(instance_state_of(j), INSTANCE_DEAD);
    instance_free(j);
    instance_free(i);
}

TEST(an_image_cut_short_under_a_running_guest_is_a_trap) {
    CHECK_EQ(exited(in_child(lost_image)), 0);
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
