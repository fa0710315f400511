/* fcntl() for SQLite, which is compiled to call it by this name: WASI has no locks on files, and needs
 * none, since nobody but this one process ever has the guest's files open. SQLite counts the locks of
 * its own connections itself and asks the system only on behalf of the process: it always gets them. */
#include <fcntl.h>
#include <stdarg.h>

/* As sqlite3.c numbers them where the C library does not. */
enum { GET_LOCK = 12, SET_LOCK = 13, SET_LOCK_WAIT = 14, UNLOCKED = 2 };

int sqlite_fcntl(int fd, int what, ...);

int sqlite_fcntl(int fd, int what, ...) {
    va_list rest;
    va_start(rest, what);
    int answer = 0;
    if (what == GET_LOCK) va_arg(rest, struct flock *)->l_type = UNLOCKED;
    else if (what != SET_LOCK && what != SET_LOCK_WAIT) answer = fcntl(fd, what, va_arg(rest, int));
    va_end(rest);
    return answer;
}
