/* The process's share of TIOVX. */
#ifndef APP_H
#define APP_H

/* Between appInit and appDeInit. */
int app_runs(void);

#endif
