/* No library writes to standard output: there are none. */
#include "stdout_redirect.h"

void quiet_begin(void)
{
}

void quiet_end(void)
{
}
