/* Standard output is for JSON lines: a library that prints what it does gets standard error in its place. */
#ifndef QUIET_H
#define QUIET_H

/* From here to the end that belongs to it; these may be nested. */
void quiet_begin(void);
void quiet_end(void);

#endif
