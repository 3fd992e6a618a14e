/* The interface of the objects that IREE 3.13.0 compiles: version 6 of its executable libraries.
 *
 * A library is a table of functions, one for each dispatch.  A dispatch is executed once for each workgroup; it reads
 * and writes the buffers that `bindings` points to, each aligned to ALIGNMENT bytes, and nothing else.
 */
#ifndef IREE_H
#define IREE_H

#include <stddef.h>
#include <stdint.h>

enum { IREE_VERSION = 6, IREE_ALIGNMENT = 64 };

/* Environment of a dispatch: constants and functions of the caller, the processor's features.  All is 0 here. */
struct iree_environment {
    const uint32_t *constants;
    int (*import_thunk)(void *function, void *parameters, void *context, void *reserved);
    const void *const *imports;
    const void *const *import_contexts;
    uint64_t processor[8];
};

/* State that all workgroups of a dispatch share. */
struct iree_dispatch {
    uint32_t size_x, size_y; /* of a workgroup, 1 */
    uint16_t size_z;
    uint16_t constant_count;
    uint32_t count_x, count_y; /* of workgroups */
    uint16_t count_z;
    uint8_t concurrency;
    uint8_t binding_count;
    const uint32_t *constants;
    void *const *bindings;
    const size_t *lengths; /* of the bindings, in bytes */
};

struct iree_workgroup {
    uint32_t x, y;
    uint16_t z;
    uint16_t reserved;
    uint32_t processor;
    void *memory; /* for the workgroup alone; no dispatch here wants any */
    uint32_t bytes;
};

/* Returns 0 unless it fails. */
typedef int iree_function(const struct iree_environment *environment, const struct iree_dispatch *dispatch,
                          const struct iree_workgroup *workgroup);

struct iree_header {
    uint32_t version;
    const char *name;
    uint32_t features;
    uint32_t sanitizer;
};

/* Requirements of a dispatch. */
struct iree_attributes {
    uint64_t flags;
    uint16_t memory_pages; /* of a workgroup */
    uint8_t constant_count;
    uint8_t binding_count;
    uint32_t size_x, size_y;
    uint16_t size_z;
    uint16_t reserved;
    uint64_t more[5];
};

struct iree_library {
    const struct iree_header *header;
    uint32_t import_count;
    const char *const *imports;
    uint32_t function_count;
    iree_function *const *functions;
    const struct iree_attributes *attributes;
    const void *parameters;
    const void *occupancy;
    const char *const *names;
    const void *others[4]; /* tags, names of parameters, locations in sources */
    uint32_t constant_count;
    struct {
        uint32_t count;
        const void *names;
    } files;
};

/* Returns the library, or NULL if it has another version. */
typedef const struct iree_library *iree_query(uint32_t version, const struct iree_environment *environment);

/* A function to call, with its numbers of constants and bindings. */
struct iree_call {
    iree_function *function;
    uint8_t constants, bindings;
};

/* Exits with what is wrong unless the library has this interface, and exactly these functions in this order. */
void iree_require(iree_query *query, const char *name, const struct iree_call *calls, size_t count);

/* Names the compiler. */
const char *iree_device(void);

#endif
