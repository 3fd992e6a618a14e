#include "faults.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SIMULATED_ARCH
#define SIMULATED_ARCH 72
#endif
#ifndef SIMULATED_DRIVER
#define SIMULATED_DRIVER 11040
#endif

namespace {

#define FUNCTION_NAME(result, name, arguments) #name,
constexpr unsigned NO_FUNCTION = FUNCTION_COUNT;

const char *const names[] = {CUDA_DRIVER(FUNCTION_NAME)};

struct Fault {
    unsigned from; /* which call is the first that fails; 0: none */
    bool hangs;
    CUresult error;
};

Fault faults[FUNCTION_COUNT];
unsigned calls[FUNCTION_COUNT];
bool misspelt;
pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

unsigned find_function(const char *name, size_t length)
{
    for (unsigned i = 0; i < FUNCTION_COUNT; ++i)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return i;
    return NO_FUNCTION;
}

/* "hang" or a number, then perhaps "@" and which call; false if it is anything else. */
bool read_fault(const char *text, const char *end, Fault *fault)
{
    char *rest;
    fault->hangs = strncmp(text, "hang", 4) == 0;
    fault->error = fault->hangs ? CUDA_SUCCESS : (CUresult)strtoul(text, &rest, 10);
    if (fault->hangs)
        rest = (char *)text + 4;
    fault->from = *rest == '@' ? (unsigned)strtoul(rest + 1, &rest, 10) : 1;
    return rest == end && fault->from > 0 && (fault->hangs || fault->error != CUDA_SUCCESS);
}

bool read_assignment(const char *text, const char *end)
{
    const char *const value = (const char *)memchr(text, '=', (size_t)(end - text));
    const unsigned function = value == nullptr ? NO_FUNCTION : find_function(text, (size_t)(value - text));
    return function != NO_FUNCTION && read_fault(value + 1, end, &faults[function]);
}

void read_environment()
{
    const char *text = getenv("HARNESS_SIMULATED_FAULT");
    while (text != nullptr && *text != '\0') {
        const char *const end = text + strcspn(text, ",");
        if (!read_assignment(text, end)) {
            fprintf(stderr, "host-simulation of CUDA: HARNESS_SIMULATED_FAULT: '%.*s' is not FUNCTION=ERROR[@CALL]\n",
                    (int)(end - text), text);
            misspelt = true;
        }
        text = *end == ',' ? end + 1 : end;
    }
}

unsigned count_call(unsigned function)
{
    pthread_mutex_lock(&counting);
    const unsigned count = ++calls[function];
    pthread_mutex_unlock(&counting);
    return count;
}

int number_from_environment(const char *name, int otherwise)
{
    const char *const text = getenv(name);
    return text != nullptr ? atoi(text) : otherwise;
}

} // namespace

CUresult injected_fault(unsigned function)
{
    pthread_once(&once, read_environment);
    if (misspelt)
        return CUDA_ERROR_INVALID_VALUE;
    const Fault fault = faults[function];
    if (fault.from == 0 || count_call(function) < fault.from)
        return CUDA_SUCCESS;
    while (fault.hangs)
        pause();
    return fault.error;
}

int pretended_arch()
{
    return number_from_environment("HARNESS_SIMULATED_ARCH", SIMULATED_ARCH);
}

int pretended_driver()
{
    return number_from_environment("HARNESS_SIMULATED_DRIVER", SIMULATED_DRIVER);
}

bool leaks_are_reported()
{
    return number_from_environment("HARNESS_SIMULATED_LEAKS", 0) != 0;
}

bool is_eager(unsigned stream)
{
    return (unsigned)number_from_environment("HARNESS_SIMULATED_EAGER", 0) >> stream & 1;
}

unsigned stream_seed()
{
    return (unsigned)number_from_environment("HARNESS_SIMULATED_STREAMS", 0);
}

bool unordered_is_allowed()
{
    return number_from_environment("HARNESS_SIMULATED_UNORDERED", 0) != 0;
}
