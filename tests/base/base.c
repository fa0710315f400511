#include "test.h"
#include "base/base.h"

TEST(buf_append_stops_at_its_ceiling_and_keeps_what_it_had) {
    buf b;
    buf_init(&b, 10);
    CHECK_EQ(buf_append(&b, "12345678", 8), BRU_OK);
    CHECK_EQ(buf_append(&b, "abc", 3), BRU_ELIMIT);
    CHECK_EQ(b.len, 8);
    CHECK_EQ(buf_append(&b, "ab", 2), BRU_OK);
    CHECK(memcmp(b.data, "12345678ab", 10) == 0);
    CHECK_EQ(buf_append(&b, "", 0), BRU_OK);
    buf_free(&b);
}

TEST(buf_append_survives_each_failed_allocation) {
    FAULT_SWEEP {
        buf b;
        buf_init(&b, 1 << 20);
        bru_status st = BRU_OK;
        for (int i = 0; i < 100 && !st; i++) st = buf_append(&b, "0123456789abcdef", 16);
        CHECK(st == BRU_OK || st == BRU_ENOMEM);
        CHECK_EQ(b.len % 16, 0);
        buf_free(&b);
    }
}

TEST(an_error_message_is_one_line_of_valid_utf8_even_when_cut) {
    bru_error err;
    char name[600];
    memset(name, 'x', sizeof name);
    memcpy(name + sizeof err.message - 2, "\xE2\x82\xAC", 3);
    name[599] = '\0';
    CHECK_EQ(error_set(&err, BRU_EIO, "%s", name), BRU_EIO);
    CHECK_EQ(strlen(err.message), sizeof err.message - 2);
    error_set(&err, BRU_EIO, "a\nb");
    CHECK_STR(err.message, "a b");
}

TEST(every_status_has_a_text) {
    for (int s = BRU_OK; s <= BRU_EGUEST; s++) CHECK(strlen(bru_status_text((bru_status)s)) > 3);
    CHECK_STR(bru_status_text((bru_status)99), "unknown status");
}

TEST_MAIN
