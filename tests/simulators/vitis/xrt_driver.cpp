/* One call of a kernel by XRT's native C++ API, and everything that a program can do wrong with it:
 *
 *     xrt_driver XCLBIN KERNEL PART LAYER VECTORS [MISUSE]
 *
 * The kernel takes and makes WIDTH words a vector.  Tells what it sees on standard output, a line each, and the words
 * that were made at the end; an exception in a line that begins "threw: ", and ends with 1.
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <experimental/xrt_xclbin.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>
#include <xrt/xrt_uuid.h>

#include "ending.hpp"

namespace {

enum { GIVEN, MADE, VECTORS, EVERYTHING, PART, LAYER, GIVEN_WIDTH, MADE_WIDTH, WIDTH = 8 };

std::string misuse;

bool does(const char *what)
{
    return misuse == what;
}

void tell_kernels(const xrt::xclbin &file)
{
    for (const xrt::xclbin::kernel &kernel : file.get_kernels()) {
        printf("kernel %s:", kernel.get_name().c_str());
        for (const xrt::xclbin::arg &argument : kernel.get_args())
            printf(" %s %d", argument.get_name().c_str(), (int)argument.get_size());
        printf("\n");
    }
}

void tell_name(const xrt::device &device)
{
    std::string name = "without a name";
    try {
        name = device.get_info<xrt::info::device::name>();
    } catch (const std::exception &) {
    }
    printf("device: %s\n", name.c_str());
}

struct call {
    xrt::kernel kernel;
    xrt::bo given, made;
    std::unique_ptr<xrt::run> run;
    size_t words;

    call(const xrt::device &device, const xrt::uuid &uuid, const std::string &name, size_t vectors)
        : kernel(device, uuid, name), words(vectors * WIDTH)
    {
        printf("groups: %d %d\n", kernel.group_id(GIVEN), kernel.group_id(MADE));
        given = xrt::bo(device, words * sizeof(int32_t), kernel.group_id(GIVEN));
        made = xrt::bo(device, words * sizeof(int32_t), kernel.group_id(MADE));
        run = std::make_unique<xrt::run>(kernel);
    }

    void fill()
    {
        int32_t *values = given.map<int32_t *>();
        for (size_t i = 0; i < words; ++i)
            values[i] = (int32_t)(3 * i) - 7;
        if (does("sync too little"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, (words - 1) * sizeof(int32_t), 0);
        else if (does("sync the end"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, sizeof(int32_t), (words - 1) * sizeof(int32_t));
        else if (does("sync in two parts")) {
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, 5 * sizeof(int32_t), 0);
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, (words - 5) * sizeof(int32_t), 5 * sizeof(int32_t));
        } else if (does("sync the first word"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, sizeof(int32_t), 0);
        else if (does("sync nothing but the end"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, 0, words * sizeof(int32_t));
        else if (!does("no sync"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    }

    void set_arguments(uint32_t vectors, uint32_t part, uint32_t layer)
    {
        if (!does("argument not set"))
            run->set_arg(GIVEN, given);
        run->set_arg(MADE, does("one buffer twice") ? given : made);
        run->set_arg(VECTORS, vectors);
        run->set_arg(EVERYTHING, (uint32_t)0);
        run->set_arg(PART, part);
        run->set_arg(LAYER, layer);
        run->set_arg(GIVEN_WIDTH, (uint32_t)WIDTH);
        if (!does("scalar not set"))
            run->set_arg(MADE_WIDTH, (uint32_t)WIDTH);
    }

    /* What goes wrong before the start. */
    void misuse_arguments(const xrt::device &device)
    {
        if (does("scalar too large"))
            run->set_arg(VECTORS, (uint64_t)1);
        if (does("scalar too small"))
            run->set_arg(VECTORS, (uint16_t)1);
        if (does("scalar for buffer"))
            run->set_arg(GIVEN, (uint64_t)4096);
        if (does("word for buffer"))
            run->set_arg(GIVEN, (uint32_t)4096);
        if (does("buffer for scalar"))
            run->set_arg(VECTORS, given);
        if (does("one argument more"))
            run->set_arg(MADE_WIDTH + 1, (uint32_t)1);
        if (does("argument before the first"))
            run->set_arg(-1, (uint32_t)1);
        if (does("group of a scalar"))
            printf("group %d\n", kernel.group_id(VECTORS));
        if (does("group of one argument more"))
            printf("group %d\n", kernel.group_id(MADE_WIDTH + 1));
        if (does("other group"))
            run->set_arg(GIVEN, xrt::bo(device, words * sizeof(int32_t), 1));
        if (does("no such group"))
            run->set_arg(GIVEN, xrt::bo(device, words * sizeof(int32_t), 7));
        if (does("no bytes"))
            run->set_arg(GIVEN, xrt::bo(device, 0, kernel.group_id(GIVEN)));
        if (does("no buffer"))
            run->set_arg(GIVEN, xrt::bo());
        if (does("too many bytes"))
            run->set_arg(GIVEN, xrt::bo(device, (size_t)1 << 40, kernel.group_id(GIVEN)));
        if (does("sync too much"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, words * sizeof(int32_t) + 4, 0);
        if (does("sync beyond"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, 4, words * sizeof(int32_t));
        if (does("sync nothing")) {
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE, 0, 0);
            made.sync(XCL_BO_SYNC_BO_TO_DEVICE, 0, words * sizeof(int32_t));
        }
        if (does("sync nothing but that"))
            made.sync(XCL_BO_SYNC_BO_FROM_DEVICE, 0, 0);
        if (does("read a fresh buffer"))
            printf("fresh: %d\n", made.map<int32_t *>()[words - 1]);
        if (does("sync what nobody made"))
            made.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
        if (does("touch behind"))
            printf("%d\n", given.map<volatile int32_t *>()[words]);
        if (does("wait before start"))
            printf("state %d\n", run->wait(std::chrono::milliseconds(100)));
        if (does("start with a destroyed buffer"))
            given = xrt::bo();
        if (does("touch a destroyed buffer")) {
            const volatile int32_t *values = given.map<int32_t *>();
            run->set_arg(GIVEN, made);
            given = xrt::bo();
            printf("%d\n", values[0]);
        }
    }

    /* What goes wrong before its end is told. */
    void misuse_run()
    {
        if (does("start twice"))
            run->start();
        if (does("argument while running"))
            run->set_arg(VECTORS, (uint32_t)1);
        if (does("sync while running"))
            given.sync(XCL_BO_SYNC_BO_TO_DEVICE);
        if (does("results while running"))
            made.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
        if (does("touch while running"))
            printf("%d\n", given.map<volatile int32_t *>()[0]);
        if (does("destroy a buffer while running"))
            given = xrt::bo();
        if (does("destroy while running"))
            run.reset();
        if (does("another run while running"))
            start_another(given, made);
    }

    /* A second run, with one buffer of the first. */
    void misuse_buffers(const xrt::device &device)
    {
        if (does("read while written"))
            start_another(made, xrt::bo(device, words * sizeof(int32_t), kernel.group_id(MADE)));
        if (does("write while read"))
            start_another(xrt::bo(device, words * sizeof(int32_t), kernel.group_id(GIVEN)), given);
    }

    void start_another(const xrt::bo &from, const xrt::bo &to)
    {
        xrt::run other(kernel);
        for (int i = VECTORS; i <= MADE_WIDTH; ++i)
            other.set_arg(i, (uint32_t)0);
        other.set_arg(GIVEN, from);
        other.set_arg(MADE, to);
        other.start();
    }

    /* What is right: a second one, which waits for the kernel, and whose given buffer is the same. */
    void run_beside(const xrt::device &device)
    {
        xrt::bo beside(device, words * sizeof(int32_t), kernel.group_id(MADE));
        xrt::run other(kernel);
        other.set_arg(GIVEN, given);
        other.set_arg(MADE, beside);
        const uint32_t scalars[] = {(uint32_t)(words / WIDTH), 0, 0, 0, WIDTH, WIDTH};
        for (int i = VECTORS; i <= MADE_WIDTH; ++i)
            other.set_arg(i, scalars[i - VECTORS]);
        other.start();
        other.wait();
        beside.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    }

    ert_cmd_state wait()
    {
        const char *text = getenv("DRIVER_TIMEOUT_MS");
        const ert_cmd_state state = run->wait(std::chrono::milliseconds(text ? atoi(text) : 0));
        printf("state: %d\n", state);
        return state;
    }

    void tell_results()
    {
        if (does("results of the run before")) {
            made.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
            run->start();
            run->wait();
        } else if (!does("no sync back"))
            made.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
        const int32_t *values = made.map<int32_t *>();
        for (size_t i = 0; i < words; ++i)
            printf("%d%c", values[i], i + 1 == words ? '\n' : ' ');
    }
};

