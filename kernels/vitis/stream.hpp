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
#include <string.h>

#include <mutex>
#include <vector>

#ifndef ELEMENT_BY_ELEMENT
#define STREAM_MOVES_MANY /* with `move`, which is what reading and writing one after the other comes to */
#endif

namespace hls {

/* Reusable memory for the elements of a stream: an allocation for each run takes longer than the run. */
template <typename T> struct storage {
    T *elements;
    size_t room;

    static storage take()
    {
        const std::lock_guard<std::mutex> locked(guard());
        if (unused().empty())
            return {nullptr, 0};
        const storage last = unused().back();
        unused().pop_back();
        return last;
    }

    static void give_back(storage other)
    {
        const std::lock_guard<std::mutex> locked(guard());
        unused().push_back(other);
    }

private:
    static std::mutex &guard()
    {
        static std::mutex mutex;
        return mutex;
    }

    static std::vector<storage> &unused()
    {
        static std::vector<storage> stored;
        return stored;
    }
};

template <typename T, int = 0> class stream { /* the number is of the hardware alone */
public:
    stream() = default;
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;

    ~stream()
    {
        if (first != last)
            give_up("elements that nobody reads");
    }

    void write(const T &element)
    {
        if (last == stored.room)
            make_room(last + 1);
        stored.elements[last++] = element;
    }

    T read()
    {
        if (first == last)
            give_up("no element to read: a process waits for ever");
        const T element = stored.elements[first++];
        release_if_empty();
        return element;
    }

    static void move(stream &from, stream &to, size_t count)
    {
        if (count == 0)
            return;
        if (from.last - from.first < count)
            give_up("no element to read: a process waits for ever");
        if (to.stored.room - to.last < count)
            to.make_room(to.last + count);
        memcpy(&to.stored.elements[to.last], &from.stored.elements[from.first], count * sizeof(T));
        from.first += count;
        from.release_if_empty();
        to.last += count;
    }

private:
    storage<T> stored = {nullptr, 0};
    size_t first = 0, last = 0;

    /* A stream is written, then read: the next one has the memory of one that was. */
    void release_if_empty()
    {
        if (first != last)
            return;
        storage<T>::give_back(stored);
        stored = {nullptr, 0};
        first = last = 0;
    }

    void make_room(size_t least)
    {
        if (stored.room == 0)
            stored = storage<T>::take();
        stored.room = stored.room ? stored.room : 1024;
        while (stored.room < least)
            stored.room *= 2;
        stored.elements = static_cast<T *>(realloc(stored.elements, stored.room * sizeof(T)));
        if (!stored.elements)
            give_up("more elements than there is memory");
    }

    [[noreturn]] static void give_up(const char *what)
    {
        fprintf(stderr, "C simulation: a stream has %s\n", what);
        abort();
    }
};

} // namespace hls

#endif

#endif
