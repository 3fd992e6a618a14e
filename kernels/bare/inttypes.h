/* How numbers of 64 bits are printed. */
#ifndef INTTYPES_H
#define INTTYPES_H

#include <stdint.h>

#define PRIu64 "llu"
#define PRIx64 "llx"

#endif
