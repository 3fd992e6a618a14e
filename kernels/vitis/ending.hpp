/* The end of the process, in bounded time and with its own status.
 *
 * With its first kernel XRT starts a thread, for which it waits as the process exits.  XRT 2.13 wakes it without its
 * lock: one that is not asleep yet then sleeps for ever, and the process with it (seen in one of 140 that fail with
 * their first kernel, and one of 1000 that succeed).
 */
#ifndef ENDING_HPP
#define ENDING_HPP

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

constexpr unsigned LONGEST_END_S = 2;

inline volatile std::sig_atomic_t status_at_end;

inline void end_at_once(int)
{
    _exit(status_at_end);
}

inline void begin_end(int status, void *)
{
    fflush(nullptr);
    status_at_end = status;
    signal(SIGALRM, end_at_once);
    alarm(LONGEST_END_S);
}

/* Whatever XRT has begun while this was there, at the end it is waited for no longer.
 * It goes after XRT's calls, whether they throw or not: what is registered last for the end comes first.
 */
struct bounded_end {
    ~bounded_end()
    {
        if (on_exit(begin_end, nullptr) != 0)
            fputs("no memory for what is to be done at the end\n", stderr);
    }
};

#endif
