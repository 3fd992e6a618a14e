#include <condition_variable>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "alive.hpp"
#include "bo.hpp"
#include "faults.hpp"
#include "kernel.hpp"
#include "strict.hpp"

namespace xrt_double {

namespace {

enum { IDENTITY = 4, IDENTITY_WORDS = 8 }; /* see kernels/vitis/layer.hpp */

struct value {
    bool is_set = false;
    uint64_t scalar = 0;
    std::weak_ptr<xrt::bo_impl> buffer;
    struct buffer *lent = nullptr; /* to the run that is under way, or was last */
};

/* One call of a kernel, which its thread may outlive the run by. */
struct execution {
    std::shared_ptr<xrt::kernel_impl> kernel;
    std::vector<uint64_t> arguments;
    run_fault fault;
    std::mutex mutex;
    std::condition_variable ended;
    ert_cmd_state state = ERT_CMD_STATE_RUNNING;
};

const uint64_t *named(const execution &call, const char *name)
{
    const auto &arguments = call.kernel->text->arguments;
    for (size_t i = 0; i < arguments.size(); ++i)
        if (arguments[i].name == name)
            return &call.arguments[i];
    return nullptr;
}

void lie_about_identity(const execution &call)
{
    const uint64_t *part = named(call, "part"), *made = named(call, "made");
    if (!part || !made || *part != IDENTITY || !fault_of_identity())
        return;
    uint32_t *words = reinterpret_cast<uint32_t *>(*made);
    for (int i = 0; i < IDENTITY_WORDS; ++i)
        words[i] = ~words[i];
}

ert_cmd_state call_kernel(const execution &call)
{
    std::lock_guard<std::mutex> lock(call.kernel->unit->working);
    if (call.fault == run_fault::hang)
        call.kernel->unit->hangs = true;
    if (call.kernel->unit->hangs)
        return ERT_CMD_STATE_RUNNING;
    if (call.fault == run_fault::error)
        return ERT_CMD_STATE_ERROR;
    running = call.kernel->name();
    call.kernel->unit->simulated->call(call.arguments.data());
    lie_about_identity(call);
    return ERT_CMD_STATE_COMPLETED;
}

void execute(const std::shared_ptr<execution> &call)
{
    const ert_cmd_state state = call_kernel(*call);
    std::lock_guard<std::mutex> lock(call->mutex);
    call->state = state;
    call->ended.notify_all();
}

} // namespace

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

using xrt_double::fail;

class run_impl {
public:
    explicit run_impl(std::shared_ptr<kernel_impl> of)
        : kernel(std::move(of)), values(kernel->text->arguments.size()), alive(std::string("run of ") + kernel->name())
    {
    }

    ~run_impl()
    {
        if (!call)
            return;
        if (!overdue)
            fail("a run of %s is destroyed, and wait has not told its end", kernel->name());
        thread.detach();
    }

    void set(int index, const void *scalar, size_t bytes)
    {
        const xrt_double::argument &argument = checked(index);
        if (argument.is_buffer)
            fail("set_arg: '%s' of %s is a buffer, not a scalar", argument.name.c_str(), kernel->name());
        if (bytes != argument.size)
            fail("set_arg: '%s' of %s has %zu bytes; given were %zu", argument.name.c_str(), kernel->name(),
                 (size_t)argument.size, bytes);
        if (bytes > sizeof values[(size_t)index].scalar)
            fail("set_arg: '%s' of %s is larger than a register pair", argument.name.c_str(), kernel->name());
        values[(size_t)index].scalar = 0;
        memcpy(&values[(size_t)index].scalar, scalar, bytes);
        values[(size_t)index].is_set = true;
    }

    void set(int index, const std::shared_ptr<bo_impl> &buffer)
    {
        const xrt_double::argument &argument = checked(index);
        if (!argument.is_buffer)
            fail("set_arg: '%s' of %s is a scalar, not a buffer", argument.name.c_str(), kernel->name());
        if (!buffer)
            fail("set_arg: the buffer for '%s' was made of nothing", argument.name.c_str());
        xrt_double::check_loaded(buffer->loaded, "set_arg of a buffer");
        const int group = kernel->loaded.image->memory_of(*kernel->text, (size_t)index);
        if (group != (int)buffer->buffer->group)
            fail("set_arg: buffer %u lies in memory group %u; '%s' of %s reaches %d", buffer->buffer->number,
                 buffer->buffer->group, argument.name.c_str(), kernel->name(), group);
        values[(size_t)index].buffer = buffer;
        values[(size_t)index].is_set = true;
    }

