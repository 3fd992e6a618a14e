#include "block.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "registry.h"

SIMULATED_PER_THREAD uint3 threadIdx;
uint3 blockIdx, blockDim, gridDim;
__attribute__((aligned(32))) unsigned char simulated_dynamic_memory[SIMULATED_MOST_SHARED + SIMULATED_GUARD];

/* All shared memory, by its section, which the linker delimits. */
extern "C" SIMULATED_HIDDEN char __start_simulated_shared[], __stop_simulated_shared[];

namespace {

constexpr unsigned MOST_THREADS = 1024;

constexpr unsigned char SPOILT = 0xa5, GUARD = 0x5a;

const simulated_kernel *running;
size_t dynamic_bytes;

unsigned thread_count()
{
    return blockDim.x * blockDim.y * blockDim.z;
}

uint3 thread_at(unsigned number)
{
    return {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
}

bool same(simulated_site a, simulated_site b)
{
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void complain_of_barrier(simulated_site site, const char *what)
{
    fprintf(stderr, "host-simulation of CUDA: %s, block (%u, %u, %u): the barrier at %s:%d %s\n", running->name,
            blockIdx.x, blockIdx.y, blockIdx.z, site.file, site.line, what);
}

/* Blocks of several streams take turns. */
pthread_mutex_t multiprocessor = PTHREAD_MUTEX_INITIALIZER;
void *const *last_launch; /* whose block ran last, by its parameters */

/* A GPU gives a block whatever another has left; a kernel may not rely on it. */
void spoil_shared_memory()
{
    __attribute__((section("simulated_shared"))) static char never_empty;
    asm volatile("" : : "r"(&never_empty)); /* lest the linker drops a section without variables */
    memset(__start_simulated_shared, SPOILT, (size_t)(__stop_simulated_shared - __start_simulated_shared));
    memset(simulated_dynamic_memory, SPOILT, dynamic_bytes);
    memset(simulated_dynamic_memory + dynamic_bytes, GUARD, SIMULATED_GUARD);
}

bool guard_is_whole()
{
    for (size_t i = 0; i < SIMULATED_GUARD; ++i)
        if (simulated_dynamic_memory[dynamic_bytes + i] != GUARD) {
            fprintf(stderr, "host-simulation of CUDA: %s writes behind its %zu bytes of shared memory\n", running->name,
                    dynamic_bytes);
            return false;
        }
    return true;
}

/* Jump target for a barrier in threads that run as a loop: it ends the launch. */
jmp_buf no_barrier;

bool run_loop(void *const *parameters)
{
    if (_setjmp(no_barrier) != 0)
        return false;
    running->block(parameters);
    return true;
}

[[noreturn]] void refuse_barrier(simulated_site site)
{
    complain_of_barrier(site, "stands in a kernel that is listed without barriers");
    _longjmp(no_barrier, 1);
}

/* State of the threads of a block since their last barrier. */
struct Muster {
    unsigned waiting, ended;
    simulated_site site;
    bool elsewhere; /* threads wait at different barriers */

    void wait(simulated_site at)
    {
        elsewhere = elsewhere || (waiting > 0 && !same(site, at));
        site = at;
        ++waiting;
    }

    /* To be asked when no thread can move. */
    bool is_broken() const
    {
        return elsewhere || (waiting > 0 && ended > 0);
    }

    void complain() const
    {
        char what[100];
        snprintf(what, sizeof what, "is not reached by all threads: %u wait there or at another, %u have ended",
                 waiting, ended);
        complain_of_barrier(site, what);
    }
};

#ifdef SIMULATION_THREADS

struct Thread {
    pthread_t handle;
    unsigned number;
    jmp_buf end;
};

/* A barrier of a block or of a warp.  Each has a lock of its own, lest one barrier orders what another does not. */
struct Meeting {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    unsigned crossings;
    Muster muster;
};

Thread threads[MOST_THREADS];
__thread Thread *self;
Meeting of_block, of_warps[MOST_THREADS / SIMULATED_WARP];
unsigned blocked; /* threads that wait or have ended; atomic without an order */
int broken;       /* atomic, too */
void *const *arguments;

void break_off(const Muster &muster)
{
    if (muster.waiting > 0 && !__atomic_exchange_n(&broken, 1, __ATOMIC_RELAXED))
        muster.complain();
}

/* No thread can move: the barrier of a warp, if one waits, is the reason. */
void end_all()
{
    for (Meeting &meeting : of_warps) {
        pthread_mutex_lock(&meeting.lock);
        break_off(meeting.muster);
        pthread_mutex_unlock(&meeting.lock);
    }
    pthread_mutex_lock(&of_block.lock);
    break_off(of_block.muster);
    pthread_mutex_unlock(&of_block.lock);
    for (Meeting &meeting : of_warps)
        pthread_cond_broadcast(&meeting.all_here);
    pthread_cond_broadcast(&of_block.all_here);
}

bool nobody_moves()
{
    return __atomic_add_fetch(&blocked, 1, __ATOMIC_RELAXED) == thread_count();
}

void meet(Meeting &meeting, unsigned expected, simulated_site site)
{
    pthread_mutex_lock(&meeting.lock);
    const unsigned before = meeting.crossings;
    meeting.muster.wait(site);
    bool stuck = false;
    if (meeting.muster.waiting == expected && !meeting.muster.elsewhere) {
        __atomic_sub_fetch(&blocked, expected - 1, __ATOMIC_RELAXED);
        meeting.muster.waiting = 0;
        ++meeting.crossings;
        pthread_cond_broadcast(&meeting.all_here);
    } else {
        stuck = nobody_moves();
    }
    if (stuck) {
        pthread_mutex_unlock(&meeting.lock);
        end_all();
        pthread_mutex_lock(&meeting.lock);
    }
    while (meeting.crossings == before && !__atomic_load_n(&broken, __ATOMIC_RELAXED))
        pthread_cond_wait(&meeting.all_here, &meeting.lock);
    pthread_mutex_unlock(&meeting.lock);
    if (__atomic_load_n(&broken, __ATOMIC_RELAXED))
        _longjmp(self->end, 1);
}

void meet(simulated_site site)
{
    meet(of_block, thread_count(), site);
}

void meet_warp(simulated_site site)
{
    meet(of_warps[self->number / SIMULATED_WARP], SIMULATED_WARP, site);
}

void *run_thread(void *thread)
{
    self = (Thread *)thread;
    threadIdx = thread_at(self->number);
    if (_setjmp(self->end) == 0)
        running->thread(arguments);
    if (__atomic_load_n(&broken, __ATOMIC_RELAXED))
        return nullptr;
    pthread_mutex_lock(&of_block.lock);
    const bool others = ++of_block.muster.ended < thread_count();
    pthread_mutex_unlock(&of_block.lock);
    if (nobody_moves() && others)
        end_all();
    return nullptr;
}

void start(Thread &thread)
{
    if (pthread_create(&thread.handle, nullptr, run_thread, &thread) == 0)
        return;
    fputs("host-simulation of CUDA: cannot start as many threads as a block has\n", stderr);
    abort();
}

bool run_together(void *const *parameters)
{
    arguments = parameters;
    of_block.muster = {};
    for (Meeting &meeting : of_warps)
        meeting.muster = {};
    blocked = 0;
    broken = 0;
    for (unsigned number = 0; number < thread_count(); ++number) {
        threads[number].number = number;
        start(threads[number]);
    }
    for (unsigned number = 0; number < thread_count(); ++number)
        pthread_join(threads[number].handle, nullptr);
    return !broken;
}

#else

#include "fibre.h"

struct Thread {
    Fibre fibre;
    uint3 index;
};

Thread threads[MOST_THREADS];
Muster muster, of_warp; /* of all threads, and of the current warp: no other one can wait */
unsigned current, stacks;
Fibre whole_block; /* returns when all threads have ended, or one waits for ever */
void *const *arguments;

bool is_broken()
{
    return of_warp.waiting > 0 || muster.is_broken();
}

/* Every thread waits or has ended: the first thread's turn, if all have met. */
Fibre *next_round()
{
    if (muster.ended == thread_count() || muster.is_broken())
        return &whole_block;
    muster.waiting = 0;
    current = 0;
    return &threads[0].fibre;
}

bool ends_its_warp(unsigned number)
{
    return number % SIMULATED_WARP == SIMULATED_WARP - 1 || number + 1 == thread_count();
}

/* The last thread of a warp goes on only where no other one waits for its warp. */
Fibre *next_thread()
{
    if (ends_its_warp(current) && of_warp.waiting > 0)
        return &whole_block;
    return current + 1 < thread_count() ? &threads[++current].fibre : next_round();
}

void turn_to(Fibre *from, Fibre *to)
{
    threadIdx = threads[current].index;
    if (from != to)
        switch_fibre(from, to);
}

/* The next thread's turn, which comes back at the next barrier. */
void give_way()
{
    Fibre *const from = &threads[current].fibre;
    turn_to(from, next_thread());
}

/* Barrier of a warp; its first thread continues when the last has arrived. */
void meet_warp(simulated_site site)
{
    Fibre *const from = &threads[current].fibre;
    of_warp.wait(site);
    if (of_warp.waiting == SIMULATED_WARP && !of_warp.elsewhere) {
        of_warp = {};
        current -= SIMULATED_WARP - 1;
        turn_to(from, &threads[current].fibre);
    } else {
        turn_to(from, next_thread());
    }
}

[[noreturn]] void run_thread()
{
    running->thread(arguments);
    ++muster.ended;
    give_way();
    abort(); /* nobody goes on with a thread that has ended */
}

void meet(simulated_site site)
{
    muster.wait(site);
    give_way();
}

bool run_together(void *const *parameters)
{
    arguments = parameters;
    muster = of_warp = {};
    for (; stacks < thread_count(); ++stacks)
        make_stack(threads[stacks].fibre, stacks);
    for (unsigned number = 0; number < thread_count(); ++number) {
        threads[number].index = thread_at(number);
        prepare_fibre(threads[number].fibre, run_thread);
    }
    current = 0;
    threadIdx = threads[0].index;
    switch_fibre(&whole_block, &threads[0].fibre);
    if (is_broken())
        (of_warp.waiting > 0 ? of_warp : muster).complain();
    return !is_broken();
}

#endif

/* The first block, and the last, which may carry fewer vectors: to spoil all shared memory costs more than a block. */
bool is_first_or_last()
{
    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    return first || (blockIdx.x + 1 == gridDim.x && blockIdx.y + 1 == gridDim.y && blockIdx.z + 1 == gridDim.z);
}

bool run_block(void *const *parameters)
{
    if (is_first_or_last() || last_launch != parameters)
        spoil_shared_memory();
    last_launch = parameters;
    return (running->barriers ? run_together(parameters) : run_loop(parameters)) && guard_is_whole();
}

/* When it is its turn. */
bool take_turn(const simulated_kernel &kernel, uint3 grid, uint3 block, size_t shared_bytes, uint3 at,
               void *const *parameters)
{
    pthread_mutex_lock(&multiprocessor);
    running = &kernel;
    dynamic_bytes = shared_bytes;
    gridDim = grid;
    blockDim = block;
    blockIdx = at;
    const bool done = run_block(parameters);
    pthread_mutex_unlock(&multiprocessor);
    return done;
}

} // namespace

void simulated_barrier(simulated_site site)
{
    if (!running->barriers)
        refuse_barrier(site);
    meet(site);
}

void simulated_warp_barrier(simulated_site site)
{
    if (!running->barriers)
        refuse_barrier(site);
    meet_warp(site);
}

unsigned simulated_thread()
{
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

bool simulated_launch(const simulated_kernel &kernel, uint3 grid, uint3 block, size_t shared_bytes,
                      void *const *parameters)
{
    uint3 at;
    for (at.z = 0; at.z < grid.z; ++at.z)
        for (at.y = 0; at.y < grid.y; ++at.y)
            for (at.x = 0; at.x < grid.x; ++at.x)
                if (!take_turn(kernel, grid, block, shared_bytes, at, parameters))
                    return false;
    return true;
}
