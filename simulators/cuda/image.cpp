#include "image.h"

#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

enum { MACHINE_CUDA = 190, ABI_CUDA = 0x33, ABI_VERSION = 7, MAX_THREADS = 0x05 };

/* PTX's version by the CUDA version of the driver, both as 10 * major + minor. */
const struct {
    int driver, ptx;
} ptx_versions[] = {{130, 90}, {129, 88}, {128, 87}, {127, 86}, {126, 85}, {125, 85}, {124, 84}, {123, 83},
                    {122, 82}, {121, 81}, {120, 80}, {118, 78}, {117, 77}, {116, 76}, {115, 75}, {114, 74},
                    {113, 73}, {112, 72}, {111, 71}, {110, 70}, {102, 65}, {101, 64}, {100, 63}};

int newest_ptx(int driver)
{
    for (const auto &known : ptx_versions)
        if (driver / 1000 * 10 + driver % 1000 / 10 >= known.driver)
            return known.ptx;
    return 0;
}

bool is_elf(const void *image)
{
    return memcmp(image, ELFMAG, SELFMAG) == 0;
}

const char *at(const void *image, size_t offset)
{
    return (const char *)image + offset;
}

/* A cubin */

const Elf64_Ehdr *header(const void *image)
{
    return (const Elf64_Ehdr *)image;
}

const Elf64_Shdr *section(const void *image, size_t number)
{
    return (const Elf64_Shdr *)at(image, header(image)->e_shoff) + number;
}

const char *section_name(const void *image, const Elf64_Shdr *of)
{
    return at(image, section(image, header(image)->e_shstrndx)->sh_offset + of->sh_name);
}

const Elf64_Shdr *find_section(const void *image, const char *prefix, const char *name)
{
    for (size_t i = 0; i < header(image)->e_shnum; ++i) {
        const char *const found = section_name(image, section(image, i));
        if (strncmp(found, prefix, strlen(prefix)) == 0 && strcmp(found + strlen(prefix), name) == 0)
            return section(image, i);
    }
    return nullptr;
}

const Elf64_Sym *find_symbol(const void *image, const char *name, int type)
{
    const Elf64_Shdr *const table = find_section(image, ".symtab", "");
    if (table == nullptr)
        return nullptr;
    const char *const names = at(image, section(image, table->sh_link)->sh_offset);
    const Elf64_Sym *const begin = (const Elf64_Sym *)at(image, table->sh_offset);
    for (const Elf64_Sym *symbol = begin; symbol < begin + table->sh_size / sizeof *symbol; ++symbol)
        if (ELF64_ST_TYPE(symbol->st_info) == type && strcmp(names + symbol->st_name, name) == 0)
            return symbol;
    return nullptr;
}

