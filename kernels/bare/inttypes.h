/* Conversion specifiers of 64-bit numbers. */
#ifndef INTTYPES_H
#define INTTYPES_H

#include <stdint.h>

#define PRIu64 "llu"
#define PRIx64 "llx"

#endif
