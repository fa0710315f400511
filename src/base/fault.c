#include "fault.h"

static _Thread_local unsigned armed, hits;

bool fault_hit(void) {
    if (armed == 0) return false;
    return ++hits == armed;
}

void fault_arm(unsigned n) {
    armed = n;
    hits = 0;
}

unsigned fault_count(void) {
    return hits;
}

bool fault_came(void) {
    return armed != 0 && hits >= armed;
}
