/* Queries of the processor to a kernel in the fabric; the fields are arguments of the kernel, in this order. */
#ifndef QUESTION_H
#define QUESTION_H

#include <stdint.h>

/* The network, or of one of its layers a part, or its constants; or which sources the kernel was made of. */
enum part { WHOLE, ACCUMULATE, FINISH, TABLES, IDENTITY, COMPUTE };

enum { IDENTITY_WORDS = 8, NO_LAYER = 0x7FFFFFFF };

struct question {
    uint32_t vectors;     /* of the constants and the identity one */
    uint32_t everything;  /* of the network: all activations, not only those that somebody reads */
    uint32_t part;
    uint32_t layer;       /* of the kernel; of no importance for the network; NO_LAYER for the identity */
    uint32_t given_width; /* elements of a vector on their way to the layer that is asked */
    uint32_t made_width;  /* and behind it; of the constants: all of them */
};

#endif
