/* The serial port of the board, one byte at a time. */
#ifndef UART_H
#define UART_H

/* Switch the port on, with the clocks and pins that the profile's `setup` needs. */
void uart_begin(void);

void uart_send(unsigned char byte);

/* Wait for a byte. */
unsigned char uart_receive(void);

#endif
