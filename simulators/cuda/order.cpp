#include "faults.h"
#include "objects.h"
#include "work.h"

namespace {

const char *const HOW[] = {"reads", "writes"};

bool refuse(const char *now, bool writes, const char *before, bool wrote)
{
    complain("%s %s memory of the GPU that %s %s on another stream, and neither an event nor a wait orders the two", now,
             HOW[writes], before, HOW[wrote]);
    return false;
}

bool access(const void *address, bool writes, const char *what, CUstream stream)
{
    Memory *const memory = find_memory(MEMORY, address, 0);
    if (memory == nullptr)
        return true;
    Accesses &last = memory->accesses;
    const unsigned slot = stream->slot;
    const uint64_t number = stream->clock.of[slot];
    if (!stream->clock.knows(last.written))
        return refuse(what, writes, last.writer, true);
    for (unsigned other = 0; writes && other < MOST_STREAMS; ++other)
        if (!stream->clock.knows({other, last.read[other]}))
            return refuse(what, writes, last.reader[other], false);
    if (writes) {
        last.written = {slot, number};
        last.writer = what;
    } else {
        last.read[slot] = number;
        last.reader[slot] = what;
    }
    return true;
}

bool access_parameters(const Operation *operation, CUstream stream)
{
    const simulated_kernel *const kernel = operation->function->kernel;
    bool ordered = true;
    each_parameter(kernel, [&](size_t i, size_t offset) {
        const simulated_parameter &parameter = kernel->parameters[i];
        void *const address = *(void *const *)(operation->parameters + offset);
        if (parameter.is_pointer && address != nullptr)
            ordered = ordered && access(address, parameter.writes, kernel->name, stream);
    });
    return ordered;
}

} // namespace

bool is_ordered(const Operation *operation, CUstream stream)
{
    bool ordered = true;
    switch (operation->action) {
    case COPY_IN: return access(operation->to, true, "a copy to the GPU", stream);
    case COPY_OUT: return access(operation->from, false, "a copy from the GPU", stream);
    case LAUNCH: return access_parameters(operation, stream);
    case REPLAY:
        for (const Operation *step = operation->executable->operations.first; step != nullptr; step = step->next)
            ordered = ordered && is_ordered(step, stream);
        return ordered;
    default: return true;
    }
}
