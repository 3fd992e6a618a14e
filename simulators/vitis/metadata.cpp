#include "metadata.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace xrt_double {

namespace {

const char GLOBAL_MEMORY[] = "1"; /* addressQualifier of a buffer */

struct tag {
    std::string name; /* of an end with the slash in front */
    std::map<std::string, std::string> attributes;
};

[[noreturn]] void broken(const std::string &what)
{
    throw std::runtime_error("EMBEDDED_METADATA: " + what);
}

std::string decoded(std::string text)
{
    static const std::pair<const char *, const char *> entities[] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&amp;", "&"}};
    for (const auto &[name, letter] : entities)
        for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at)
            text.replace(at, std::string(name).size(), letter);
    return text;
}

/* Tags one by one; declarations, comments and texts between them are passed over. */
class scanner {
public:
    explicit scanner(const std::string &xml) : text(xml) {}

    bool next(tag &found)
    {
        for (;;) {
            at = text.find('<', at);
            if (at == std::string::npos)
                return false;
            if (text.compare(at, 4, "<!--") == 0)
                pass("-->");
            else if (text[at + 1] == '?' || text[at + 1] == '!')
                pass(">");
            else
                break;
        }
        found = read_tag();
        return true;
    }

private:
    const std::string &text;
    size_t at = 0;

    void pass(const char *end)
    {
        const size_t found = text.find(end, at);
        if (found == std::string::npos)
            broken("it ends too early");
        at = found + std::string(end).size();
    }

    std::string word(const char *delimiters)
    {
        const size_t end = text.find_first_of(delimiters, at);
        if (end == std::string::npos)
            broken("it ends too early");
        std::string found = text.substr(at, end - at);
        at = end;
        return found;
    }

    void pass_blanks()
    {
        at = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
    }

    std::string value()
    {
        pass("=");
        pass_blanks();
        const char quote[] = {text[at], 0};
        if (*quote != '"' && *quote != '\'')
            broken("an attribute without quotes");
        ++at;
        std::string found = word(quote);
        ++at;
        return decoded(found);
    }

    tag read_tag()
    {
        tag found;
        ++at;
        const bool is_end = text[at] == '/';
        at += is_end;
        found.name = (is_end ? "/" : "") + word(" \t\r\n/>");
        for (pass_blanks(); at < text.size() && text[at] != '>' && text[at] != '/'; pass_blanks()) {
            const std::string name = word("= \t\r\n/>");
            found.attributes[name] = value();
        }
        pass(">");
        return found;
    }
};

uint64_t number(const tag &from, const char *name)
{
    const auto found = from.attributes.find(name);
    try {
        return found == from.attributes.end() ? 0 : std::stoull(found->second, nullptr, 0);
    } catch (const std::logic_error &) {
        broken("'" + found->second + "' is no number");
    }
}

argument argument_of(tag &from)
{
    argument made;
    made.name = from.attributes["name"];
    made.type = from.attributes["type"];
    made.index = number(from, "id");
    made.size = number(from, "size");
    made.offset = number(from, "offset");
    made.is_buffer = from.attributes["addressQualifier"] == GLOBAL_MEMORY;
    made.is_written = made.is_buffer && made.type.find("const") == std::string::npos;
    return made;
}

void put_in_order(kernel_text &kernel)
{
    auto &arguments = kernel.arguments;
    std::sort(arguments.begin(), arguments.end(), [](auto &a, auto &b) { return a.index < b.index; });
    for (size_t i = 0; i < arguments.size(); ++i)
        if (arguments[i].index != i)
            broken("kernel " + kernel.name + " has no argument " + std::to_string(i) + ", or two");
}

} // namespace

std::vector<kernel_text> read_metadata(const std::string &xml)
{
    std::vector<kernel_text> kernels;
    bool within = false;
    tag found;
    for (scanner tags(xml); tags.next(found);) {
        if (found.name == "kernel")
            kernels.push_back({found.attributes["name"], {}, {}});
        within |= found.name == "kernel";
        within &= found.name != "/kernel";
        if (within && found.name == "arg")
            kernels.back().arguments.push_back(argument_of(found));
        if (within && found.name == "instance")
            kernels.back().units.push_back(kernels.back().name + ":" + found.attributes["name"]);
    }
    if (within)
        broken("a kernel has no end");
    for (kernel_text &each : kernels)
        put_in_order(each);
    return kernels;
}

} // namespace xrt_double
