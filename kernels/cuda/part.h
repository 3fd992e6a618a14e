/* What a kernel does of a layer: all of it, or what the proof asks for, a part by itself.
 *
 * Both take the same way through the same kernel, and so through the same copy of the layer's functions.
 */
#ifndef PART_H
#define PART_H

enum part { WHOLE, COMPUTE, ACCUMULATE, FINISH };

#endif
