/* Calls to the host over a serial line.
 *
 * The program sends a request and waits for the reply with its sequence number.  It sends the request again if what
 * comes is damaged, or if the host asks for it, which it does after a silence; the host answers a request that it knows
 * with the same reply, and does nothing twice.  The program needs no clock for this.
 */
#include "host.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "board.h"
#include "frame.h"
#include "timer.h"
#include "uart.h"

enum { PROTOCOL = 1, LARGEST_PIECE = 1024 };

/* The kinds of frames. */
enum kind {
    HELLO = 'H', COMMAND_LINE = 'C', OPEN = 'O', CLOSE = 'X', READ = 'R', WRITE = 'W', SEEK = 'S', EXIT = 'E',
    REPLY = '=', REPEAT = '?'
};

extern const unsigned char image_begin[], data_source[]; /* program.ld */
extern unsigned char data_begin[], data_end[];

#define VECTOR_TABLE (*(volatile uintptr_t *)0xe000ed08u)

static struct frame request, reply;
static int last_error;

static bool is_replied(unsigned char sequence)
{
    while (frame_receive(&reply)) {
        if (reply.content[0] == REPEAT)
            return false;
        if (reply.content[0] == REPLY && reply.content[1] == sequence && reply.payload_bytes >= 8)
            return true;
    }
    return false;
}

/* Send a request of two numbers and some bytes; return the number in the reply, which stays in `reply`. */
static uint32_t call(enum kind kind, uint32_t first, uint32_t second, const void *data, size_t bytes)
{
    static unsigned char sequence;
    request.content[0] = (unsigned char)kind;
    request.content[1] = sequence;
    request.payload_bytes = 8 + bytes;
    frame_put(frame_payload(&request), first);
    frame_put(frame_payload(&request) + 4, second);
    memcpy(frame_payload(&request) + 8, data, bytes);
    do
        frame_send(&request);
    while (!is_replied(sequence));
    sequence = sequence == 255 ? 1 : sequence + 1; /* 0 is that of the first request alone */
    const uint32_t error = frame_get(frame_payload(&reply) + 4);
    if (error)
        last_error = (int)error;
    return frame_get(frame_payload(&reply));
}

static size_t smaller(size_t bytes)
{
    return bytes < LARGEST_PIECE ? bytes : LARGEST_PIECE;
}

/* The data that came with the last reply, at most as many bytes as there is room for. */
static size_t take(void *data, size_t room)
{
    const size_t bytes = reply.payload_bytes - 8;
    const size_t count = bytes < room ? bytes : room;
    memcpy(data, frame_payload(&reply) + 8, count);
    return count;
}

/* A boot loader may have left another vector table.
 *
 * The host compares the CRC of the program's image with that of the program that it means. */
void host_begin(void)
{
    VECTOR_TABLE = (uintptr_t)image_begin;
    timer_begin();
    uart_begin();
    const size_t image_bytes = (size_t)(data_source - image_begin) + (size_t)(data_end - data_begin);
    call(HELLO, PROTOCOL, frame_crc(0, image_begin, image_bytes), "", 0);
}

int host_open(const char *path, enum host_mode mode)
{
    const size_t bytes = strlen(path);
    if (bytes > LARGEST_PIECE) {
        last_error = ENOENT;
        return -1;
    }
    return (int)call(OPEN, mode, 0, path, bytes);
}

int host_close(int handle)
{
    return (int)call(CLOSE, (uint32_t)handle, 0, "", 0);
}

size_t host_write(int handle, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (bytes) {
        const size_t piece = smaller(bytes), written = call(WRITE, (uint32_t)handle, 0, at, piece);
        if (written > piece)
            break;
        at += written;
        bytes -= written;
        if (written < piece)
            break;
    }
    return bytes;
}

size_t host_read(int handle, void *data, size_t bytes)
{
    unsigned char *at = data;
    while (bytes) {
        call(READ, (uint32_t)handle, (uint32_t)smaller(bytes), "", 0);
        const size_t count = take(at, smaller(bytes));
        if (count == 0)
            break;
        at += count;
        bytes -= count;
    }
    return bytes;
}

int host_seek(int handle, size_t position)
{
    return (int)call(SEEK, (uint32_t)handle, (uint32_t)position, "", 0);
}

int host_errno(void)
{
    return last_error;
}

int host_command_line(char *text, size_t size)
{
    size_t length = 0;
    while (length + 1 < size) {
        call(COMMAND_LINE, (uint32_t)length, (uint32_t)smaller(size - 1 - length), "", 0);
        const size_t count = take(text + length, size - 1 - length);
        if (count == 0) {
            text[length] = '\0';
            return 1;
        }
        length += count;
    }
    return 0;
}

void host_exit(int status)
{
    for (;;)
        call(EXIT, (uint32_t)status, 0, "", 0);
}
