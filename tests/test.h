/* A test program in one header: TEST(behaviour_in_words) { CHECK...; } then TEST_MAIN.
 * Run with no argument it runs every test; with words, those whose names contain one of them. The
 * closing line is "N passed, N failed". */
#ifndef BRU_TESTS_TEST_H
#define BRU_TESTS_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

typedef struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
} test_case;

static test_case *test_first, **test_last = &test_first;
static unsigned test_failures; /* of the running test */

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    static test_case case_##name = { #name, test_##name, NULL };                                   \
    __attribute__((constructor)) static void add_##name(void) {                                    \
        *test_last = &case_##name;                                                                 \
        test_last = &case_##name.next;                                                             \
    }                                                                                              \
    static void test_##name(void)

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
        }                                                                                          \
    } while (0)

#define CHECK_EQ(have, want)                                                                       \
    do {                                                                                           \
        long long have_ = (long long)(have), want_ = (long long)(want);                            \
        if (have_ != want_) {                                                                      \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, not %s = %lld\n", __FILE__, __LINE__, #have,       \
                    have_, #want, want_);                                                          \
        }                                                                                          \
    } while (0)

#define CHECK_STR(have, want)                                                                      \
    do {                                                                                           \
        const char *have_ = (have), *want_ = (want);                                               \
        if (!have_ || strcmp(have_, want_) != 0) {                                                 \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #have,        \
                    have_ ? have_ : "(null)", want_);                                              \
        }                                                                                          \
    } while (0)

/* For a step that the rest of the test cannot do without. */
#define REQUIRE(what)                                                                              \
    do {                                                                                           \
        CHECK(what);                                                                               \
        if (test_failures) return;                                                                 \
    } while (0)

/* Goes over the rows of a table: EACH(c, table) CHECK_EQ(f(c->in), c->want); */
#define EACH(row, table)                                                                           \
    for (__typeof__(&(table)[0]) row = (table); row < (table) + sizeof(table) / sizeof *(table);   \
         row++)

/* Runs the block again and again, failing its 1st, 2nd, 3rd ... allocation, until none is left. */
#define FAULT_SWEEP                                                                                \
    for (unsigned fault_n_ = 1; fault_n_ < 10000 && (fault_arm(fault_n_), true);                   \
         fault_n_ = fault_came() ? fault_n_ + 1 : 10000, fault_arm(0))

static int test_main(int argc, char **argv) {
    unsigned passed = 0, failed = 0;
    for (test_case *t = test_first; t; t = t->next) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++) wanted = wanted || strstr(t->name, argv[i]);
        if (!wanted) continue;
        test_failures = 0;
        t->run();
        if (test_failures) fprintf(stderr, "FAILED %s\n", t->name);
        *(test_failures ? &failed : &passed) += 1;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed;
}

#define TEST_MAIN                                                                                  \
    int main(int argc, char **argv) {                                                              \
        return test_main(argc, argv);                                                              \
    }

#endif
