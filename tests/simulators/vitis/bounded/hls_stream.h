/* hls::stream as the fabric has it: with an end to its room, between processes that run side by side.
 *
 * Whether processes of this kind come to stand still depends on the rooms alone, not on who runs when (Kahn, Parks).
 */
#ifndef HLS_STREAM_H
#define HLS_STREAM_H

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace hls {

/* The processes of a kernel that runs: when all that have not ended wait, none ever goes on. */
struct region {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned alive = 0, waiting = 0; /* those that have looked since something changed */
    unsigned long changes = 0;
    std::vector<std::thread> processes;

    static region *&current()
    {
        static region *now;
        return now;
    }

    void check()
    {
        if (alive == 0 || waiting < alive)
            return;
        fprintf(stderr, "deadlock: all processes that have not ended wait\n");
        abort();
    }

    template <typename CONDITION> void wait(std::unique_lock<std::mutex> &lock, CONDITION is_met)
    {
        while (!is_met()) {
            ++waiting;
            check();
            const unsigned long seen = changes;
            changed.wait(lock, [this, seen] { return changes != seen; });
        }
    }

    void tell()
    {
        waiting = 0;
        ++changes;
        changed.notify_all();
    }
};

template <typename T, int DEPTH = 0> class stream {
public:
    stream()
    {
    }

    ~stream()
    {
        if (stored.empty())
            return;
        fprintf(stderr, "elements that nobody reads\n");
        abort();
    }

    size_t room = ROOM ? ROOM : DEPTH ? DEPTH : 2;

    void write(const T &element)
    {
        region &now = *region::current();
        std::unique_lock<std::mutex> lock(now.mutex);
        now.wait(lock, [this] { return stored.size() < room; });
        stored.push(element);
        now.tell();
    }

    T read()
    {
        region &now = *region::current();
        std::unique_lock<std::mutex> lock(now.mutex);
        now.wait(lock, [this] { return !stored.empty(); });
        const T element = stored.front();
        stored.pop();
        now.tell();
        return element;
    }

private:
    std::queue<T> stored;
};

/* A dataflow region: its processes begin together when all are known. */
struct dataflow {
    region own;

    dataflow()
    {
        region::current() = &own;
    }

    template <typename WORK> void operator+=(WORK work)
    {
        std::lock_guard<std::mutex> lock(own.mutex);
        own.processes.emplace_back([this, work] {
            {
                std::unique_lock<std::mutex> begun(own.mutex);
                own.changed.wait(begun, [this] { return own.alive != 0; });
            }
            work();
            std::lock_guard<std::mutex> ended(own.mutex);
            --own.alive;
            own.check();
        });
    }

    void run()
    {
        {
            std::lock_guard<std::mutex> lock(own.mutex);
            own.alive = (unsigned)own.processes.size();
            own.changed.notify_all();
        }
        for (std::thread &process : own.processes)
            process.join();
    }
};

} // namespace hls

#endif
