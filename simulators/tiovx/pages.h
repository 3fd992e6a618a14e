/* Memory by pages, which can be closed: whoever touches it then is told, see app.c. */
#ifndef PAGES_H
#define PAGES_H

#include <stddef.h>
#include <stdint.h>

enum { POISON = 0xa5 };

size_t page_bytes(void);
size_t rounded_up(size_t value, size_t multiple);

/* Pages that nobody can touch; NULL: there are none. */
uint8_t *pages_reserve(size_t bytes);

/* Gives back what they hold, and keeps their addresses closed; whether it did. */
int pages_withdraw(uint8_t *start, size_t bytes);

#endif
