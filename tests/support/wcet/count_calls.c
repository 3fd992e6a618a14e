/* A plugin of qemu that counts the instructions of each call of some functions.
 *
 *     -plugin count_calls.so,function=ADDRESS,...,outside=START-END,...
 *
 * Addresses are those of the program's file.  A call begins where its function is entered, and ends where code is
 * executed that is outside; code of libraries is counted apart.  At the end it prints one line for each function:
 *
 *     function CALLS FEWEST MOST MOST_IN_LIBRARIES
 *
 * The declarations are those of qemu-plugin.h, version 1 (qemu 7.0 and later), which distributions do not ship.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*callback)(uint64_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, void (*callback)(unsigned cpu, void *data),
                                          int flags, void *data);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t id, void *data), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_start_code(void);
uint64_t qemu_plugin_end_code(void);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { FUNCTIONS = 4096, RANGES = 256, CPUS = 256, NONE = -1 };

static struct function {
    uint64_t address, calls, fewest, most, most_in_libraries;
} functions[FUNCTIONS];
static struct range {
    uint64_t start, end;
} outside[RANGES];
static size_t function_count, range_count;

static struct cpu {
    bool entered;
    size_t function;
    uint64_t count, in_libraries;
} cpus[CPUS];

struct block {
    uint64_t count;
    long function; /* that begins here, or NONE */
    bool is_outside, in_library;
};

static void executed(unsigned number, void *data)
{
    const struct block *block = data;
    struct cpu *cpu = &cpus[number % CPUS];
    if (cpu->entered && (block->is_outside || block->function != NONE)) {
        struct function *function = &functions[cpu->function];
        if (function->calls++ == 0 || cpu->count < function->fewest)
            function->fewest = cpu->count;
        if (cpu->count > function->most)
            function->most = cpu->count;
        if (cpu->in_libraries > function->most_in_libraries)
            function->most_in_libraries = cpu->in_libraries;
        cpu->entered = false;
    }
    if (block->function != NONE)
        *cpu = (struct cpu){.entered = true, .function = (size_t)block->function};
    *(block->in_library ? &cpu->in_libraries : &cpu->count) += block->count;
}

static void translated(uint64_t id, struct qemu_plugin_tb *translation)
{
    (void)id;
    const uint64_t base = qemu_plugin_start_code(), address = qemu_plugin_tb_vaddr(translation);
    const uint64_t end = qemu_plugin_end_code(); /* 0 of a whole machine, which has no libraries */
    struct block *block = calloc(1, sizeof *block); /* translations live as long as the process */
    if (!block)
        abort();
    *block = (struct block){qemu_plugin_tb_n_insns(translation), NONE, false,
                            end != 0 && (address < base || address >= end)};
    for (size_t i = 0; i < function_count; ++i)
        if (functions[i].address == address - base)
            block->function = (long)i;
    for (size_t i = 0; i < range_count; ++i)
        block->is_outside |= outside[i].start <= address - base && address - base < outside[i].end;
    qemu_plugin_register_vcpu_tb_exec_cb(translation, executed, 0, block);
}

static void ended(uint64_t id, void *data)
{
    (void)id;
    (void)data;
    for (size_t i = 0; i < function_count; ++i)
        fprintf(stderr, "function %llu %llu %llu %llu\n", (unsigned long long)functions[i].calls,
                (unsigned long long)functions[i].fewest, (unsigned long long)functions[i].most,
                (unsigned long long)functions[i].most_in_libraries);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; ++i) {
        char *value = strchr(argv[i], '=');
        if (value && strncmp(argv[i], "function", 8) == 0 && function_count < FUNCTIONS)
            functions[function_count++].address = strtoull(value + 1, NULL, 0);
        else if (value && strncmp(argv[i], "outside", 7) == 0 && range_count < RANGES && strchr(value, '-'))
            outside[range_count++] = (struct range){strtoull(value + 1, NULL, 0), strtoull(strchr(value, '-') + 1, NULL, 0)};
        else
            return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
