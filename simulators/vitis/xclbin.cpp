#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "experimental/xrt_xclbin.h"
#include "image.hpp"
#include "strict.hpp"

namespace xrt_double {

namespace {

/* Offsets in the file; all numbers are little endian, as on all supported machines. */
enum : size_t {
    LENGTH_AT = 304,
    UUID_AT = 416,
    COUNT_AT = 448,
    SECTIONS_AT = 456,
    SECTION_BYTES = 40,
    OFFSET_IN_SECTION = 24,
    SIZE_IN_SECTION = 32,
    BANK_BYTES = 40,
    UNIT_BYTES = 80,
    CONNECTION_BYTES = 12,
    TAG_BYTES = 16,
    UNIT_NAME_BYTES = 64,
};

enum kind : uint32_t { EMBEDDED_METADATA = 2, MEM_TOPOLOGY = 6, CONNECTIVITY = 7, IP_LAYOUT = 8 };

std::string contents(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw std::runtime_error("Failed to open file '" + path + "' for reading");
    return {std::istreambuf_iterator<char>(file), {}};
}

[[noreturn]] void cut_off(const std::string &path)
{
    throw std::runtime_error("Invalid xclbin '" + path + "': it is cut off");
}

/* Bytes of a file, or of a section, that must be there. */
class bytes {
public:
    bytes(const std::string &content, const std::string &file) : whole(content), path(file) {}

    template <typename NUMBER> NUMBER number(size_t at) const
    {
        NUMBER value;
        memcpy(&value, part(at, sizeof value).data(), sizeof value);
        return value;
    }

    std::string part(size_t at, size_t count) const
    {
        if (at > whole.size() || count > whole.size() - at)
            cut_off(path);
        return whole.substr(at, count);
    }

    /* Up to its zero. */
    std::string text(size_t at, size_t count) const
    {
        return part(at, count).c_str();
    }

