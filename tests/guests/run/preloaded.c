/* A library that a user preloads: wraps read and open and says at the end how often they were called. */
#include "hostile.h"
#include <dlfcn.h>

static int reads, opens;

ssize_t read(int fd, void *bytes, size_t count)
{
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    reads++;
    return next(fd, bytes, count);
}

int preloaded_count(void)
{
    return ++opens;
}

__attribute__((destructor)) static void report(void)
{
    if (getenv("PRELOADED_REPORTS"))
        dprintf(1, "reads %d\n", reads);
}
