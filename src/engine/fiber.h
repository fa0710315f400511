/* Tells the sanitizers which stack runs; nothing in an ordinary build.
 *
 * AddressSanitizer wants to be told before and after each change of stacks, ThreadSanitizer once,
 * before. Functions between such a call and the change itself are not instrumented: NOT_CHECKED. */
#ifndef BRU_ENGINE_FIBER_H
#define BRU_ENGINE_FIBER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#endif

/* The guest's stack and what the sanitizers keep about both sides. */
typedef struct fiber {
    const void *low; /* of the guest's stack */
    size_t len;
    const void *host_low; /* of the stack that entered the guest */
    size_t host_len;
    void *host_fake, *guest_fake;     /* AddressSanitizer's; of the side that does not run */
    void *host_thread, *guest_thread; /* ThreadSanitizer's */
} fiber;

#if defined(FIBER_ASAN)

#define NOT_CHECKED __attribute__((no_sanitize("address"), noinline))
#define FIBER_CALL  static inline __attribute__((no_sanitize("address")))

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

FIBER_CALL void fiber_to_guest(fiber *f) {
    __sanitizer_start_switch_fiber(&f->host_fake, f->low, f->len);
}
FIBER_CALL void fiber_in_guest(fiber *f) {
    __sanitizer_finish_switch_fiber(f->guest_fake, &f->host_low, &f->host_len);
}
FIBER_CALL void fiber_to_host(fiber *f) {
    __sanitizer_start_switch_fiber(&f->guest_fake, f->host_low, f->host_len);
}
FIBER_CALL void fiber_in_host(fiber *f) {
    __sanitizer_finish_switch_fiber(f->host_fake, NULL, NULL);
}
/* The guest side ended in an orderly way; before leaving it for good. */
FIBER_CALL void fiber_end(fiber *f) {
    f->guest_fake = NULL;
    __sanitizer_start_switch_fiber(NULL, f->host_low, f->host_len);
}
/* Already on the host's side, by a jump: makes up for what was not said. */
FIBER_CALL void fiber_jumped(fiber *f) {
    fiber_end(f);
    fiber_in_host(f);
    __asan_unpoison_memory_region(f->low, f->len);
}
/* What was left of a run on the guest's stack is gone. */
FIBER_CALL void fiber_forget(fiber *f) {
    __asan_unpoison_memory_region(f->low, f->len);
    f->guest_fake = NULL;
}
FIBER_CALL void fiber_free(fiber *f) {
    fiber_forget(f);
}

#elif defined(FIBER_TSAN)

#define NOT_CHECKED __attribute__((no_sanitize("thread"), noinline))
#define FIBER_CALL  static inline __attribute__((no_sanitize("thread")))

#include <sanitizer/tsan_interface.h>

FIBER_CALL void fiber_to_guest(fiber *f) {
    f->host_thread = __tsan_get_current_fiber();
    if (!f->guest_thread) f->guest_thread = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(f->guest_thread, 0);
}
FIBER_CALL void fiber_in_guest(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_to_host(fiber *f) {
    __tsan_switch_to_fiber(f->host_thread, 0);
}
FIBER_CALL void fiber_in_host(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_free(fiber *f) {
    if (f->guest_thread) __tsan_destroy_fiber(f->guest_thread);
    f->guest_thread = NULL;
}
FIBER_CALL void fiber_forget(fiber *f) {
    fiber_free(f);
}
FIBER_CALL void fiber_end(fiber *f) {
    fiber_to_host(f);
}
FIBER_CALL void fiber_jumped(fiber *f) {
    fiber_to_host(f);
    fiber_free(f);
}

#else

#define NOT_CHECKED
#define FIBER_CALL static inline

FIBER_CALL void fiber_to_guest(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_in_guest(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_to_host(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_in_host(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_end(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_jumped(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_forget(fiber *f) {
    (void)f;
}
FIBER_CALL void fiber_free(fiber *f) {
    (void)f;
}

#endif
#endif