    void start()
    {
        xrt_double::check_loaded(kernel->loaded, "start");
        if (call)
            fail("start: a run of %s is started, and wait has not told the end of it before", kernel->name());
        auto made = std::make_shared<xrt_double::execution>();
        made->kernel = kernel;
        made->fault = xrt_double::fault_of_run();
        for (size_t i = 0; i < values.size(); ++i)
            made->arguments.push_back(lend(i));
        call = made;
        state = ERT_CMD_STATE_RUNNING;
        overdue = false;
        thread = std::thread(xrt_double::execute, made);
    }

    ert_cmd_state wait(const std::chrono::milliseconds &timeout)
    {
        if (state == ERT_CMD_STATE_NEW)
            fail("wait: the run of %s was never started", kernel->name());
        if (!call)
            return state;
        std::unique_lock<std::mutex> lock(call->mutex);
        const auto is_over = [this] { return call->state != ERT_CMD_STATE_RUNNING; };
        if (timeout.count() == 0)
            call->ended.wait(lock, is_over);
        else if (!call->ended.wait_for(lock, timeout, is_over)) {
            give_up();
            return ERT_CMD_STATE_TIMEOUT;
        }
        state = call->state;
        lock.unlock();
        settle();
        return state;
    }

private:
    const std::shared_ptr<kernel_impl> kernel;
    std::vector<xrt_double::value> values;
    std::shared_ptr<xrt_double::execution> call; /* whose end wait has not told */
    ert_cmd_state state = ERT_CMD_STATE_NEW;
    bool overdue = false; /* wait has told that it takes too long */
    std::thread thread;
    const xrt_double::alive alive;

    const xrt_double::argument &checked(int index)
    {
        xrt_double::check_loaded(kernel->loaded, "set_arg");
        if (call)
            fail("set_arg: argument %d of a run of %s, of which wait has not told the end", index, kernel->name());
        if (index < 0 || (size_t)index >= values.size())
            throw std::out_of_range("No such argument " + std::to_string(index) + " of kernel " + kernel->name());
        return kernel->text->arguments[(size_t)index];
    }

    uint64_t lend(size_t index)
    {
        const xrt_double::argument &argument = kernel->text->arguments[index];
        xrt_double::value &value = values[index];
        if (!value.is_set)
            fail("start of %s: argument '%s' was never set", kernel->name(), argument.name.c_str());
        if (!argument.is_buffer)
            return value.scalar;
        const std::shared_ptr<bo_impl> buffer = value.buffer.lock();
        if (!buffer)
            fail("start of %s: the buffer for '%s' is destroyed", kernel->name(), argument.name.c_str());
        value.lent = buffer->buffer;
        for (size_t i = 0; i < index; ++i)
            if (values[i].lent == value.lent && (argument.is_written || kernel->text->arguments[i].is_written))
                fail("start of %s: buffer %u is two of its arguments, and it writes to one", kernel->name(),
                     value.lent->number);
        return reinterpret_cast<uint64_t>(value.lent->lend(kernel->name(), argument.is_written));
    }

    /* The program has seen that it takes too long: it may now go without it. */
    void give_up()
    {
        overdue = true;
        for (const xrt_double::value &value : values)
            if (value.lent)
                value.lent->abandon();
    }

    void settle()
    {
        thread.join();
        for (size_t i = 0; i < values.size(); ++i)
            if (values[i].lent)
                values[i].lent->give_back(kernel->name(), kernel->text->arguments[i].is_written);
        call.reset();
    }
};

namespace {

const std::shared_ptr<run_impl> &used(const std::shared_ptr<run_impl> &handle, const char *what)
{
    if (!handle)
        fail("%s: the run was made of nothing", what);
    return handle;
}

} // namespace

run::run(const kernel &kernel)
{
    if (!kernel)
        fail("a run is made of a kernel that was made of nothing");
    xrt_double::check_loaded(kernel.get_handle()->loaded, "run");
    handle = std::make_shared<run_impl>(kernel.get_handle());
}

void run::set_scalar(int index, const void *value, size_t bytes)
{
    used(handle, "set_arg")->set(index, value, bytes);
}

void run::set_buffer(int index, const bo &buffer)
{
    used(handle, "set_arg")->set(index, buffer.get_handle());
}

void run::start()
{
    used(handle, "start")->start();
}

ert_cmd_state run::wait(const std::chrono::milliseconds &timeout) const
{
    return used(handle, "wait")->wait(timeout);
}

} // namespace stand_in
} // namespace xrt
