#include "iree.h"

#include <string.h>

#include "fail.h"

_Static_assert(sizeof(void *) != 8 || sizeof(struct iree_library) == 128, "as IREE 3.13.0 has it");
_Static_assert(sizeof(void *) != 8 || sizeof(struct iree_attributes) == 64, "as IREE 3.13.0 has it");

static const char *wrong_function(const struct iree_library *library, const struct iree_call *call, size_t ordinal)
{
    const struct iree_attributes *attributes = &library->attributes[ordinal];
    if (library->functions[ordinal] != call->function)
        return "another function than the program calls";
    if (attributes->constant_count != call->constants || attributes->binding_count != call->bindings)
        return "another number of constants or buffers";
    return attributes->memory_pages ? "memory for workgroups, which it does not get" : NULL;
}

void iree_require(iree_query *query, const char *name, const struct iree_call *calls, size_t count)
{
    const struct iree_environment environment = {0};
    const struct iree_library *library = query(IREE_VERSION, &environment);
    if (!library || library->header->version != IREE_VERSION)
        fail(EXIT_SYSTEM, "library %s does not have version %d of IREE's interface", name, IREE_VERSION);
    if (strcmp(library->header->name, name) || library->header->features || library->header->sanitizer ||
        library->import_count || library->constant_count || library->function_count != count)
        fail(EXIT_SYSTEM, "library %s (%s) is not the one that the program was built for", name, library->header->name);
    for (size_t ordinal = 0; ordinal < count; ++ordinal) {
        const char *wrong = wrong_function(library, &calls[ordinal], ordinal);
        if (wrong)
            fail(EXIT_SYSTEM, "library %s: dispatch %zu has %s", name, ordinal, wrong);
    }
}

const char *iree_device(void)
{
    return "IREE 3.13.0, object code without a runtime";
}
