/* Signals: faults of guest code become traps, the stop signal ends calls, and whatever is not ours
 * goes to whoever had the handler before.
 *
 * Both handlers end a call in the same way: they change where the thread goes on after the handler
 * to the host's side of the stack switch, and return. The kernel then restores the signal mask and
 * leaves the alternate stack, so that the way out needs no system call of its own. Guest frames
 * own nothing of the host, so nothing is lost with them. */
#define _GNU_SOURCE
#include "internal.h"
#include "switch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/os_memory.h"

#if !defined(AT_MINSIGSTKSZ)
#define AT_MINSIGSTKSZ 51
#endif

#if defined(__x86_64__)
static const int fault_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
#else /* the compiler's trap instruction is a breakpoint here */
static const int fault_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
#endif
#define FAULTS (sizeof fault_signals / sizeof *fault_signals)

/* The process's, as signal dispositions are. Written once, before any guest runs. */
static struct sigaction before[FAULTS]; /* who had the handlers */
static atomic_int stop_signal;          /* 0 = not chosen */
static atomic_bool installed;
static atomic_uint epoch;

/* ---- Changing where a thread goes on -------------------------------------------------------- */

#if defined(__x86_64__)
static uintptr_t context_pc(const ucontext_t *uc) {
    return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
}
static void context_set(ucontext_t *uc, uintptr_t pc, uintptr_t sp, int result) {
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    uc->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
    uc->uc_mcontext.gregs[REG_RAX] = result;
}
#else
static uintptr_t context_pc(const ucontext_t *uc) {
    return (uintptr_t)uc->uc_mcontext.pc;
}
static void context_set(ucontext_t *uc, uintptr_t pc, uintptr_t sp, int result) {
    uc->uc_mcontext.pc = pc;
    uc->uc_mcontext.sp = sp;
    uc->uc_mcontext.regs[0] = (unsigned)result;
    uc->uc_mcontext.pstate &= ~(3ull << 10); /* the interrupted code's pending branch type */
}
#endif

/* After the handler the thread goes on at the host's side. Our signals are unblocked there even if
 * a handler of ours was interrupted itself. */
static void leave_guest(instance *i, ucontext_t *uc, switch_code code) {
    i->run.in_guest = 0;
    context_set(uc, (uintptr_t)switch_land, (uintptr_t)i->host_sp, (int)code);
    sigdelset(&uc->uc_sigmask, stop_signal);
    for (size_t n = 0; n < FAULTS; n++) sigdelset(&uc->uc_sigmask, fault_signals[n]);
}

static bool in_text(const instance *i, uintptr_t pc) {
    return pc >= i->link->g->text_low && pc < i->link->g->text_high;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static bool in_slot(const instance *i, uintptr_t at) {
    return at >= (uintptr_t)i->at.low && at < (uintptr_t)i->at.high;
}

static engine_trap trap_of(const instance *i, int signal, uintptr_t at) {
    if (signal == SIGFPE) return ENGINE_TRAP_DIV_BY_ZERO;
    if (signal == SIGILL || signal == SIGTRAP) return ENGINE_TRAP_UNREACHABLE;
    if (!in_slot(i, at)) return ENGINE_TRAP_FAULT;
    if (at < (uintptr_t)i->at.stack_low) return ENGINE_TRAP_STACK;
    if (at < (uintptr_t)i->at.memory) return ENGINE_TRAP_FAULT;
    return signal == SIGBUS ? ENGINE_TRAP_IMAGE : ENGINE_TRAP_OOB;
}

/* Whether the fault is the guest's: it runs, and either the address is in its slot, by whatever
 * code (it calls memcpy), or the instruction is its own. */
static bool fault_is_ours(const instance *i, int signal, const siginfo_t *info, uintptr_t pc) {
    if (!i || !i->run.in_guest || info->si_code <= 0) return false;
    bool memory = signal == SIGSEGV || signal == SIGBUS;
    return in_text(i, pc) || (memory && in_slot(i, (uintptr_t)info->si_addr));
}

/* Lets the default action happen: the faulting instruction is run again, a signal that was sent is
 * sent again. */
static void fall_to_default(int signal, const siginfo_t *info) {
    struct sigaction plain;
    memset(&plain, 0, sizeof plain);
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, NULL);
    if (info->si_code <= 0) raise(signal);
}

