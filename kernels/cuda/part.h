/* The part of a layer that a kernel computes: all of it, or one stage for a query of the proof.
 *
 * Both take the same way through the same kernel, and so through the same copy of the layer's functions.
 */
#ifndef PART_H
#define PART_H

enum part { WHOLE, COMPUTE, ACCUMULATE, FINISH };

#endif
