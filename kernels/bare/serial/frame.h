/* Frames of a serial line.
 *
 * A frame is a kind, a sequence number, a payload, and the CRC-32 of all of these (IEEE 802.3, low byte first).  It is
 * sent between two zero bytes and holds none, by consistent overhead byte stuffing (COBS; Cheshire and Baker, IEEE/ACM
 * Transactions on Networking, 1999): the first zero byte ends the rest of a frame that was interrupted.
 */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARGEST_PAYLOAD = 1040, FRAME_OVERHEAD = 6 };

struct frame {
    size_t payload_bytes;
    unsigned char content[LARGEST_PAYLOAD + FRAME_OVERHEAD]; /* kind, sequence number, payload, CRC */
};

static inline unsigned char *frame_payload(struct frame *frame)
{
    return frame->content + 2;
}

/* The CRC-32 of bytes that follow others with the CRC-32 `crc`, 0 for none. */
uint32_t frame_crc(uint32_t crc, const unsigned char *data, size_t bytes);

/* Send a frame; its CRC is computed here. */
void frame_send(struct frame *frame);

/* Wait for a frame; return false if what came is none, or is damaged. */
bool frame_receive(struct frame *frame);

/* Numbers of 32 bits in a payload, low byte first. */
void frame_put(unsigned char *at, uint32_t number);
uint32_t frame_get(const unsigned char *at);

#endif
