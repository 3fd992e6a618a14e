#include "frame.h"

#include "uart.h"

enum { LONGEST_LENGTH = 0xff };

/* Four bits at a time: a table of 16 words in place of 256. */
uint32_t frame_crc(uint32_t crc, const unsigned char *data, size_t bytes)
{
    static const uint32_t remainders[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    crc = ~crc;
    for (size_t i = 0; i < bytes; ++i) {
        crc ^= data[i];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

void frame_put(unsigned char *at, uint32_t number)
{
    for (int i = 0; i < 4; ++i)
        at[i] = (unsigned char)(number >> 8 * i);
}

uint32_t frame_get(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The bytes before each zero byte are sent after a length, which is their number plus one; the zero byte is not sent.
 * No zero byte follows the 254 bytes of the longest length.  The end of a frame counts as a zero byte. */
void frame_send(struct frame *frame)
{
    const size_t checked = 2 + frame->payload_bytes, bytes = checked + 4;
    frame_put(frame->content + checked, frame_crc(0, frame->content, checked));
    uart_send(0);
    for (size_t begin = 0; begin <= bytes;) {
        size_t end = begin;
        while (end < bytes && frame->content[end] && end - begin < LONGEST_LENGTH - 1)
            ++end;
        uart_send((unsigned char)(end - begin + 1));
        for (size_t i = begin; i < end; ++i)
            uart_send(frame->content[i]);
        begin = end - begin == LONGEST_LENGTH - 1 ? end : end + 1;
    }
    uart_send(0);
}

bool frame_receive(struct frame *frame)
{
    size_t bytes = 0;
    unsigned left = 0; /* bytes before the next length */
    bool zero_follows = false, fits = true;
    unsigned char byte = uart_receive();
    while (byte == 0)
        byte = uart_receive();
    for (; byte != 0; byte = uart_receive()) {
        unsigned char decoded = byte;
        if (left == 0) {
            const bool is_zero = zero_follows;
            left = byte;
            zero_follows = byte != LONGEST_LENGTH;
            decoded = 0;
            if (!is_zero) {
                --left;
                continue;
            }
        }
        --left;
        if (bytes < sizeof frame->content)
            frame->content[bytes++] = decoded;
        else
            fits = false;
    }
    if (!fits || left != 0 || bytes < FRAME_OVERHEAD)
        return false;
    frame->payload_bytes = bytes - FRAME_OVERHEAD;
    return frame_crc(0, frame->content, bytes - 4) == frame_get(frame->content + bytes - 4);
}