CUresult check_cubin(const void *image, int arch, int driver)
{
    const Elf64_Ehdr *const elf = header(image);
    const int toolkit = (int)elf->e_version / 10; /* 118: CUDA 11.8 */
    const bool known = elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_ident[EI_OSABI] == ABI_CUDA &&
                       elf->e_ident[EI_ABIVERSION] == ABI_VERSION && elf->e_machine == MACHINE_CUDA;
    if (!known || toolkit > driver / 1000)
        return CUDA_ERROR_INVALID_IMAGE;
    return (int)(elf->e_flags & 0xff) == arch ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t cubin_bytes(const void *image)
{
    const Elf64_Ehdr *const elf = header(image);
    const size_t sections_end = elf->e_shoff + elf->e_shnum * sizeof(Elf64_Shdr);
    size_t end = larger(sections_end, elf->e_phoff + elf->e_phnum * sizeof(Elf64_Phdr));
    for (size_t i = 0; i < elf->e_shnum; ++i)
        if (section(image, i)->sh_type != SHT_NOBITS)
            end = larger(end, section(image, i)->sh_offset + section(image, i)->sh_size);
    return end;
}

/* Attributes of a kernel: format, number, two bytes of value or of the size of what follows. */
size_t most_threads_of_cubin(const void *image, const char *name)
{
    const Elf64_Shdr *const info = find_section(image, ".nv.info.", name);
    if (info == nullptr)
        return SIZE_MAX;
    const uint8_t *attribute = (const uint8_t *)at(image, info->sh_offset), *const end = attribute + info->sh_size;
    while (attribute + 4 <= end) {
        const size_t bytes = attribute[0] == 4 ? attribute[2] + 256u * attribute[3] : 0;
        uint32_t threads[3];
        if (attribute[1] == MAX_THREADS && bytes == sizeof threads) {
            memcpy(threads, attribute + 4, sizeof threads);
            return (size_t)threads[0] * threads[1] * threads[2];
        }
        attribute += 4 + bytes;
    }
    return SIZE_MAX;
}

bool find_kernel_in_cubin(const void *image, const char *name, image_kernel *kernel)
{
    const Elf64_Sym *const symbol = find_symbol(image, name, STT_FUNC);
    if (symbol == nullptr || ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL)
        return false;
    const Elf64_Shdr *const shared = find_section(image, ".nv.shared.", name);
    kernel->shared_bytes = shared == nullptr ? 0 : shared->sh_size;
    kernel->most_threads = most_threads_of_cubin(image, name);
    return true;
}

/* PTX: its directives, by plain search; comments with directives in them are not expected. */

/* Returns the text after the first separate `directive`, nullptr if there is none. */
const char *after(const char *text, const char *directive)
{
    for (const char *found = text; (found = strstr(found, directive)) != nullptr; ++found)
        if (isspace(found[strlen(directive)]))
            return found + strlen(directive) + 1;
    return nullptr;
}

CUresult check_ptx(const char *text, int arch, int driver)
{
    int major, minor, target;
    const char *const version = after(text, ".version"), *const machine = after(text, ".target");
    if (version == nullptr || sscanf(version, "%d.%d", &major, &minor) != 2)
        return CUDA_ERROR_INVALID_IMAGE;
    if (machine == nullptr || sscanf(machine, " sm_%d", &target) != 1)
        return CUDA_ERROR_INVALID_PTX;
    if (10 * major + minor > newest_ptx(driver))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    return target <= arch ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

/* The number in the brackets of "name[bytes]", where `name` ends; 0 if there is none. */
size_t bracketed(const char *text)
{
    return *text == '[' ? strtoul(text + 1, nullptr, 10) : 0;
}

/* The end of `name` in the first declaration of the kind, which is followed by `next`. */
const char *find_declaration(const char *text, const char *directive, const char *name, char next)
{
    for (const char *rest = after(text, directive); rest != nullptr; rest = after(rest, directive)) {
        const char *const end = rest + strcspn(rest, "[(=;{");
        const char *const begin = end - strlen(name);
        if (*end == next && begin >= rest && strncmp(begin, name, strlen(name)) == 0 &&
            (begin == rest || isspace(begin[-1])))
            return end;
    }
    return nullptr;
}

/* Returns the shared bytes of declarations in [begin, end). */
size_t shared_bytes_of_ptx(const char *begin, const char *end)
{
    size_t bytes = 0;
    for (const char *rest = after(begin, ".shared"); rest != nullptr && rest < end; rest = after(rest, ".shared"))
        bytes += bracketed(rest + strcspn(rest, "[;"));
    return bytes;
}

size_t most_threads_of_ptx(const char *begin, const char *end)
{
    size_t x, y, z;
    const char *const found = after(begin, ".maxntid");
    const bool given = found != nullptr && found < end && sscanf(found, "%zu , %zu , %zu", &x, &y, &z) == 3;
    return given ? x * y * z : SIZE_MAX;
}

bool find_kernel_in_ptx(const char *text, const char *name, image_kernel *kernel)
{
    const char *const begin = find_declaration(text, ".entry", name, '(');
    if (begin == nullptr)
        return false;
    const char *const next = after(begin, ".entry"), *const end = next != nullptr ? next : begin + strlen(begin);
    kernel->shared_bytes = shared_bytes_of_ptx(begin, end);
    kernel->most_threads = most_threads_of_ptx(begin, end);
    return true;
}

/* Values of PTX's types of a table; NVRTC writes tables of structures as bytes. */
size_t bytes_of_type(const char *begin, const char *end)
{
    const struct {
        const char *name;
        size_t bytes;
    } types[] = {{".b8 ", 1},  {".u8 ", 1},  {".s8 ", 1},  {".b16 ", 2}, {".u16 ", 2}, {".s16 ", 2}, {".b32 ", 4},
                 {".u32 ", 4}, {".s32 ", 4}, {".f32 ", 4}, {".b64 ", 8}, {".u64 ", 8}, {".s64 ", 8}, {".f64 ", 8}};
    for (const auto &type : types) {
        const char *const found = strstr(begin, type.name);
        if (found != nullptr && found < end)
            return type.bytes;
    }
    return 0;
}

/* An array "name[count]", or one value "name" before '=' or ';'. */
bool find_table_in_ptx(const char *text, const char *name, size_t *bytes)
{
    for (const char *rest = after(text, ".global"); rest != nullptr; rest = after(rest, ".global")) {
        const char *end = rest + strcspn(rest, "[=;");
        *bytes = (*end == '[' ? bracketed(end) : 1) * bytes_of_type(rest, end);
        while (isspace(end[-1]))
            --end;
        const char *const begin = end - strlen(name);
        if (begin > rest && strncmp(begin, name, strlen(name)) == 0 && isspace(begin[-1]))
            return true;
    }
    return false;
}

bool find_table_in_cubin(const void *image, const char *name, size_t *bytes)
{
    const Elf64_Sym *const symbol = find_symbol(image, name, STT_OBJECT);
    if (symbol != nullptr)
        *bytes = symbol->st_size;
    return symbol != nullptr;
}

} // namespace

CUresult image_check(const void *image, int arch, int driver)
{
    return is_elf(image) ? check_cubin(image, arch, driver) : check_ptx((const char *)image, arch, driver);
}

size_t image_bytes(const void *image)
{
    return is_elf(image) ? cubin_bytes(image) : strlen((const char *)image) + 1;
}

bool image_find_kernel(const void *image, const char *name, image_kernel *kernel)
{
    return is_elf(image) ? find_kernel_in_cubin(image, name, kernel)
                         : find_kernel_in_ptx((const char *)image, name, kernel);
}

bool image_find_table(const void *image, const char *name, size_t *bytes)
{
    return is_elf(image) ? find_table_in_cubin(image, name, bytes)
                         : find_table_in_ptx((const char *)image, name, bytes);
}
