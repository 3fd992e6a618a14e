/* fabric.h by XRT's native C++ API. */
#include "fabric.h"

#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <experimental/xrt_xclbin.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include "clock.h"
#include "ending.hpp"

extern "C" [[noreturn]] void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

namespace {

constexpr int EXIT_SYSTEM = 4; /* fail.h, which is C alone */
constexpr size_t LONGEST_NAME = 40;

/* The axlf format (xclbin.h of XRT): a header, which ends with the number of sections, then their heads. */
constexpr size_t SECTION_COUNT_AT = 448, SECTIONS_AT = 456, SECTION_HEAD = 40, SECTION_SIZE_AT = 32;
constexpr char MAGIC[] = "xclbin2"; /* with its zero */

struct section {
    uint32_t kind;
    const char *name;
};
/* Without the last two XRT does not throw but crash. */
constexpr section SECTIONS[] = {{2, "EMBEDDED_METADATA"}, {8, "IP_LAYOUT"}, {6, "MEM_TOPOLOGY"}, {7, "CONNECTIVITY"}};

struct argument {
    const char *name;
    size_t size;
};
constexpr argument ARGUMENTS[] = {{"given", 8}, {"made", 8}, {"vectors", 4}, {"everything", 4},
                                  {"part", 4}, {"layer", 4}, {"given_width", 4}, {"made_width", 4}};
constexpr size_t ARGUMENT_COUNT = sizeof ARGUMENTS / sizeof *ARGUMENTS;
enum { GIVEN, MADE, FIRST_WORD };

constexpr char BUILD[] = "build it and load it: harness firmware";

/* The FPGA, while a kernel is open. */
struct opened {
    xrt::device device;
    xrt::uuid uuid;
    std::string name, xclbin;
    size_t users = 0;
};
std::unique_ptr<opened> fpga;

uint64_t now_ns()
{
    return clock_ns(clock_read());
}

/* XRT throws; whoever calls this is C. */
template <typename WORK> auto guarded(const char *what, const char *advice, WORK work) -> decltype(work())
{
    try {
        return work();
    } catch (const std::bad_alloc &) {
        fail(EXIT_SYSTEM, "%s: there is no memory that the fabric can reach: use a smaller --block", what);
    } catch (const std::exception &error) {
        fail(EXIT_SYSTEM, "%s: %s: %s", what, error.what(), advice);
    }
}

/* A relative path starts at the folder of the program, which brings the file. */
std::string path_of(const char *path)
{
    char program[4096];
    if (path[0] == '/')
        return path;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    if (length <= 0 || (size_t)length == sizeof program)
        throw std::runtime_error("cannot tell the program's folder");
    const std::string folder(program, (size_t)length);
    return folder.substr(0, folder.rfind('/') + 1) + path;
}

template <typename VALUE> VALUE value_at(const std::vector<char> &bytes, size_t at)
{
    VALUE value{};
    if (at + sizeof value <= bytes.size())
        memcpy(&value, &bytes[at], sizeof value);
    return value;
}

bool has_section(const std::vector<char> &bytes, uint32_t kind)
{
    const uint32_t count = value_at<uint32_t>(bytes, SECTION_COUNT_AT);
    for (size_t i = 0; i < count && SECTIONS_AT + (i + 1) * SECTION_HEAD <= bytes.size(); ++i)
        if (value_at<uint32_t>(bytes, SECTIONS_AT + i * SECTION_HEAD) == kind)
            return value_at<uint64_t>(bytes, SECTIONS_AT + i * SECTION_HEAD + SECTION_SIZE_AT) > 0;
    return false;
}

/* Before XRT sees the file: what it does without one of these sections is to crash. */
void check_sections(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file)
        fail(EXIT_SYSTEM, "%s cannot be read: the application of this bundle is not installed: %s", path.c_str(), BUILD);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (bytes.size() < SECTIONS_AT || memcmp(bytes.data(), MAGIC, sizeof MAGIC) != 0)
        fail(EXIT_SYSTEM, "%s is no xclbin: %s", path.c_str(), BUILD);
    for (const section &each : SECTIONS)
        if (!has_section(bytes, each.kind))
            fail(EXIT_SYSTEM, "%s has no section %s: %s", path.c_str(), each.name, BUILD);
}

void check_argument(const std::string &kernel, const argument &expected, const xrt::xclbin::arg &found)
{
    if (found.get_name() != expected.name || found.get_size() != expected.size)
        fail(EXIT_SYSTEM, "argument %s of %s has %zu bytes where this bundle has %s with %zu: %s",
             found.get_name().c_str(), kernel.c_str(), (size_t)found.get_size(), expected.name, expected.size, BUILD);
}

void check_signature(const xrt::xclbin::kernel &kernel)
{
    const std::vector<xrt::xclbin::arg> found = kernel.get_args();
    if (found.size() != ARGUMENT_COUNT)
        fail(EXIT_SYSTEM, "%s has %zu arguments where this bundle has %zu: %s", kernel.get_name().c_str(), found.size(),
             ARGUMENT_COUNT, BUILD);
    for (size_t i = 0; i < ARGUMENT_COUNT; ++i)
        check_argument(kernel.get_name(), ARGUMENTS[i], found[i]);
}

void check_kernels(const xrt::xclbin &file, const std::string &path)
{
    const std::vector<xrt::xclbin::kernel> kernels = file.get_kernels();
    for (size_t i = 0; i < fabric_settings.kernel_count; ++i) {
        const char *name = fabric_settings.kernels[i];
        const xrt::xclbin::kernel *found = nullptr;
        for (const xrt::xclbin::kernel &kernel : kernels)
            if (kernel.get_name() == name)
                found = &kernel;
        if (!found)
            fail(EXIT_SYSTEM, "%s has no kernel %s: %s", path.c_str(), name, BUILD);
        check_signature(*found);
    }
}

