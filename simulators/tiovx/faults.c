#include "faults.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

#define VARIABLE "HARNESS_DOUBLE_FAULT"

static struct {
    unsigned long hang, fail, memory; /* which one; 0: none */
    int verify, init, old, other;
    char missing[VX_MAX_KERNEL_NAME];
} faults;

static atomic_ulong processes, objects;

/* The number behind a name and "@", the whole word; 0 if it is anything else. */
static unsigned long number_of(const char *word, const char *name)
{
    char *end;
    const size_t length = strlen(name);
    if (strncmp(word, name, length) != 0 || word[length] < '1' || word[length] > '9')
        return 0;
    const unsigned long number = strtoul(&word[length], &end, 10);
    return *end ? 0 : number;
}

static int read_number(const char *word, const char *name, unsigned long *number)
{
    const unsigned long read = number_of(word, name);
    *number = read ? read : *number;
    return read > 0;
}

static int read_flag(const char *word, const char *name, int *flag)
{
    const int same = strcmp(word, name) == 0;
    *flag |= same;
    return same;
}

static int read_missing(const char *word)
{
    const char *name = word + strlen("missing=");
    if (strncmp(word, "missing=", strlen("missing=")) != 0)
        return 0;
    if (strcmp(name, KERNEL_QGEMM) != 0 && strcmp(name, KERNEL_QUANTIZE_LINEAR) != 0)
        return 0;
    strcpy(faults.missing, name);
    return 1;
}

static void read_word(const char *word)
{
    const int known = read_number(word, "hang@", &faults.hang) || read_number(word, "fail@", &faults.fail) ||
                      read_number(word, "memory@", &faults.memory) || read_flag(word, "verify", &faults.verify) ||
                      read_flag(word, "init", &faults.init) || read_flag(word, "old", &faults.old) ||
                      read_flag(word, "other", &faults.other) || read_missing(word);
    if (!known)
        fail(VARIABLE ": '%s' is none of hang@N, fail@N, memory@N, verify, init, missing=KERNEL, old, other", word);
}

void faults_read(void)
{
    const char *text = getenv(VARIABLE);
    memset(&faults, 0, sizeof faults);
    atomic_store(&processes, 0);
    atomic_store(&objects, 0);
    while (text) {
        const size_t length = strcspn(text, ",");
        char *word = allocate(length + 1);
        memcpy(word, text, length);
        read_word(word);
        free(word);
        text = text[length] ? &text[length + 1] : NULL;
    }
}

enum process_fault fault_of_process(void)
{
    const unsigned long number = atomic_fetch_add(&processes, 1) + 1;
    if (number == faults.hang) {
        refuse(VX_FAILURE, VARIABLE ": process command %lu never answers", number);
        return PROCESS_HANGS;
    }
    if (number == faults.fail) {
        refuse(VX_FAILURE, VARIABLE ": process command %lu fails", number);
        return PROCESS_FAILS;
    }
    return PROCESS_WELL;
}

int fault_of_memory(void)
{
    const unsigned long number = atomic_fetch_add(&objects, 1) + 1;
    if (number != faults.memory)
        return 0;
    refuse(VX_ERROR_NO_MEMORY, VARIABLE ": there is no memory for object %lu", number);
    return 1;
}

int fault_of_verify(void)
{
    return faults.verify && refuse(VX_FAILURE, VARIABLE ": vxVerifyGraph fails");
}

int fault_of_init(void)
{
    return faults.init && refuse(VX_FAILURE, VARIABLE ": appInit fails");
}

int fault_of_kernel(const char *name)
{
    return faults.missing[0] && strcmp(name, faults.missing) == 0 &&
           refuse(VX_FAILURE, VARIABLE ": the firmware has no %s", name);
}

void fault_of_identity(struct identity *answer)
{
    if (faults.old) {
        refuse(VX_FAILURE, VARIABLE ": the kernels say that they are old");
        answer->version = 0;
    }
    if (faults.other) {
        refuse(VX_FAILURE, VARIABLE ": the kernels say that they are others");
        for (char *digit = answer->sources; *digit; ++digit)
            *digit = *digit == '0' ? '1' : '0';
    }
}