    size_t size() const
    {
        return whole.size();
    }

private:
    const std::string &whole, &path;
};

/* Entries behind a section's count; the first stands where its own alignment lets it. */
template <typename TAKE> void each(const bytes &section, size_t first, size_t entry, TAKE take)
{
    for (int32_t i = 0; i < section.number<int32_t>(0); ++i)
        take(first + (size_t)i * entry);
}

void take(image &into, uint32_t kind, const bytes &section)
{
    switch (kind) {
    case EMBEDDED_METADATA:
        into.kernels = read_metadata(section.part(0, section.size()));
        break;
    case MEM_TOPOLOGY:
        each(section, 8, BANK_BYTES, [&](size_t at) {
            into.banks.push_back({section.number<uint8_t>(at + 1) != 0, section.number<uint64_t>(at + 8) * 1024,
                                  section.text(at + 24, TAG_BYTES)});
        });
        break;
    case IP_LAYOUT:
        each(section, 8, UNIT_BYTES, [&](size_t at) { into.units.push_back(section.text(at + 16, UNIT_NAME_BYTES)); });
        break;
    case CONNECTIVITY:
        into.has_connectivity = true;
        each(section, 4, CONNECTION_BYTES, [&](size_t at) {
            into.connections.push_back({section.number<int32_t>(at), section.number<int32_t>(at + 4),
                                        section.number<int32_t>(at + 8)});
        });
        break;
    }
}

} // namespace

const kernel_text *image::kernel(const std::string &name) const
{
    for (const kernel_text &each : kernels)
        if (each.name == name)
            return &each;
    return nullptr;
}

int32_t image::unit_of(const kernel_text &kernel) const
{
    if (kernel.units.size() > 1)
        fail("kernel %s has %zu compute units; the double knows of one", kernel.name.c_str(), kernel.units.size());
    for (size_t i = 0; i < units.size() && !kernel.units.empty(); ++i)
        if (units[i] == kernel.units[0])
            return (int32_t)i;
    throw std::runtime_error("No compute units matching '" + kernel.name + "'");
}

int image::memory_of(const kernel_text &kernel, size_t argument) const
{
    const int32_t unit = unit_of(kernel);
    for (const connection &each : connections)
        if (each.unit == unit && each.argument == (int32_t)argument)
            return each.memory;
    return -1;
}

std::shared_ptr<const image> read_image(const std::string &path)
{
    const std::string whole = contents(path);
    if (whole.compare(0, 8, std::string("xclbin2\0", 8)) != 0)
        throw std::runtime_error("Invalid xclbin '" + path + "'");
    const bytes file(whole, path);
    if (file.number<uint64_t>(LENGTH_AT) > whole.size())
        cut_off(path);
    const auto made = std::make_shared<image>();
    made->path = path;
    made->id = xrt::uuid(reinterpret_cast<const unsigned char *>(file.part(UUID_AT, 16).data()));
    for (uint32_t i = 0; i < file.number<uint32_t>(COUNT_AT); ++i) {
        const size_t head = SECTIONS_AT + i * SECTION_BYTES;
        const std::string section =
            file.part(file.number<uint64_t>(head + OFFSET_IN_SECTION), file.number<uint64_t>(head + SIZE_IN_SECTION));
        take(*made, file.number<uint32_t>(head), bytes(section, path));
    }
    return made;
}

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

uuid::uuid(const unsigned char *from)
{
    memcpy(bytes.data(), from, bytes.size());
}

std::string uuid::to_string() const
{
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text += '-';
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

uuid::operator bool() const
{
    return bytes != decltype(bytes){};
}

bool uuid::operator==(const uuid &other) const
{
    return bytes == other.bytes;
}

bool uuid::operator!=(const uuid &other) const
{
    return bytes != other.bytes;
}

class xclbin::arg_impl {
public:
    std::shared_ptr<const xrt_double::image> image; /* that the argument is of */
    const xrt_double::argument *argument;
    size_t index;
};

class xclbin::kernel_impl {
public:
    std::shared_ptr<const xrt_double::image> image;
    const xrt_double::kernel_text *kernel;
};

namespace {

template <typename HANDLE> const HANDLE &made(const HANDLE &handle, const char *what)
{
    if (!handle)
        xrt_double::fail("%s that was made of nothing is used", what);
    return handle;
}

} // namespace

xclbin::arg::arg(std::shared_ptr<arg_impl> given) : handle(std::move(given))
{
}

std::string xclbin::arg::get_name() const
{
    return made(handle, "an xclbin's argument")->argument->name;
}

std::string xclbin::arg::get_host_type() const
{
    return made(handle, "an xclbin's argument")->argument->type;
}

uint64_t xclbin::arg::get_size() const
{
    return made(handle, "an xclbin's argument")->argument->size;
}

uint64_t xclbin::arg::get_offset() const
{
    return made(handle, "an xclbin's argument")->argument->offset;
}

size_t xclbin::arg::get_index() const
{
    return made(handle, "an xclbin's argument")->index;
}

xclbin::kernel::kernel(std::shared_ptr<kernel_impl> given) : handle(std::move(given))
{
}

std::string xclbin::kernel::get_name() const
{
    return made(handle, "an xclbin's kernel")->kernel->name;
}

size_t xclbin::kernel::get_num_args() const
{
    return made(handle, "an xclbin's kernel")->kernel->arguments.size();
}

std::vector<xclbin::arg> xclbin::kernel::get_args() const
{
    std::vector<arg> found;
    for (const xrt_double::argument &each : made(handle, "an xclbin's kernel")->kernel->arguments)
        found.emplace_back(std::make_shared<arg_impl>(arg_impl{handle->image, &each, found.size()}));
    return found;
}

xclbin::xclbin(const std::string &filename)
    : handle(std::make_shared<xclbin_impl>(xclbin_impl{xrt_double::read_image(filename)}))
{
}

std::vector<xclbin::kernel> xclbin::get_kernels() const
{
    std::vector<kernel> found;
    for (const xrt_double::kernel_text &each : made(handle, "an xclbin")->image->kernels)
        found.emplace_back(std::make_shared<kernel_impl>(kernel_impl{handle->image, &each}));
    return found;
}

uuid xclbin::get_uuid() const
{
    return made(handle, "an xclbin")->image->id;
}

} // namespace stand_in
} // namespace xrt
