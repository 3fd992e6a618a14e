/* Passes vectors through a simulated layer or chain, and notes in which cycles.
 *
 * usage: driver CODES VALUES CYCLES DEPTH WIDTH RATE
 *
 * CODES is a file of uint8, DEPTH a vector; VALUES becomes one of uint32, WIDTH a vector; CYCLES one of uint64, two a
 * vector: the cycle in which its first code is taken, and that in which its last value is.  RATE is
 *     fast     a code is offered, and a value taken, in every cycle
 *     alone    so, but a vector waits until the one before has left
 *     stalls   whether, is drawn in every cycle; now codes, now values are the rarer
 * Registers start with random values.  Exit 1: values that nobody waits for, 2: none any more where some should be.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "Vdut.h"
#include "verilated.h"

static std::vector<uint8_t> contents(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        abort();
    std::vector<uint8_t> bytes;
    for (int byte = fgetc(file); byte != EOF; byte = fgetc(file))
        bytes.push_back(static_cast<uint8_t>(byte));
    fclose(file);
    return bytes;
}

template <typename T> static void keep(const char *path, const std::vector<T> &values)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(values.data(), sizeof(T), values.size(), file) != values.size() || fclose(file) != 0)
        abort();
}

/* One cycle up to the rising edge, whose outputs are those that count, and then the edge. */
struct Bench {
    Vdut dut;
    bool took = false, gave = false;
    uint32_t value = 0;

    void cycle(bool reset, bool offer, uint8_t code, bool take)
    {
        dut.reset = reset;
        dut.in_valid = offer;
        dut.in_code = code;
        dut.out_ready = take;
        dut.clock = 0;
        dut.eval();
        took = offer && dut.in_ready;
        gave = take && dut.out_valid;
        value = dut.out_value;
        dut.clock = 1;
        dut.eval();
    }
};

class Rate {
public:
    explicit Rate(const std::string &name) : alone(name == "alone"), stalls(name == "stalls") {}

    bool offer(size_t first_code, size_t vector, size_t left) { return alone && first_code ? left == vector : draw(0); }
    bool take() { return draw(512); }
    void next() { now++; }

private:
    const bool alone, stalls;
    uint64_t now = 0;
    std::minstd_rand random{1};

    /* Three in four in some stretches of time, one in four in the others. */
    bool draw(uint64_t shift) { return !stalls || random() % 4 < ((now + shift) / 1024 % 2 ? 3u : 1u); }
};

int main(int count, char **arguments)
{
    if (count != 7)
        abort();
    Verilated::randReset(2);
    const std::vector<uint8_t> codes = contents(arguments[1]);
    const size_t depth = strtoul(arguments[4], nullptr, 10), width = strtoul(arguments[5], nullptr, 10);
    const size_t vectors = codes.size() / depth, patience = 64 * (depth + width) + 4096;
    std::vector<uint32_t> values;
    std::vector<uint64_t> cycles(2 * vectors);
    Rate rate(arguments[6]);
    Bench bench;

    for (int i = 0; i < 3; i++)
        bench.cycle(true, false, 0, false);
    size_t entered = 0;
    for (uint64_t now = 0, idle = 0; idle < patience; now++, idle++, rate.next()) {
        const size_t vector = entered / depth, left = values.size() / width;
        const bool offer = rate.offer(entered % depth == 0, vector, left) && entered < codes.size();
        bench.cycle(false, offer, offer ? codes[entered] : 0xa5, rate.take());
        if (bench.took && entered++ % depth == 0)
            cycles[2 * vector] = now;
        if (bench.gave) {
            if (values.size() == vectors * width)
                return 1;
            values.push_back(bench.value);
            if (values.size() % width == 0)
                cycles[2 * left + 1] = now;
        }
        if (bench.took || bench.gave)
            idle = 0;
    }
    if (values.size() < vectors * width)
        return 2;
    keep(arguments[2], values);
    keep(arguments[3], cycles);
    return 0;
}