void load_another(xrt::device &device, call &used, const xrt::uuid &before)
{
    const char *path = getenv("DRIVER_OTHER");
    if (does("same xclbin again"))
        device.load_xclbin(path);
    if (misuse.compare(0, 6, "other ") != 0)
        return;
    device.load_xclbin(path);
    if (does("other loaded, start"))
        used.run->start();
    if (does("other loaded, run"))
        xrt::run(used.kernel).set_arg(VECTORS, (uint32_t)1);
    if (does("other loaded, group"))
        used.kernel.group_id(GIVEN);
    if (does("other loaded, sync"))
        used.given.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    if (does("other loaded, map"))
        used.given.map();
    if (does("other loaded, kernel"))
        xrt::kernel(device, before, "first_kernel");
}

/* Gives back when the last of it goes, as everything that a program holds. */
void leak(call &used)
{
    if (does("leak a buffer"))
        new xrt::bo(used.made);
    if (does("leak a run"))
        new xrt::run(*used.run);
}

int drive(const char *path, const char *name, uint32_t part, uint32_t layer, uint32_t vectors)
{
    xrt::device device(does("another device") ? 1 : 0);
    if (does("kernel before load"))
        xrt::kernel(device, xrt::uuid(), name);
    if (does("buffer before load"))
        xrt::bo(device, 4, 0);
    const xrt::xclbin file{std::string(path)};
    tell_kernels(file);
    const xrt::uuid uuid = device.load_xclbin(file);
    printf("uuid: %s\n", uuid.to_string().c_str());
    tell_name(device);
    call used(device, uuid, name, vectors);
    used.fill();
    used.set_arguments(vectors, part, layer);
    used.misuse_arguments(device);
    load_another(device, used, uuid);
    const char *runs = getenv("DRIVER_RUNS");
    for (int i = runs ? atoi(runs) : 1; i > 0; --i) {
        used.run->start();
        used.misuse_run();
        used.misuse_buffers(device);
        if (does("two runs at once"))
            used.run_beside(device);
        const ert_cmd_state state = used.wait();
        if (state != ERT_CMD_STATE_COMPLETED)
            return 2;
    }
    leak(used);
    used.tell_results();
    return 0;
}

} // namespace

int main(int count, char **words)
{
    if (count < 6)
        return 64;
    misuse = count > 6 ? words[6] : "";
    setvbuf(stdout, nullptr, _IOLBF, 0);
    try {
        const bounded_end bounded;
        return drive(words[1], words[2], (uint32_t)atoi(words[3]), (uint32_t)atoi(words[4]), (uint32_t)atoi(words[5]));
    } catch (const std::bad_alloc &) {
        printf("threw: no memory\n");
    } catch (const std::exception &error) {
        printf("threw: %s\n", error.what());
    }
    return 1;
}
