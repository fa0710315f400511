/* What brumate/snapshot.h does once arguments were checked. */
#ifndef BRU_SESSION_SNAPSHOT_H
#define BRU_SESSION_SNAPSHOT_H

#include "brumate/snapshot.h"
#include "session/session.h"

BRU_MUST_CHECK bru_status session_snapshot(bru_session *s, const bru_snapshot_options *o,
                                           bru_snapshot **out, bru_error *err);
#endif
