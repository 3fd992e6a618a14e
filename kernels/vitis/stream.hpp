/* hls::stream, from Vitis where it is; else a stand-in for C simulation.
 *
 * As in Vitis' own C simulation a stream has no end to its room, and the processes of a dataflow region run one after
 * the other.  Unlike there, an element that is read before it was written, and one that nobody reads, end the program.
 */
#ifndef STREAM_HPP
#define STREAM_HPP

#if defined(__has_include) && __has_include(<hls_stream.h>)
#include <hls_stream.h>
#else

#include <stdio.h>
#include <stdlib.h>

namespace hls {

template <typename T> class stream {
public:
    stream() = default;
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;

    ~stream()
    {
        if (first != last)
            give_up("elements that nobody reads");
        free(elements);
    }

    void write(const T &element)
    {
        if (last == room) {
            room = room ? 2 * room : 1024;
            elements = static_cast<T *>(realloc(elements, room * sizeof(T)));
            if (!elements)
                give_up("more elements than there is memory");
        }
        elements[last++] = element;
    }

    T read()
    {
        if (first == last)
            give_up("no element to read: a process waits for ever");
        return elements[first++];
    }

private:
    T *elements = nullptr;
    size_t first = 0, last = 0, room = 0;

    [[noreturn]] static void give_up(const char *what)
    {
        fprintf(stderr, "C simulation: a stream has %s\n", what);
        abort();
    }
};

} // namespace hls

#endif

#endif