/* XRT's no-operation device has none. */
std::string name_of(const xrt::device &device)
{
    try {
        return device.get_info<xrt::info::device::name>();
    } catch (const std::exception &) {
        return "";
    }
}

/* XRT plays a device itself where this variable tells it to: that is no hardware. */
std::string emulation()
{
    const char *mode = getenv("XCL_EMULATION_MODE");
    return mode ? std::string(", XCL_EMULATION_MODE=") + mode : "";
}

void open_fpga()
{
    const std::string path = guarded("starting the fabric", BUILD, [] { return path_of(fabric_settings.xclbin); });
    check_sections(path);
    const xrt::xclbin file = guarded(path.c_str(), BUILD, [&] { return xrt::xclbin(path); });
    guarded(path.c_str(), BUILD, [&] { check_kernels(file, path); });
    auto found = std::make_unique<opened>();
    guarded("opening the FPGA by XRT", "is an application loaded (xmutil listapps), is XRT's driver zocl there, may you "
            "open it (try as root)?", [&] { found->device = xrt::device(0); });
    found->uuid = guarded(path.c_str(), "load this bundle's application (harness firmware), and end what uses another",
                          [&] { return found->device.load_xclbin(file); });
    found->name = name_of(found->device).substr(0, LONGEST_NAME) + emulation();
    found->xclbin = found->uuid.to_string();
    fpga = std::move(found);
}

xrt::bo buffer(const xrt::kernel &kernel, int argument, size_t words)
{
    return xrt::bo(fpga->device, words * sizeof(int32_t), kernel.group_id(argument));
}

} // namespace

/* A kernel and its buffers, mapped.  The run goes before what it uses. */
struct fabric {
    std::string name;
    xrt::kernel kernel;
    xrt::bo given, made;
    int32_t *given_words;
    const int32_t *made_words;
    xrt::run run;

    /* Clears `made`: its content from an earlier program is no answer of this kernel. */
    fabric(const char *called, size_t words_given, size_t words_made)
        : name(called), kernel(fpga->device, fpga->uuid, name), given(buffer(kernel, GIVEN, words_given)),
          made(buffer(kernel, MADE, words_made)), given_words(given.map<int32_t *>()),
          made_words(made.map<int32_t *>()), run(kernel)
    {
        run.set_arg(GIVEN, given);
        run.set_arg(MADE, made);
        memset(made.map<int32_t *>(), 0xA5, words_made * sizeof(int32_t));
        made.sync(XCL_BO_SYNC_BO_TO_DEVICE, words_made * sizeof(int32_t), 0);
    }
};

extern "C" struct fabric *fabric_open(const char *name, size_t given_words, size_t made_words)
{
    if (!fpga)
        open_fpga();
    ++fpga->users;
    return guarded(name, BUILD, [&] {
        const bounded_end bounded;
        return new fabric(name, given_words, made_words);
    });
}

extern "C" void fabric_close(struct fabric *kernel)
{
    delete kernel;
    if (--fpga->users == 0)
        fpga.reset();
}

extern "C" int32_t *fabric_given(const struct fabric *kernel)
{
    return kernel->given_words;
}

extern "C" const int32_t *fabric_made(const struct fabric *kernel)
{
    return kernel->made_words;
}

static void set_question(xrt::run &run, const question &asked)
{
    const uint32_t words[] = {asked.vectors, asked.everything, asked.part,
                              asked.layer, asked.given_width, asked.made_width};
    static_assert(sizeof words == sizeof asked, "all of the question is asked");
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        run.set_arg((int)(FIRST_WORD + i), words[i]);
}

static void wait_for(const std::string &name, xrt::run &run)
{
    const ert_cmd_state state = run.wait(std::chrono::seconds(fabric_settings.timeout_s));
    if (state == ERT_CMD_STATE_TIMEOUT)
        fail(EXIT_SYSTEM, "%s in the fabric has not answered for %u seconds: use a smaller --block, or raise "
             "vitis.timeout_s of the profile; if it hangs, load the application anew (xmutil unloadapp, then "
             "harness firmware)", name.c_str(), fabric_settings.timeout_s);
    if (state != ERT_CMD_STATE_COMPLETED)
        fail(EXIT_SYSTEM, "%s in the fabric ended in state %d of XRT, not %d: see dmesg on the board", name.c_str(),
             (int)state, (int)ERT_CMD_STATE_COMPLETED);
}

static struct fabric_times ask(struct fabric *kernel, const question &asked)
{
    const size_t given = (size_t)asked.vectors * asked.given_width * sizeof(int32_t);
    const size_t made = (size_t)asked.vectors * asked.made_width * sizeof(int32_t);
    set_question(kernel->run, asked);
    const uint64_t begin = now_ns();
    if (given)
        kernel->given.sync(XCL_BO_SYNC_BO_TO_DEVICE, given, 0);
    const uint64_t there = now_ns();
    kernel->run.start();
    wait_for(kernel->name, kernel->run);
    const uint64_t done = now_ns();
    kernel->made.sync(XCL_BO_SYNC_BO_FROM_DEVICE, made, 0);
    return {there - begin, done - there, now_ns() - done};
}

extern "C" struct fabric_times fabric_ask(struct fabric *kernel, const struct question *asked)
{
    return guarded(kernel->name.c_str(), "see dmesg on the board", [&] { return ask(kernel, *asked); });
}

extern "C" const char *fabric_name(void)
{
    return fpga ? fpga->name.c_str() : "";
}

extern "C" const char *fabric_xclbin(void)
{
    return fpga ? fpga->xclbin.c_str() : "";
}
