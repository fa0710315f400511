/* Compiled once for each public header, alone, as C11 and as C++, every warning an error: a header
 * includes what it needs, and is C that others can use. */
#include HEADER

int header_compiles(void);
int header_compiles(void) {
    return 0;
}