static void pass_on(int signal, siginfo_t *info, void *uc) {
    size_t n = 0;
    while (n < FAULTS - 1 && fault_signals[n] != signal) n++;
    struct sigaction *old = &before[n];
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(signal, info, uc);
    } else if (old->sa_handler == SIG_IGN && info->si_code <= 0) {
        return;
    } else if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
        fall_to_default(signal, info);
    } else {
        old->sa_handler(signal);
    }
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    thread_state *t = thread_now();
    instance *i = t ? t->top : NULL;
    if (!fault_is_ours(i, signal, info, context_pc(uc))) {
        pass_on(signal, info, context);
        return;
    }
    /* Memory that was closed to stop the guest looks like a fault of its own. */
    if (!i->run.mark) i->trap = (int)trap_of(i, signal, (uintptr_t)info->si_addr);
    leave_guest(i, uc, i->run.mark ? SWITCH_MARKED : SWITCH_TRAPPED);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void on_stop(int signal, siginfo_t *info, void *context) {
    (void)signal;
    int saved = errno;
    ucontext_t *uc = context;
    thread_state *t = thread_now();
    if (t) {
        int clock = info->si_code == SI_TIMER ? info->si_value.sival_int : -1;
        if (clock >= 0 && clock < CLOCKS) t->armed[clock] = NEVER;
        stop_check(t);
        instance *i = t->top;
        if (i && i->run.mark && i->run.in_guest) {
            /* Elsewhere than in its own code the guest may be inside a library function, or below
             * a signal handler of the embedder, which must not be cut off. Closed memory brings
             * it out of the one and leaves the other alone; then we try again. */
            if (in_text(i, context_pc(uc)))
                leave_guest(i, uc, SWITCH_MARKED);
            else
                stop_guard(i);
        }
        stop_arm(t);
    }
    errno = saved;
}

/* ---- Installing ------------------------------------------------------------------------------ */

static bool signal_free(int signal) {
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == SIG_DFL;
}

bru_status engine_signal_choose(int signal, bru_error *err) {
    if (signal == 0) return BRU_OK;
    if (signal < SIGRTMIN || signal > SIGRTMAX)
        return error_set(err, BRU_EINVAL, "signal %d is not a real-time signal (%d to %d)", signal,
                         SIGRTMIN, SIGRTMAX);
    if (atomic_load(&installed))
        return error_set(err, BRU_ESTATE, "signal %d stops runaway calls already",
                         atomic_load(&stop_signal));
    if (!signal_free(signal))
        return error_set(err, BRU_EINVAL, "signal %d has a handler already", signal);
    atomic_store(&stop_signal, signal);
    return BRU_OK;
}

int signals_stop_number(void) {
    return atomic_load_explicit(&stop_signal, memory_order_relaxed);
}

unsigned process_epoch(void) {
    return atomic_load_explicit(&epoch, memory_order_relaxed);
}

static void forked(void) {
    atomic_fetch_add(&epoch, 1);
    thread_state *t = thread_now();
    if (t) stop_forked(t);
    guest_registry_unlock();
}

static bool handler_set(int signal, void (*handler)(int, siginfo_t *, void *), int also_blocked,
                        struct sigaction *old) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (also_blocked) sigaddset(&action.sa_mask, also_blocked);
    return sigaction(signal, &action, old) == 0;
}

/* Handlers outlive every handle on the library that holds them. */
static void stay_loaded(void) {
    Dl_info where;
    if (dladdr((const void *)before, &where) && where.dli_fname)
        (void)!dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static void install(void) {
    stay_loaded();
    int stop = atomic_load(&stop_signal);
    for (int s = SIGRTMAX - 2; stop == 0 && s >= SIGRTMIN; s--)
        if (signal_free(s)) stop = s;
    if (stop == 0) return;
    atomic_store(&stop_signal, stop);
    bool done = handler_set(stop, on_stop, 0, NULL);
    for (size_t n = 0; n < FAULTS; n++)
        done = handler_set(fault_signals[n], on_fault, stop, &before[n]) && done;
    done = pthread_atfork(guest_registry_lock, guest_registry_unlock, forked) == 0 && done;
    atomic_store(&installed, done);
}

bru_status signals_install(bru_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    if (atomic_load(&installed)) return BRU_OK;
    return error_set(err, BRU_ELIMIT, "no real-time signal is free to stop runaway calls with");
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Ours needs little, but a handler that we pass faults on to may need more. */
static bool altstack_fits(const stack_t *now) {
    return !(now->ss_flags & SS_DISABLE) &&
           now->ss_size >= getauxval(AT_MINSIGSTKSZ) + (size_t)6 * 1024;
}

bru_status signals_thread(thread_state *t, bru_error *err) {
    stack_t now;
    if (sigaltstack(NULL, &now) != 0) return error_errno(err, errno, "alternate signal stack");
    if (!altstack_fits(&now)) {
        t->altstack_len = (size_t)64 * 1024 + (getauxval(AT_MINSIGSTKSZ) / 4096 + 1) * 4096;
        bru_status st = os_allocate(t->altstack_len, &t->altstack, err);
        if (st) return st;
        stack_t ours = { .ss_sp = t->altstack, .ss_size = t->altstack_len };
        if (sigaltstack(&ours, NULL) != 0) return error_errno(err, errno, "alternate signal stack");
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signals_stop_number());
    for (size_t n = 0; n < FAULTS; n++) sigaddset(&set, fault_signals[n]);
    int failed = pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return failed ? error_errno(err, failed, "unblocking signals") : BRU_OK;
}

void signals_thread_end(thread_state *t) {
    if (!t->altstack) return;
    stack_t now, off = { .ss_flags = SS_DISABLE };
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == t->altstack) sigaltstack(&off, NULL);
    os_release(t->altstack, t->altstack_len);
    t->altstack = NULL;
}
